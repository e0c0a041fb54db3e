"""Runs every GPU kernel once, forward and backward, under a memory checker.

    PYTORCH_NO_CUDA_MEMORY_CACHING=1 compute-sanitizer --tool memcheck --error-exitcode 9 python benchmarks/memcheck.py

Odd sizes, isolated nodes, an empty graph and a graph of one node; the checker reports accesses out of bounds. First
the models run with their own choice of kernels, then each kernel is called directly. The operators and kernels
that ran are counted and listed at the end; stderr shows the progress. On a CPU (--device cpu) the kernels run in
Triton's interpreter, TRITON_INTERPRET=1, which only tests the script and takes minutes.
"""

import argparse
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace

import torch
from timing import need_kernels
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode
from torch_geometric.data import Data

import lrga
from lrga.data.packed import PackedGraphs
from lrga.data.packed.padded import Capacity, PaddedGraphs
from lrga.models.gnn import CONVOLUTIONS
from lrga.ops import _triton
from lrga.ops import linear as linear_ops
from lrga.ops.attention.segments import Segments, Tiles
from lrga.ops.gated import gpu as gated_gpu
from lrga.ops.gated.definition import gated_edges_fused
from lrga.ops.neighbors.edges import EdgeLayout
from lrga.ops.neighbors.reduce import sum_edges, sum_sources
from lrga.ops.norm.definition import BatchNormState

SIZES = (37, 0, 1, 70, 12)
CHANNELS, RANK = 20, 5
ROWS, LARGE, HUB = 1_237, 20_011, 2_111


class Operators(TorchDispatchMode):
    """Records the names of the called operators of this package."""

    def __init__(self) -> None:
        super().__init__()
        self.names: set[str] = set()

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):  # type: ignore[no-untyped-def]
        if str(func).startswith("lrga."):
            self.names.add(str(func).split(".")[1])
        return func(*args, **(kwargs or {}))


def graphs(device: str) -> tuple[Tensor, Tensor, Tensor]:
    """Node features, edges within each graph (some nodes have none) and the batch vector."""
    batch = torch.repeat_interleave(torch.arange(len(SIZES)), torch.tensor(SIZES))
    first = torch.tensor([0, *SIZES]).cumsum(0)
    edges = torch.cat([first[i] + torch.randint(0, n, (2, 7 * n)) for i, n in enumerate(SIZES) if n > 1], dim=1)
    return torch.randn(len(batch), CHANNELS).to(device), edges.to(device), batch.to(device)


def run(device: str) -> set[str]:
    """Runs everything once; returns the names of the operators that ran."""
    torch.manual_seed(0)
    x, edge_index, batch = graphs(device)
    layout, _ = EdgeLayout.from_edge_index(edge_index, len(x))
    with Operators() as seen:
        for conv in CONVOLUTIONS:
            say(f"model of {conv}")
            model = lrga.GNN(CHANNELS, 18, 3, 2, conv=conv, rank=RANK, task="graph").to(device)
            model(x, layout, batch=batch, num_graphs=len(SIZES)).sum().backward()
        say("sums, attention, mixture and batches")
        leaf = x.clone().requires_grad_()
        weight = torch.rand(layout.num_edges, device=device, requires_grad=True)
        (sum_sources(leaf, layout, weight).sum() + sum_edges(leaf[layout.source], layout, len(x)).sum()).backward()
        u = torch.rand(len(x), RANK, device=device, requires_grad=True)
        lrga.low_rank_attention(u, u, leaf, batch, len(SIZES)).sum().backward()
        large = torch.randn(LARGE, 33, device=device, requires_grad=True)
        lrga.LowRankGlobalAttention(33, 7, heads=2).to(device)(large).sum().backward()
        parts = [torch.randn(9, 2, device=device, requires_grad=True) for _ in range(2)]
        linear_ops._in_one_type(parts, torch.randn(3, 4, device=device), None).sum().backward()
        path = torch.tensor([[0, 1], [1, 0]])
        packed = PackedGraphs.from_data_list([Data(x=torch.rand(2, 3), edge_index=path) for _ in range(5)]).to(device)
        PaddedGraphs(packed).gather(torch.tensor([3, 0, 5], device=device), Capacity(9, 11))
    if device == "cuda":
        torch.cuda.synchronize()
    return seen.names


