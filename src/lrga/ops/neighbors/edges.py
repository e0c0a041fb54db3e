"""The edges of one or more graphs in the order in which they are summed: by target.

Sorted once, every layer of a network sums over runs of consecutive edges instead of scattering them, forward through
``in_ptr`` and backward (over the edges that leave a node) through ``out_order`` and ``out_ptr``.

Letters: N nodes, T targets and S sources (N each in a whole graph), E edges.
"""

from collections.abc import Callable
from dataclasses import dataclass, fields, replace
from typing import Any, ClassVar

import torch
from torch import Tensor

from lrga.checks import check_count, may_read_values
from lrga.errors import DeviceError, DTypeError, ShapeError, UnsupportedError
from lrga.ops.cached import Keeps, kept, outside_inference

INTEGERS = (torch.int64, torch.int32)
# Some megabytes of features: near the core, yet few chunks, for each wakes the threads anew.
EDGES_OF_A_CHUNK = 1 << 15


@dataclass(frozen=True, eq=False)
class EdgeLayout(Keeps):
    """Edges in the order of their targets.

    Args:
        source: Where each edge begins, ``[E]`` int64.
        target: Where each edge ends, ``[E]`` int64, non-decreasing.
        num_targets: T, the nodes that edges may end in; the sources are the same nodes, and more of them in a part of a
            graph (see :attr:`num_sources`).
        in_ptr: The edges that end in node i are ``in_ptr[i] … in_ptr[i + 1] - 1``; ``[T + 1]``.
        out_order: Permutation that sorts these edges by source, ``[E]``; stable but in a transposed layout.
        out_ptr: The edges that begin in node i are ``out_order[out_ptr[i] : out_ptr[i + 1]]``; ``[S + 1]``.
        longest: No node has more edges than this, in or out, if known: GPU kernels then need not prepare for one that
            has very many.
        gcn_factors: What GCN multiplies sums into and features out of each node by, ``[T]`` and ``[S]``, where these
            are not 1/√ of the degrees here: in a sample or a part of a larger graph.
        valid_nodes: In a batch of fixed capacity, how many nodes are real, the first ones: a 0-dimensional int64 tensor
            on the device, so that nothing waits for it. Values of the other rows are finite and mean nothing; what
            takes statistics over rows looks at these only. ``None``: all are real.
        valid_edges: Likewise of the edges; no node sums the others on a GPU.

    Example:
        >>> import torch
        >>> edge_index = torch.tensor([[0, 2, 1], [1, 0, 0]])
        >>> layout, order = EdgeLayout.from_edge_index(edge_index, num_nodes=3)
        >>> layout.target.tolist(), layout.source.tolist(), order.tolist()
        ([0, 0, 1], [2, 1, 0], [1, 2, 0])
    """

    source: Tensor
    target: Tensor
    num_targets: int
    in_ptr: Tensor
    out_order: Tensor
    out_ptr: Tensor
    longest: int | None = None
    gcn_factors: tuple[Tensor, Tensor] | None = None
    valid_nodes: Tensor | None = None
    valid_edges: Tensor | None = None
    is_partitioned: ClassVar[bool] = False  # whether sources may be nodes of other ranks, see lrga.distributed

    @staticmethod
    @outside_inference
    def from_edge_index(edge_index: Tensor, num_nodes: int, *, check: bool = True) -> tuple["EdgeLayout", Tensor]:
        """Sorts PyG's ``[2, E]`` tensor (row 0 source, row 1 target).

        Args:
            edge_index: Edges in any order.
            num_nodes: N.
            check: ``False`` skips the checks, for edges that have passed them.

        Returns:
            The layout and ``order`` ``[E]``: attributes of the given edges follow as ``edge_attr[order]``.
        """
        if check:
            check_edge_index(edge_index, num_nodes)
        source, target = edge_index.long()
        target, order = torch.sort(target, stable=True)
        source = source.index_select(0, order)
        by_source, out_order = torch.sort(source, stable=True)
        in_ptr, out_ptr = run_starts(target, num_nodes), run_starts(by_source, num_nodes)
        return EdgeLayout(source, target, num_nodes, in_ptr, out_order, out_ptr), order

    @property
    def num_sources(self) -> int:
        """S, the nodes that edges may begin in."""
        return self.out_ptr.size(0) - 1

    @property
    def num_nodes(self) -> int:
        """The nodes whose features a layer is given: the targets."""
        return self.num_targets

    def with_sources(self, x: Tensor) -> Tensor:
        """Features of all sources ``[S, …]`` from those of the nodes ``[T, …]``: x itself, unless the graph is
        partitioned and some sources lie elsewhere."""
        return x

    def sum_ranks(self, total: Tensor) -> Tensor:
        """A sum over the nodes here, summed over all ranks where the graph is partitioned."""
        return total

    @property
    def graph_size(self) -> tuple[int, int] | None:
        """Nodes and edges of the whole graph where this is one rank's part of it, else ``None``."""
        return None

    @property
    def num_edges(self) -> int:
        """E."""
        return self.source.size(0)

    @property
    def device(self) -> torch.device:
        """Where the tensors lie."""
        return self.source.device

    @property
    def edge_index(self) -> Tensor:
        """The edges as PyG writes them, ``[2, E]``, in this order."""
        return torch.stack([self.source, self.target])

    @kept
    def in_degree(self) -> Tensor:
        """Edges that end in each node, ``[T]``."""
        return self.in_ptr.diff()

    @kept
    def out_degree(self) -> Tensor:
        """Edges that begin in each node, ``[S]``."""
        return self.out_ptr.diff()

    @kept
    def out_target(self) -> Tensor:
        """Where the edges end, in the order of their sources: those that leave node i end in
        ``out_target[out_ptr[i] : out_ptr[i + 1]]``; ``[E]``."""
        return self.target.index_select(0, self.out_order)

    @kept
    def degree_roots(self) -> tuple[Tensor, Tensor]:
        """1/√ of each node's edges in and out, at least one, ``[T]`` and ``[S]`` float32: once for all layers."""
        dst_scale, src_scale = (d.clamp(min=1).float().rsqrt() for d in (self.in_degree, self.out_degree))
        return dst_scale, src_scale

    @kept
    def degree_inverse(self) -> Tensor:
        """1 / (edges that end in each node, at least one), ``[T]`` float32."""
        return self.in_degree.clamp(min=1).float().reciprocal()

    @kept
    def transposed(self) -> "EdgeLayout":
        """Every edge turned round, in the order of what were the sources (edge k was edge ``out_order[k]``)."""
        positions = torch.arange(self.num_edges, device=self.device)
        back = torch.empty_like(self.out_order).index_copy(0, self.out_order, positions)
        source, target = self.target.index_select(0, self.out_order), self.source.index_select(0, self.out_order)
        return EdgeLayout(source, target, self.num_sources, self.out_ptr, back, self.in_ptr, self.longest)

    @kept
    def with_loops(self) -> "EdgeLayout":
        """These edges with exactly one self-loop at each node: existing self-loops are replaced."""
        loops = torch.arange(self.num_targets, device=self.device)
        edges = torch.cat([self.edge_index[:, self.source != self.target], loops.expand(2, -1)], dim=1)
        layout, _ = EdgeLayout.from_edge_index(edges, self.num_sources)
        if self.num_targets == self.num_sources:
            return layout
        return replace(layout, num_targets=self.num_targets, in_ptr=layout.in_ptr[: self.num_targets + 1])

    @kept
    def has_loops(self) -> bool:
        """Whether any edge runs from a node to itself."""
        return bool((self.source == self.target).any())

    @kept
    def ones(self) -> Tensor:
        """Weight one for every edge, ``[E]`` float32: the values of an unweighted sparse matrix."""
        return torch.ones(self.num_edges, device=self.device)

    @kept
    def chunks(self) -> list[tuple[int, int, int, int]]:
        """``(first node, end node, first edge, end edge)`` of runs of whole targets with many edges each."""
        steps = torch.arange(0, self.num_edges, EDGES_OF_A_CHUNK, device=self.device)
        starts = torch.searchsorted(self.in_ptr, steps, right=True) - 1
        nodes = torch.unique(torch.cat([starts, starts.new_tensor([0, self.num_targets])]))
        edges = self.in_ptr.index_select(0, nodes)
        node_list, edge_list = nodes.tolist(), edges.tolist()
        return [
            (node_list[i], node_list[i + 1], edge_list[i], edge_list[i + 1])
            for i in range(len(node_list) - 1)
            if edge_list[i] < edge_list[i + 1]
        ]

    @kept
    def longest_chunk(self) -> int:
        """Edges of the largest of the :attr:`chunks`."""
        return max((end - first for _, _, first, end in self.chunks), default=0)

    @kept
    def chunk_sums(self) -> list[Tensor]:
        """For each of the :attr:`chunks` the sparse matrix that sums its edges into its nodes."""
        positions = torch.arange(self.longest_chunk, device=self.device)
        return [
            torch.sparse_csr_tensor(
                self.in_ptr[first_node : end_node + 1] - first,
                positions[: end - first],
                self.ones[: end - first],
                (end_node - first_node, end - first),
                check_invariants=False,
            )
            for first_node, end_node, first, end in self.chunks
        ]

    @outside_inference
    def map(self, function: Callable[[Tensor], Tensor]) -> "EdgeLayout":
        """The layout with ``function`` applied to each of its tensors."""
        given = {field.name: getattr(self, field.name) for field in fields(self)}
        mapped: dict[str, Any] = {name: function(value) for name, value in given.items() if isinstance(value, Tensor)}
        if self.gcn_factors is not None:
            mapped["gcn_factors"] = (function(self.gcn_factors[0]), function(self.gcn_factors[1]))
        return replace(self, **mapped)

    def to(self, device: torch.device | str, *, non_blocking: bool = False) -> "EdgeLayout":
        """The layout on another device."""
        return self.map(lambda tensor: tensor.to(device, non_blocking=non_blocking))

    def __repr__(self) -> str:
        return f"EdgeLayout(num_nodes={self.num_nodes}, num_edges={self.num_edges}, device='{self.device}')"


