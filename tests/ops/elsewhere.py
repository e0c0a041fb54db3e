"""A device that is neither a CPU nor a CUDA GPU, and everything of ours on it: run as a process of its own.

Its tensors hold a CPU tensor and compute with that; they have no memory that another device, NumPy or Triton could
read. Prints the names of the cases that do not give what a CPU gives.
"""

import copy
import traceback
from functools import partial

import torch
from torch import nn
from torch.utils._pytree import tree_leaves, tree_map
from torch.utils.backend_registration import _setup_privateuseone_for_python_backend
from torch_geometric.data import Data
from torch_geometric.nn import GCNConv

import lrga
from lrga.data.packed import PackedGraphs
from lrga.models.link import LinkGNN, LinkModel, LinkPredictor
from lrga.nn.blocks import attend_in_blocks
from lrga.ops import linear as linear_ops
from lrga.ops.neighbors.edges import EdgeLayout
from lrga.tasks import losses, metrics

NAME = "elsewhere"
no_double = True  # as on Apple's GPUs


class Elsewhere(torch.Tensor):
    @staticmethod
    def __new__(cls, inner):
        return torch.Tensor._make_wrapper_subclass(
            cls,
            inner.size(),
            strides=inner.stride(),
            storage_offset=inner.storage_offset(),
            dtype=inner.dtype,
            device=f"{NAME}:0",
            requires_grad=inner.requires_grad,
        )

    def __init__(self, inner):
        self.inner = inner

    def __repr__(self):
        return f"elsewhere({self.inner!r})"

    def tolist(self):
        return self.inner.tolist()

    @classmethod
    def __torch_dispatch__(cls, function, types, args=(), kwargs=None):
        return run(function, *args, **(kwargs or {}))


def run(function, *args, **kwargs):
    """The operation on what the tensors hold."""
    to_cpu = kwargs.get("device") is not None and torch.device(kwargs["device"]).type == "cpu"
    given = [t for t in tree_leaves((args, kwargs)) if isinstance(t, Elsewhere)]
    args, kwargs = tree_map(held, (args, kwargs))
    return tree_map(partial(wrapped, function=function, given=given, to_cpu=to_cpu), function(*args, **kwargs))


def held(value):
    if isinstance(value, torch.device):
        return torch.device("cpu")
    return value.inner if isinstance(value, Elsewhere) else value


def wrapped(value, *, function, given, to_cpu):
    if not isinstance(value, torch.Tensor) or to_cpu:
        return value
    for tensor in given:
        if tensor.inner is value:  # changed in place
            return tensor
    assert not (no_double and value.dtype == torch.float64), f"{function} in double precision"
    return Elsewhere(value)


def there(value):
    """A tensor, module or layout on the other device."""
    if isinstance(value, torch.Tensor):
        return Elsewhere(value.detach().clone()).requires_grad_(value.requires_grad)
    if isinstance(value, EdgeLayout):
        return value.map(there)
    for module in value.modules():
        for name, parameter in module._parameters.items():
            module._parameters[name] = None if parameter is None else nn.Parameter(there(parameter))
        for name, buffer in module._buffers.items():
            module._buffers[name] = None if buffer is None else there(buffer)
    return value


def compare(module, call, *given):
    """The same values and gradients on both devices."""
    module, inputs = copy.deepcopy((module, [v.detach() if isinstance(v, torch.Tensor) else v for v in given]))
    for value, original in zip(inputs, given, strict=True):
        if isinstance(value, torch.Tensor):
            value.requires_grad_(original.requires_grad)
    moved = [there(value) if isinstance(value, torch.Tensor | EdgeLayout) else value for value in inputs]
    other = there(copy.deepcopy(module))
    expected, found = call(module, *inputs), call(other, *moved)
    assert found.device.type == NAME
    torch.testing.assert_close(found.inner, expected, rtol=1e-4, atol=1e-5)
    if not expected.requires_grad:
        return
    expected.square().sum().backward()
    found.square().sum().backward()
    pairs = [*zip(module.parameters(), other.parameters(), strict=True), *zip(inputs, moved, strict=True)]
    for one, two in pairs:
        if isinstance(one, torch.Tensor) and one.grad is not None:
            torch.testing.assert_close(two.grad.inner, one.grad, rtol=1e-3, atol=1e-4)


