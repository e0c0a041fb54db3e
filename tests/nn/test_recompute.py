import copy

import pytest
import torch
from torch import nn

import lrga
from lrga.errors import OptionError
from lrga.nn.recompute import recompute_layers

EDGES = torch.randint(30, (2, 120), generator=torch.Generator().manual_seed(0))


def passes(model, x, times=2):
    """Outputs, gradients and statistics after some steps; dropout from one seed."""
    torch.manual_seed(3)
    outputs = []
    for _ in range(times):
        model.zero_grad()
        out = model(x, EDGES)
        (out * torch.arange(out.numel(), dtype=out.dtype).view_as(out)).sum().backward()
        outputs.append(out.detach())
    return outputs, [p.grad for p in model.parameters()], list(model.buffers())


@pytest.mark.parametrize("conv", ["gcn", "gat", "gatedgcn", "graphsage", "gin"])
@pytest.mark.parametrize("rank", [None, 3])
def test_values_gradients_dropout_and_statistics_are_those_without(conv, rank):
    plain = lrga.GNN(5, 8, 2, 3, conv=conv, rank=rank, dropout=0.3).double()
    again = recompute_layers(copy.deepcopy(plain))
    assert list(again.state_dict()) == list(plain.state_dict())
    x = torch.randn(30, 5, dtype=torch.float64)
    for ours, theirs in zip(passes(again, x), passes(plain, x), strict=True):
        for a, b in zip(ours, theirs, strict=True):
            assert (a is None) == (b is None)
            assert a is None or torch.allclose(a, b, atol=1e-12)


def test_less_is_kept_for_the_backward_pass():
    def kept(model):
        seen = {}

        def pack(tensor):
            seen[tensor.untyped_storage().data_ptr()] = tensor.untyped_storage().nbytes()
            return tensor

        with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
            out = model(torch.randn(3000, 8), torch.randint(3000, (2, 9000)))
        out.sum().backward()
        return sum(seen.values())

    model = lrga.GNN(8, 32, 2, 8, conv="gcn", rank=8)
    assert kept(recompute_layers(copy.deepcopy(model))) < kept(model) / 2


def test_twice_is_once_copies_work_and_a_model_without_layers_is_refused():
    model = recompute_layers(lrga.GNN(5, 8, 2, 1, rank=3))
    first = model.layers[0].forward
    assert recompute_layers(model).layers[0].forward is first
    other = copy.deepcopy(model)
    with torch.no_grad():
        other.layers[0].mix.weight.zero_()
    x = torch.randn(30, 5)
    assert not torch.equal(model.eval()(x, EDGES), other.eval()(x, EDGES))
    with pytest.raises(OptionError, match="LRGALayer"):
        recompute_layers(nn.Linear(2, 2))
