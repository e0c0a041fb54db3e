"""Proposition 2: networks with random features are permutation equivariant in expectation.

For a graph with adjacency A and a permutation P, GNN(P[X, R], P A Pᵀ) = P GNN([X, R], A); and P R has the law of R. So
the expectations over R of RGNN(P A Pᵀ) and of P RGNN(A) agree, and averages over s independent draws differ by
O(s^(-1/2)). Features that are drawn once and held (node identifiers) have no such property: their gap stays.
"""

import torch
from torch import Tensor, nn
from torch_geometric.nn import GraphConv

from lrga.nn.random_features import RandomFeatures
from lrga.theory.inputs import GraphLike, as_graph
from lrga.theory.labelled import LabelledGraph

_COPIES = 256  # graphs side by side in one pass


class _SmallGNN(nn.Module):
    """Two layers of message passing with tanh between; bounded, so that averages settle quickly."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.first, self.second = GraphConv(channels, 16, aggr="mean"), GraphConv(16, 1, aggr="mean")

    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        return torch.tanh(self.second(torch.tanh(self.first(x, edge_index)), edge_index))


def equivariance_gap(
    graph: GraphLike, samples: int, *, channels: int = 8, held: bool = False, generator: torch.Generator | None = None
) -> float:
    """Root mean square of RGNN(P G) − P RGNN(G), each averaged over its own draws of random features.

    Args:
        graph: Any graph that :func:`lrga.theory.as_graph` reads.
        samples: Draws that each of the two averages is taken over.
        channels: Random features per node.
        held: Draw the features once and keep them (node identifiers), for comparison.
        generator: Source of the draws, of the network's weights and of the permutation.
    """
    graph = as_graph(graph)
    generator = torch.Generator().manual_seed(0) if generator is None else generator
    model = _SmallGNN(channels)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.copy_(torch.randn(parameter.shape, generator=generator))
        network = RandomFeatures(model, channels, mode="replace", resample=not held, generator=generator).eval()
        order = torch.randperm(graph.num_nodes, generator=generator)
        plain = _mean_output(network, graph, 1 if held else samples)
        moved = _mean_output(network, graph.permuted(order.tolist()), 1 if held else samples)
    return float((moved[order] - plain).square().mean().sqrt())  # node i of the graph is node order[i] of the copy


def _mean_output(network: nn.Module, graph: LabelledGraph, samples: int) -> Tensor:
    """Average over draws, many at a time: copies of the graph side by side, each with random features of its own."""
    edge_index = torch.stack([torch.from_numpy(graph.source), torch.from_numpy(graph.target)])
    total, left = torch.zeros(graph.num_nodes), samples
    while left:
        copies = min(left, _COPIES)
        shift = graph.num_nodes * torch.arange(copies).repeat_interleave(edge_index.size(1))
        out = network(torch.zeros(copies * graph.num_nodes, 1), edge_index.repeat(1, copies) + shift)
        total += out.view(copies, graph.num_nodes).sum(dim=0)
        left -= copies
    return total / samples
