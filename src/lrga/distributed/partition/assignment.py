"""Partitions: which rank owns which node.

Letters: N nodes, W parts (ranks).
"""

from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise

import torch
from torch import Tensor

from lrga.checks import check_count, check_edge_index
from lrga.errors import DTypeError, MissingDependencyError, OptionError, ShapeError


@dataclass(frozen=True, eq=False)
class Partition:
    """A partition of the nodes of a graph into parts.

    Args:
        starts: Part r has the nodes ``order[starts[r] : starts[r + 1]]``; W + 1 numbers from 0 to N.
        order: All nodes, sorted by part, ``[N]`` int64; ``None`` if the parts are blocks of consecutive nodes.

    Example:
        >>> partition = Partition.blocks(7, 3)
        >>> [partition.nodes(part).tolist() for part in range(3)]
        [[0, 1, 2], [3, 4], [5, 6]]
    """

    starts: tuple[int, ...]
    order: Tensor | None = None

    def __post_init__(self) -> None:
        starts = self.starts
        whole = all(isinstance(start, int) for start in starts)
        if len(starts) < 2 or not whole or starts[0] != 0 or any(a > b for a, b in pairwise(starts)):
            raise OptionError("increasing starts from 0, one more than parts", repr(starts), "pass e.g. (0, 4, 7)")
        if self.order is None:
            return
        # Edges of a missing or repeated node would be lost.
        fits = self.order.dtype == torch.int64 and self.order.device.type == "cpu"
        if not fits or not torch.equal(self.order.sort().values, torch.arange(starts[-1])):
            expected = f"order to contain every node from 0 to {starts[-1] - 1} once, int64 on the CPU"
            raise ShapeError(
                expected,
                f"{self.order.numel()} other numbers, {self.order.dtype} on {self.order.device}",
                "use Partition.of_assignment",
            )

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Partition) or self.starts != other.starts:
            return False
        if self.order is None or other.order is None:
            return self.order is other.order
        return torch.equal(self.order, other.order)

    def __hash__(self) -> int:
        return hash(self.starts)

    @staticmethod
    def blocks(num_nodes: int, parts: int) -> "Partition":
        """Blocks of consecutive nodes, whose sizes differ by at most one; the last are empty if N < W."""
        check_count("num_nodes", num_nodes)
        check_count("parts", parts, minimum=1)
        return Partition(tuple(part * (num_nodes // parts) + min(part, num_nodes % parts) for part in range(parts + 1)))

    @staticmethod
    def of_assignment(part_of_node: Tensor, parts: int) -> "Partition":
        """Creates a partition from the part of each node, ``[N]``."""
        check_count("parts", parts, minimum=1)
        if not isinstance(part_of_node, Tensor):
            got = type(part_of_node).__name__
            raise DTypeError("a tensor [N] with the part of each node", got, "call torch.as_tensor on it")
        if part_of_node.dim() != 1 or part_of_node.is_floating_point():
            got = f"{part_of_node.dtype} of shape {list(part_of_node.shape)}"
            raise ShapeError("one integer for each node, its part", got, "pass a vector [N]")
        if part_of_node.numel() and not 0 <= int(part_of_node.min()) <= int(part_of_node.max()) < parts:
            got = f"part {int(part_of_node.min())} to {int(part_of_node.max())}"
            raise OptionError(f"parts from 0 to {parts - 1}", got, "number the parts from 0")
        part_of_node = part_of_node.long().cpu()
        counts = torch.bincount(part_of_node, minlength=parts)
        starts = (0, *counts.cumsum(0).tolist())
        return Partition(starts, torch.argsort(part_of_node, stable=True))

    @staticmethod
    def metis(edge_index: Tensor, num_nodes: int, parts: int) -> "Partition":
        """Parts of nearly equal size with few edges between them, by METIS (extra ``metis``)."""
        check_edge_index(edge_index, num_nodes)
        check_count("parts", parts, minimum=1)
        if parts == 1 or num_nodes == 0:
            return Partition.blocks(num_nodes, parts)
        try:
            import pymetis
        except ImportError as error:
            remedy = "pip install 'lrga[metis]', or use method='blocks'"
            raise MissingDependencyError("the package pymetis, for METIS", "no such package", remedy) from error
        # METIS needs an undirected graph: both directions of every edge, once, no self-loops.
        source, target = edge_index.long().cpu()
        apart = source != target
        source, target = source[apart], target[apart]
        keys = torch.cat([source * num_nodes + target, target * num_nodes + source]).unique()
        source, target = torch.div(keys, num_nodes, rounding_mode="floor"), keys % num_nodes
        pointer = torch.zeros(num_nodes + 1, dtype=torch.int64)
        pointer[1:] = torch.bincount(source, minlength=num_nodes).cumsum(0)
        options = pymetis.Options(seed=0)  # all ranks must compute the same parts
        adjacency = pymetis.CSRAdjacency(pointer.numpy(), target.numpy())
        _, assigned = pymetis.part_graph(parts, adjacency, options=options)
        return Partition.of_assignment(torch.tensor(assigned), parts)

    @property
    def num_nodes(self) -> int:
        """N."""
        return self.starts[-1]

    @property
    def parts(self) -> int:
        """W."""
        return len(self.starts) - 1

    def nodes(self, part: int) -> Tensor:
        """The nodes of a part by their numbers in the whole graph, in the order of their local numbers."""
        begin, end = self.starts[part], self.starts[part + 1]
        return torch.arange(begin, end) if self.order is None else self.order[begin:end]

    @cached_property
    def place(self) -> Tensor | None:
        """Position of each node when the nodes are sorted by part, ``[N]``; ``None`` if the order does not change."""
        if self.order is None:
            return None
        return torch.empty_like(self.order).index_copy(0, self.order, torch.arange(self.num_nodes))

    def places(self, nodes: Tensor) -> Tensor:
        """Positions of ``nodes`` when the nodes are sorted by part."""
        return nodes if self.place is None else self.place.to(nodes.device).index_select(0, nodes)

    def owner_of_places(self, places: Tensor) -> Tensor:
        """The part of the nodes at these positions."""
        return torch.bucketize(places, torch.tensor(self.starts[1:]), right=True)
