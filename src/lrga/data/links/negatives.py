"""Pairs of nodes that are taken for no edge, drawn on the device of the graph, without waiting for it.

Letters: N nodes, M pairs to draw.
"""

import torch
from torch import Tensor

from lrga.checks import check_count
from lrga.data.links.data import as_edge_index
from lrga.errors import DataError, DTypeError, OptionError, ShapeError

KINDS = ("uniform", "no_edge")


def uniform_pairs(count: int, num_nodes: int, *, generator: torch.Generator) -> Tensor:
    """``count`` pairs of nodes, each node drawn independently, ``[2, M]``: some may be edges, few in a sparse graph.

    Example:
        >>> uniform_pairs(3, 5, generator=torch.Generator().manual_seed(0)).shape
        torch.Size([2, 3])
    """
    check_count("count", count)
    check_count("num_nodes", num_nodes, minimum=1)
    return torch.randint(num_nodes, (2, count), generator=generator, device=generator.device)


class NoEdgePairs:
    r"""Draws pairs that are no edge, in any direction, and no node with itself; each such pair is equally likely.

    Nothing is drawn and thrown away. Let :math:`k_0 < k_1 < …` be the numbers :math:`uN + v` of the forbidden pairs.
    The r-th number that is none of them is :math:`r + |\{i : k_i - i \leq r\}|`: one search in a sorted array for each
    pair, however dense the graph is.

    Args:
        edge: Edges ``[E', 2]``.
        num_nodes: N.
        undirected: Whether an edge forbids its inverse too.

    Example:
        >>> pairs = NoEdgePairs(torch.tensor([[0, 1], [1, 2]]), num_nodes=3)
        >>> pairs.count, sorted(set(map(tuple, pairs.draw(50, generator=torch.Generator()).t().tolist())))
        (2, [(0, 2), (2, 0)])
    """

    def __init__(self, edge: Tensor, num_nodes: int, *, undirected: bool = True) -> None:
        check_count("num_nodes", num_nodes, minimum=1)
        if num_nodes > 3_037_000_499:
            raise OptionError("fewer than 3,037,000,500 nodes", f"{num_nodes:,}", "draw uniform pairs instead")
        if edge.dim() != 2 or edge.size(1) != 2:
            got = f"shape {list(edge.shape)}"
            raise ShapeError("edges of shape [E, 2], a pair a row", got, "transpose an edge_index: edge_index.t()")
        if edge.is_floating_point() or edge.is_complex() or edge.dtype == torch.bool:
            raise DTypeError("edges of whole numbers", str(edge.dtype), "call edge.long()")
        edge = edge.long()  # u N + v does not fit into 32 bits
        if edge.numel() and not 0 <= int(edge.min()) <= int(edge.max()) < num_nodes:
            bad = int(edge.max()) if int(edge.min()) >= 0 else int(edge.min())
            raise DataError(f"edges between nodes 0 to {num_nodes - 1:,}", f"node {bad:,}", "count the nodes again")
        source, target = as_edge_index(edge, undirected=undirected)
        loops = torch.arange(num_nodes, device=edge.device) * (num_nodes + 1)
        keys = torch.cat([source * num_nodes + target, loops]).unique()  # sorted
        self.num_nodes, self.count = num_nodes, num_nodes * num_nodes - keys.numel()
        self.shifted = keys - torch.arange(keys.numel(), device=edge.device)

    def draw(self, count: int, *, generator: torch.Generator) -> Tensor:
        """``count`` pairs ``[2, M]``, with replacement."""
        check_count("count", count)
        if self.count == 0:
            raise DataError("a graph in which some pair is no edge", "a complete graph", "draw uniform pairs instead")
        place = torch.randint(self.count, (count,), generator=generator, device=generator.device)
        return self.at(place)

    def at(self, place: Tensor) -> Tensor:
        """The pairs at these places ``[M]`` (from 0) in the order of all pairs that are no edge, ``[2, M]``."""
        key = place + torch.searchsorted(self.shifted, place, right=True)
        return torch.stack([key // self.num_nodes, key % self.num_nodes])
