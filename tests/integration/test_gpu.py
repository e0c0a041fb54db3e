"""The layers on a CUDA device: `pytest -m gpu`."""

import copy

import pytest
import torch
from torch.utils.checkpoint import checkpoint
from torch_geometric.nn import GCN, GCNConv

import lrga
from lrga.errors import BatchError, DeviceError, NonFiniteError
from lrga.models.gnn import CONVOLUTIONS, GNN
from lrga.training.capture.engine import no_waiting

pytestmark = pytest.mark.gpu
D = 8


@pytest.fixture(autouse=True)
def needs_cuda():
    if not torch.cuda.is_available():
        pytest.skip("there is no CUDA device")
    torch.backends.cuda.matmul.allow_tf32 = False


def graphs(*sizes, dtype=torch.float64, device="cuda"):
    batch = torch.repeat_interleave(torch.arange(len(sizes)), torch.tensor(sizes))
    n = len(batch)
    return (t.to(device) for t in (torch.randn(n, D, dtype=dtype), torch.randint(0, n, (2, 4 * n)), batch))


@pytest.mark.parametrize("normalize", ["graph", "row", None])
@pytest.mark.parametrize("sizes", [(3, 5, 0, 70, 1), (400,), tuple(range(40))])
def test_the_attention_equals_that_of_the_cpu(sizes, normalize):
    module = lrga.LowRankGlobalAttention(D, 5, heads=2, normalize=normalize).double()
    there = copy.deepcopy(module).cuda()
    x, _, batch = graphs(*sizes)
    x.requires_grad_()
    out = there(x, batch, len(sizes))
    out.square().sum().backward()
    local = x.detach().cpu().requires_grad_()
    expected = module(local, batch.cpu(), len(sizes))
    expected.square().sum().backward()
    torch.testing.assert_close(out.cpu(), expected, rtol=1e-10, atol=1e-12)
    torch.testing.assert_close(x.grad.cpu(), local.grad, rtol=1e-9, atol=1e-10)


def test_with_the_number_of_graphs_nothing_waits_for_the_gpu():
    module = lrga.LowRankGlobalAttention(D, 5).cuda()
    x, _, batch = graphs(30, 2, 50, dtype=torch.float32)
    model = GNN(D, 16, 3, 2, conv="gatedgcn", rank=4, task="graph").cuda()
    edges = torch.randint(0, 82, (2, 300), device="cuda")
    with no_waiting():
        module(x, batch, num_graphs=3).sum().backward()
        model(x, edges, batch=batch, num_graphs=3).sum().backward()


def test_values_are_checked_only_while_checking_is_on():
    module = lrga.LowRankGlobalAttention(D, 5).cuda()
    x, _, batch = graphs(4, 4, dtype=torch.float32)
    with lrga.checking():
        with pytest.raises(BatchError, match="-1"):
            module(x, batch - 1, num_graphs=2)
        with pytest.raises(NonFiniteError):
            module(x / 0, batch, num_graphs=2)