@contextmanager
def launches() -> Iterator[set[str]]:
    """Records the kernels launched inside the block as ``module.name``; compiled kernels are looked up again."""
    _triton._compiled.clear()
    from triton.runtime.jit import KernelInterface

    names: set[str] = set()
    launch = KernelInterface.__getitem__

    def noted(kernel, grid):  # type: ignore[no-untyped-def]
        name = f"{kernel.fn.__module__.removeprefix('lrga.ops.')}.{kernel.fn.__name__}"
        if name not in names:
            say(f"kernel {name}")
        names.add(name)
        return launch(kernel, grid)

    KernelInterface.__getitem__ = noted
    try:
        yield names
    finally:
        KernelInterface.__getitem__ = launch


def run_kernels(device: str) -> set[str]:
    """Runs every kernel once, independent of the automatic choice; returns the names of those that were launched."""
    torch.manual_seed(0)
    before = torch.backends.cuda.matmul.allow_tf32
    torch.backends.cuda.matmul.allow_tf32 = True  # selects our own kernel for products of edges
    try:
        with launches() as names:
            over_edges(device)
            over_rows(device)
            attention(device)
            batches(device)
    finally:
        torch.backends.cuda.matmul.allow_tf32 = before
    if device == "cuda":
        torch.cuda.synchronize()
    return names