def run_starts(sorted_ids: Tensor, num_nodes: int) -> Tensor:
    """Where the run of each node begins in ``sorted_ids`` ``[E]``, and where the last one ends: ``[N + 1]``."""
    return torch.searchsorted(sorted_ids, torch.arange(num_nodes + 1, device=sorted_ids.device))


def check_edge_index(edge_index: Tensor, num_nodes: int) -> None:
    """Refuses anything but ``[2, E]`` integer node ids below ``num_nodes``."""
    check_count("num_nodes", num_nodes)
    if not isinstance(edge_index, Tensor):
        raise DTypeError(
            "edge_index to be a tensor of shape [2, E]",
            type(edge_index).__name__,
            "pass data.edge_index, or torch.tensor([sources, targets])",
        )
    if edge_index.dim() != 2 or edge_index.size(0) != 2:
        raise ShapeError(
            "edge_index of shape [2, E], row 0 the sources and row 1 the targets",
            f"shape {list(edge_index.shape)}",
            "transpose a list of pairs with edge_index.t()" if edge_index.shape[-1:] == (2,) else "stack two rows",
        )
    if edge_index.dtype not in INTEGERS:
        raise DTypeError("node numbers of type int64 in edge_index", str(edge_index.dtype), "call edge_index.long()")
    if edge_index.size(1) == 0 or not may_read_values(edge_index):
        return
    low, high = int(edge_index.min()), int(edge_index.max())
    if low < 0 or high >= num_nodes:
        raise ShapeError(
            f"node numbers between 0 and {num_nodes - 1} in edge_index, there being {num_nodes} nodes",
            f"node {low if low < 0 else high}",
            "give x one row for each node that an edge mentions, or remove the dangling edges",
        )