def test_mixed_devices_are_refused():
    module = lrga.LowRankGlobalAttention(D, 5).cuda()
    x, _, batch = graphs(4, 4, dtype=torch.float32)
    with pytest.raises(DeviceError, match="x on cuda:0, batch on cpu"):
        module(x, batch.cpu())
    with pytest.raises(DeviceError, match="parameters on cuda:0"):
        module(x.cpu(), batch.cpu())


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_half_precision_and_autocast(dtype):
    u, v, z = (torch.full((3000, 30), 1e4, dtype=dtype, device="cuda", requires_grad=True) for _ in range(3))
    out = lrga.low_rank_attention(u, v, z, torch.arange(3000, device="cuda") // 1000)
    torch.testing.assert_close(out, torch.full_like(out, 1e4), rtol=1e-2, atol=0)
    out.float().mean().backward()
    assert all(t.grad.isfinite().all() for t in (u, v, z))
    with torch.autocast("cuda", dtype=dtype):
        exact = lrga.low_rank_attention(u.float(), v.float(), z.float())
        assert exact.dtype == torch.float32
        module = lrga.LowRankGlobalAttention(D, 5).cuda()
        x, _, batch = graphs(30, 2, 50, dtype=torch.float32)
        assert module(x, batch, 3).dtype == dtype


@pytest.mark.parametrize("rank", [None, 4])
@pytest.mark.parametrize("conv", CONVOLUTIONS)
def test_networks_equal_those_of_the_cpu(conv, rank):
    model = GNN(D, 12, 3, 3, conv=conv, rank=rank, task="graph", heads=1).double()
    there = copy.deepcopy(model).cuda()
    x, edge_index, batch = graphs(9, 30, 4)
    out = there(x, edge_index, batch=batch, num_graphs=3)
    out.square().sum().backward()
    expected = model(x.cpu(), edge_index.cpu(), batch=batch.cpu(), num_graphs=3)
    expected.square().sum().backward()
    torch.testing.assert_close(out.cpu(), expected, rtol=1e-8, atol=1e-10)
    for ours, theirs in zip(there.parameters(), model.parameters(), strict=True):
        ours, theirs = (torch.zeros_like(p) if p.grad is None else p.grad for p in (ours, theirs))
        torch.testing.assert_close(ours.cpu(), theirs, rtol=1e-6, atol=1e-8)


def test_augmented_models_and_random_features():
    x, edge_index, batch = graphs(9, 30, 4, dtype=torch.float32)
    original = GCN(D, 16, 2, 3).cuda()
    model = lrga.augment(original, rank=4)
    torch.testing.assert_close(model(x, edge_index, batch=batch), original(x, edge_index))  # before any training
    assert model(x, edge_index, batch=batch).device.type == "cuda"
    random = lrga.RandomFeatures(GCN(D + 4, 16, 2, 3).cuda(), 4, generator=torch.Generator().manual_seed(1))
    assert random(x, edge_index).shape == (43, 3)
    held = lrga.RandomFeatures(GCN(D + 4, 16, 2, 3), 4, resample=False).cuda().eval()
    torch.testing.assert_close(held(x, edge_index), held(x, edge_index))  # sums over edges have no fixed order


class Checkpointed(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.second = GCNConv(D, D), GCNConv(D, D)

    def forward(self, x, edge_index, batch, *, again=False):
        for conv in (self.first, self.second):
            x = checkpoint(conv, x, edge_index, use_reentrant=False) if again else conv(x, edge_index)
        return x


def test_layers_computed_again_in_the_backward_thread_take_the_batch_of_the_forward_pass():
    x, edge_index, batch = graphs(9, 30, 4)
    model = lrga.augment(Checkpointed(), rank=4, init="paper").cuda().double()
    losses = [model(x, edge_index, batch, again=again).square().sum() for again in (False, True)]
    with lrga.batch_context(None):
        expected, found = (torch.autograd.grad(loss, list(model.parameters())) for loss in losses)
    torch.testing.assert_close(found, expected)


def compiled_cases():
    yield lrga.augment(GCN(D, 16, 2, 3), rank=4, init="paper"), "batch_size"
    yield lrga.LRGAConv(GCNConv(D, D), D, D, rank=4), "num_graphs"


@pytest.mark.parametrize(("model", "count"), list(compiled_cases()), ids=["augmented", "convolution"])
def test_models_compile_without_breaks(model, count):
    torch._dynamo.reset()
    model = model.cuda().eval()
    compiled = torch.compile(model, fullgraph=True, dynamic=True)
    for sizes in ((9, 30, 4), (50, 1, 7, 80)):
        x, edge_index, batch = graphs(*sizes, dtype=torch.float32)
        expected, found = (run(x, edge_index, batch=batch, **{count: len(sizes)}) for run in (model, compiled))
        torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-4)