def over_edges(device: str) -> None:
    """Sums, maxima, attention over edges and GatedGCN, with a node of so many edges that they are split."""
    from lrga.ops.gat import gpu as gat_gpu
    from lrga.ops.neighbors import gpu as neighbors_gpu

    x, edge_index, _ = graphs(device)
    hub = torch.stack([torch.randint(0, len(x), (HUB,)), torch.full((HUB,), 3)]).to(device)
    x.requires_grad_()
    for ends, longest in ((edge_index, None), (hub, HUB), (hub.flip(0), HUB)):
        layout = replace(EdgeLayout.from_edge_index(ends, len(x))[0], longest=longest)
        weight = torch.rand(layout.num_edges, device=device, requires_grad=True)
        graph, split = neighbors_gpu.graph_of(layout, x), neighbors_gpu.may_be_long(layout.num_edges, longest)
        neighbors_gpu.sum_sources_op(x, weight, None, None, graph, split).sum().backward()
        neighbors_gpu.sum_edges_op(x[layout.source], layout.target, layout.in_ptr, split).sum().backward()
    layout, _ = EdgeLayout.from_edge_index(edge_index, len(x))
    neighbors_gpu.max_sources_op(x, neighbors_gpu.graph_of(layout, x))[0].sum().backward()
    heads, vectors = x.view(-1, 4, CHANNELS // 4), torch.randn(2, 4, CHANNELS // 4, device=device, requires_grad=True)
    scores = gat_gpu.node_scores(heads, *vectors.unbind())
    graph = neighbors_gpu.graph_of(layout, heads, *scores)
    gat_gpu.attend_op(heads, *scores, graph, 0.2, False)[0].sum().backward()
    e = layout.num_edges
    for width in (CHANNELS, gated_gpu.MAX_PRODUCT_WIDTH + 5):  # our product, and the library's
        shapes = ((e, width), (width, width), (width,), *[(len(x), width)] * 3)
        tensors = [torch.randn(shape, device=device, requires_grad=True) for shape in shapes]
        norm = BatchNormState(*(torch.ones(width, device=device) for _ in range(4)), None, 0.1, 1e-5)
        mean, new = gated_edges_fused(*tensors, layout, norm=norm, scale=torch.rand(e, 1, device=device))
        assert new is not None
        (mean.sum() + new.square().sum()).backward()


def over_rows(device: str) -> None:
    """Normalisation and sums of columns."""
    from lrga.ops.linear import launch_column_sum
    from lrga.ops.norm import gpu as norm_ops

    for rows in (ROWS, norm_ops.MIN_WHOLE // 33 + 77):
        x = torch.randn(rows, 33, device=device, requires_grad=True)
        state = BatchNormState(*(torch.ones(33, device=device) for _ in range(4)), torch.tensor(0, device=device))
        real = torch.tensor(rows - 7, device=device)
        for training, count, after in ((True, None, "relu"), (True, real, "elu"), (False, None, "relu")):
            norm_ops.batch_norm(x, state, training=training, count=count, after=after, residual=x).sum().backward()
    x = torch.randn(ROWS, 33, device=device, requires_grad=True)
    launch_column_sum(x.detach().unsqueeze(0))
    norm_ops.UnitRows.apply(x, 1e-12).square().sum().backward()


def attention(device: str) -> None:
    """Attention of many graphs, and of one large graph: projections stored, computed again, and by chunks."""
    from lrga.ops.attention import streaming
    from lrga.ops.attention.batched import fused_attention, tiled_attention

    x, _, batch = graphs(device)
    tiles = Tiles.of(Segments.from_batch(batch, len(batch), len(SIZES)), batch.device)
    weight, bias = (torch.randn(shape, device=device, requires_grad=True) for shape in ((40, CHANNELS), (40,)))
    fused_attention(
        x.requires_grad_(), weight, bias, tiles, heads=2, rank=RANK, eps=1e-6, dtype=torch.float32
    ).sum().backward()
    u = torch.rand(len(x), 1, RANK, device=device, requires_grad=True)
    tiled_attention(u, u, x.view(-1, 1, CHANNELS), tiles, eps=1e-6).sum().backward()
    half = torch.bfloat16 if device == "cuda" else torch.float16  # the interpreter cannot multiply bfloat16
    stored_bytes = streaming.STORED_BYTES
    for channels, most in ((70, stored_bytes), (70, 0), (CHANNELS, stored_bytes)):
        streaming.STORED_BYTES = most
        for dtype in (torch.float32, half):
            large = torch.randn(LARGE, channels, device=device, requires_grad=True)
            weight, bias = (torch.randn(shape, device=device, requires_grad=True) for shape in ((40, channels), (40,)))
            out = streaming.streaming_attention(large, weight, bias, heads=2, rank=RANK, eps=1e-6, dtype=dtype)
            out.float().sum().backward()
    streaming.STORED_BYTES = stored_bytes


def batches(device: str) -> None:
    """A batch of two paths of two nodes with padding."""
    from lrga.ops.neighbors import batch_layout

    table = torch.tensor([[0, 0, 2, 2], [2, 2, 2, 2], [4, 4, 0, 0]], device=device)
    begins, shift, _, _ = batch_layout.batch_begins(table, torch.tensor([1, 0, 2], device=device), 9)
    source, target = (torch.tensor(ends, device=device) for ends in ([1, 0, 1, 0], [0, 1, 0, 1]))
    start = torch.arange(5, device=device)
    batch_layout.batch_layout_op([begins, shift, source, target, source, start, start], [9, 11, 0, 0])


def say(what: str) -> None:
    """Progress, on stderr."""
    print(what, file=sys.stderr, flush=True)


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "--device", default="cuda", choices=("cuda", "cpu"), help="cpu only tests the script and takes minutes"
    )
    device = parser.parse_args(arguments).device
    need_kernels(device)
    for what, everything in (("operators", run), ("kernels", run_kernels)):
        names = everything(device)
        print(f"{len(names)} {what} ran: {', '.join(sorted(names))}", flush=True)


if __name__ == "__main__":
    main()
