"""Runs every GPU kernel once, forward and backward, for a memory checker to watch.

    PYTORCH_NO_CUDA_MEMORY_CACHING=1 compute-sanitizer --tool memcheck --error-exitcode 9 python benchmarks/memcheck.py

Odd sizes, isolated nodes, an empty graph and a graph of one node; a checker then sees every access out of bounds. The
kernels that ran are counted and named at the end, from PyTorch's own list of operators.
"""

import argparse

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode
from torch_geometric.data import Data

import lrga
from lrga.data.fixed import Capacity, FixedGraphs
from lrga.data.packed import PackedGraphs
from lrga.kernels import mix
from lrga.kernels.edges import EdgeLayout
from lrga.kernels.message import sum_edges, sum_sources
from lrga.models.gnn import CONVOLUTIONS

SIZES = (37, 0, 1, 70, 12)
CHANNELS, RANK = 20, 5


class Operators(TorchDispatchMode):
    """Keeps the names of this package's operators that were called."""

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
    """Everything once; the names of the operators that ran."""
    torch.manual_seed(0)
    x, edge_index, batch = graphs(device)
    layout, _ = EdgeLayout.from_edge_index(edge_index, len(x))
    with Operators() as seen:
        for conv in CONVOLUTIONS:
            model = lrga.GNN(CHANNELS, 18, 3, 2, conv=conv, rank=RANK, task="graph").to(device)
            model(x, layout, batch=batch, num_graphs=len(SIZES)).sum().backward()
        leaf = x.clone().requires_grad_()
        weight = torch.rand(layout.num_edges, device=device, requires_grad=True)
        (sum_sources(leaf, layout, weight).sum() + sum_edges(leaf[layout.source], layout, len(x)).sum()).backward()
        u = torch.rand(len(x), RANK, device=device, requires_grad=True)
        lrga.low_rank_attention(u, u, leaf, batch, len(SIZES)).sum().backward()
        large = torch.randn(20_011, 33, device=device, requires_grad=True)
        lrga.LowRankGlobalAttention(33, 7, heads=2).to(device)(large).sum().backward()
        parts = [torch.randn(9, 2, device=device, requires_grad=True) for _ in range(2)]
        mix._mixed(parts, torch.randn(3, 4, device=device), None).sum().backward()
        path = torch.tensor([[0, 1], [1, 0]])
        packed = PackedGraphs.from_data_list([Data(x=torch.rand(2, 3), edge_index=path) for _ in range(5)]).to(device)
        FixedGraphs(packed).gather(torch.tensor([3, 0, 5], device=device), Capacity(9, 11))
    if device == "cuda":
        torch.cuda.synchronize()
    return seen.names


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", default="cuda", choices=("cuda", "cpu"), help="cpu only tries the script")
    names = sorted(run(parser.parse_args().device))
    print(f"{len(names)} operators ran: {', '.join(names)}")


if __name__ == "__main__":
    main()
