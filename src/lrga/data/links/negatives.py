"""Negative sampling on the device of the graph, without synchronising it.

Letters: N nodes, M pairs to sample.
"""

import torch
from torch import Tensor

from lrga.checks import check_count
from lrga.data.links.data import as_edge_index
from lrga.errors import DataError

KINDS = ("uniform", "no_edge")


def uniform_pairs(count: int, num_nodes: int, *, generator: torch.Generator) -> Tensor:
    """Samples ``count`` pairs of independent nodes, ``[2, M]``; some may be edges, but few in a sparse graph.

    Example:
        >>> uniform_pairs(3, 5, generator=torch.Generator().manual_seed(0)).shape
        torch.Size([2, 3])
    """
    check_count("count", count)
    check_count("num_nodes", num_nodes, minimum=1)
    return torch.randint(num_nodes, (2, count), generator=generator, device=generator.device)


class NoEdgePairs:
    r"""Samples pairs that are neither edges, in any direction, nor self-loops; each such pair is equally likely.

    Sampling is rejection-free. Let :math:`k_0 < k_1 < …` be the numbers :math:`uN + v` of the forbidden pairs. The
    r-th other number is :math:`r + |\{i : k_i - i \leq r\}|`: one search in a sorted array for each pair, however
    dense the graph is.

    Args:
        edge: Edges ``[E', 2]``.
        num_nodes: N.
        undirected: Whether the inverse of an edge is forbidden too.

    Example:
        >>> pairs = NoEdgePairs(torch.tensor([[0, 1], [1, 2]]), num_nodes=3)
        >>> pairs.count, sorted(set(map(tuple, pairs.draw(50, generator=torch.Generator()).t().tolist())))
        (2, [(0, 2), (2, 0)])
    """

    def __init__(self, edge: Tensor, num_nodes: int, *, undirected: bool = True) -> None:
        check_count("num_nodes", num_nodes, minimum=1)
        edge = edge.long()  # u N + v does not fit into 32 bits
        if edge.numel() and not 0 <= int(edge.min()) <= int(edge.max()) < num_nodes:
            got = f"nodes {int(edge.min()):,} to {int(edge.max()):,}"
            raise DataError(f"edges between nodes 0 to {num_nodes - 1:,}", got, "correct num_nodes")
        source, target = as_edge_index(edge, undirected=undirected)
        loops = torch.arange(num_nodes, device=edge.device) * (num_nodes + 1)
        keys = torch.cat([source * num_nodes + target, loops]).unique()  # sorted
        self.num_nodes, self.count = num_nodes, num_nodes * num_nodes - keys.numel()
        self.shifted = keys - torch.arange(keys.numel(), device=edge.device)

    def draw(self, count: int, *, generator: torch.Generator) -> Tensor:
        """Samples ``count`` pairs ``[2, M]`` with replacement."""
        check_count("count", count)
        if self.count == 0:
            remedy = "remove edges, or train with negatives='uniform'"
            raise DataError("a graph with at least one non-edge", "a complete graph", remedy)
        place = torch.randint(self.count, (count,), generator=generator, device=generator.device)
        return self.at(place)

    def at(self, place: Tensor) -> Tensor:
        """The pairs ``[2, M]`` at positions ``[M]`` (from 0) in the sorted list of all non-edges."""
        key = place + torch.searchsorted(self.shifted, place, right=True)
        return torch.stack([key // self.num_nodes, key % self.num_nodes])