def cases():
    x, edges = torch.randn(30, 8, requires_grad=True), torch.randint(0, 30, (2, 100))
    batch, layout = torch.arange(30) // 11, EdgeLayout.from_edge_index(edges, 30)[0]
    for conv in ("gcn", "gat", "gatedgcn", "graphsage", "gin"):
        for preset, task in (("2022", "edge"), ("2022", "graph"), ("2020", "node")):
            heads = 2 if conv == "gat" else 1
            model = lrga.GNN(8, 8, 3, 1, conv=conv, rank=3, heads=heads, task=task, preset=preset)
            for form in (edges, layout):
                call = lambda m, x, e, b: m(x, e, None, b, 3)  # noqa: E731
                yield f"{conv} {preset} {task}", partial(compare, model, call, x, form, batch)
    for backend in ("auto", "segmented", "dense"):
        for normalize in ("graph", "row", None):
            attention = lrga.LowRankGlobalAttention(8, 3, heads=2, backend=backend, normalize=normalize)
            yield f"attention {backend} {normalize}", partial(compare, attention, lambda m, x, b: m(x, b), x, batch)
            yield f"one graph {backend}", partial(compare, attention, lambda m, x: m(x), x)
    yield "blocks", partial(compare, attention, lambda m, x: attend_in_blocks(m, x, block=7), x.detach())
    convolution = lrga.LRGAConv(GCNConv(8, 8), 8, 8, 3)
    yield "convolution", partial(compare, convolution, lambda m, x, e, b: m(x, e, batch=b), x, edges, batch)
    for conv in ("gcn", "graphsage", "gat", "gin", "gatedgcn"):
        model = LinkModel(LinkGNN(8, 8, 2, conv=conv, rank=3), LinkPredictor(8, 8, 2))
        for form in (edges, layout):
            call = lambda m, x, e, p: m.score(m.encode(x, e), p)  # noqa: E731
            yield f"links by {conv}", partial(compare, model, call, x, form, edges[:, :5])
    yield "random features", random_features
    yield "measures", measures
    yield "packed batches", packed_batches


def random_features():
    model = there(lrga.RandomFeatures(nn.Linear(12, 2), 4))
    assert model(there(torch.randn(5, 8))).device.type == NAME


def measures():
    global no_double
    no_double = False  # metrics are in double precision wherever there is one
    scores, labels, targets = torch.randn(20, 3), torch.randint(0, 3, (20,)), torch.randn(20)
    for loss in (losses.cross_entropy, losses.weighted_cross_entropy):
        torch.testing.assert_close(loss(there(scores), there(labels)).inner, loss(scores, labels))
    for measure, given in ((partial(metrics.weighted_accuracy, num_classes=3), labels), (metrics.accuracy, labels)):
        assert float(measure(there(scores), there(given))) == float(measure(scores, given))
    assert float(metrics.mae(there(targets), there(scores[:, 0]))) == float(metrics.mae(targets, scores[:, 0]))
    assert float(metrics.auc(there(targets), there(targets))) == 0.5
    no_double = True


def packed_batches():
    graphs = [Data(x=torch.randn(4, 3), edge_index=torch.randint(0, 4, (2, 6)), y=torch.zeros(1)) for _ in range(5)]
    here = PackedGraphs.from_data_list(graphs, y_level="graph")
    moved = here.to(NAME)
    for index in ([3, 1, 4], slice(1, 3)):
        ours, theirs = here[index].batch(range(len(here[index]))), moved[index].batch(range(len(moved[index])))
        assert theirs.x.device.type == NAME
        assert torch.equal(theirs.x.inner, ours.x)
        for name in ("source", "target", "in_ptr", "out_order", "out_ptr"):
            assert torch.equal(getattr(theirs.edges, name).inner, getattr(ours.edges, name).long())


if __name__ == "__main__":
    _setup_privateuseone_for_python_backend(NAME)
    library = torch.library.Library("_", "IMPL")
    library.fallback(run, "PrivateUse1")
    torch.manual_seed(0)
    linear_ops.MIN_MIXED_NUMBERS = 0
    for name, case in cases():
        try:
            case()
        except Exception:
            print(name)
            traceback.print_exc(limit=-5)