def check_not_partitioned(edges: object) -> None:
    """Refuses the edges of one rank's part of a graph, whose sources may lie past the rows of x."""
    if getattr(edges, "is_partitioned", False):
        raise UnsupportedError(
            "edges between the nodes of x",
            "the edges of a partitioned graph (part.edges), which begin in nodes of other ranks too",
            "convert the model with lrga.distributed.partition_model(model, part)",
        )


def check_partitioned(edges: object) -> None:
    """Refuses anything but the edges of one rank's part of a graph."""
    if not getattr(edges, "is_partitioned", False):
        got = type(edges).__name__
        raise DTypeError("the edges of this rank's part, part.edges", got, "call the model with x and part.edges")


def check_edges_fit(edges: "EdgeLayout | Tensor", num_nodes: int, device: torch.device) -> None:
    """Refuses edges of another number of nodes, or on another device, than the node features."""
    if isinstance(edges, EdgeLayout):
        if edges.num_nodes != num_nodes:
            raise ShapeError(
                f"an EdgeLayout of {num_nodes} nodes, as x has rows",
                f"one of {edges.num_nodes}",
                "pass the layout that belongs to these node features",
            )
    else:
        check_edge_index(edges, num_nodes)
    if edges.device != device:
        raise DeviceError(
            "x and the edges on one device", f"x on {device}, edges on {edges.device}", f"call .to('{device}')"
        )
