"""The edges of one or more graphs, sorted by target for sums over neighbours.

After one sort, every layer of a network sums over consecutive edges instead of scattering them: forward with
``in_ptr``, and backward (over the outgoing edges of a node) with ``out_order`` and ``out_ptr``.

Letters: N nodes, T targets and S sources (N each in a whole graph), E edges.
"""

from collections.abc import Callable
from dataclasses import dataclass, fields, replace
from itertools import pairwise
from typing import Any, ClassVar

import torch
from torch import Tensor

from lrga.checks import check_edge_index
from lrga.errors import DeviceError, ShapeError
from lrga.ops.cached import Cacheable, cached, outside_inference

# Some megabytes of features: they fit the cache, with few chunks, because each chunk wakes the threads again.
EDGES_OF_A_CHUNK = 1 << 15


@dataclass(frozen=True, eq=False)
class EdgeLayout(Cacheable):
    """Edges sorted by target.

    Args:
        source: Source of each edge, ``[E]`` int64.
        target: Target of each edge, ``[E]`` int64, non-decreasing.
        num_targets: T, the possible targets. Sources are the same nodes, with additional ones in a part of a
            graph (see :attr:`num_sources`).
        in_ptr: The incoming edges of node i are ``in_ptr[i] … in_ptr[i + 1] - 1``; ``[T + 1]``.
        out_order: Permutation that sorts these edges by source, ``[E]``; stable except in a transposed layout.
        out_ptr: The outgoing edges of node i are ``out_order[out_ptr[i] : out_ptr[i + 1]]``; ``[S + 1]``.
        longest: Upper bound on the in- and out-degrees, if known: GPU kernels then do not prepare for nodes that
            have very many edges.
        gcn_factors: GCN's factors of the sums of targets and the features of sources, ``[T]`` and ``[S]``, if they
            are not 1/√ of the degrees here: in a sample or a part of a larger graph.
        valid_nodes: In a padded batch, the number of real nodes, which come first: a 0-dimensional int64 tensor
            on the device, to avoid synchronisation. Values of padding rows are finite but arbitrary;
            statistics over rows use the real rows only. ``None``: all are real.
        valid_edges: Likewise for the edges; on a GPU padding edges are not summed.

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
            check: ``False`` skips the checks, for edges that were checked before.

        Returns:
            The layout and ``order`` ``[E]``: sort edge attributes with ``edge_attr[order]``.
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
        """S, the number of possible sources."""
        return self.out_ptr.size(0) - 1

    @property
    def num_nodes(self) -> int:
        """The number of nodes whose features a layer receives: the targets."""
        return self.num_targets

    def with_sources(self, x: Tensor) -> Tensor:
        """Features of all sources ``[S, …]`` from those of the nodes ``[T, …]``: x itself, unless the graph is
        partitioned and some sources are on other ranks."""
        return x

    def sum_ranks(self, total: Tensor) -> Tensor:
        """Adds up a sum over local nodes over all ranks, if the graph is partitioned."""
        return total

    @property
    def graph_size(self) -> tuple[int, int] | None:
        """Nodes and edges of the whole graph if this is one rank's part of it, else ``None``."""
        return None

    @property
    def num_edges(self) -> int:
        """E."""
        return self.source.size(0)

    @property
    def device(self) -> torch.device:
        """The device of the tensors."""
        return self.source.device

    @property
    def edge_index(self) -> Tensor:
        """The edges in PyG's format, ``[2, E]``, in this order."""
        return torch.stack([self.source, self.target])

    @cached
    def in_degree(self) -> Tensor:
        """In-degree of each node, ``[T]``."""
        return self.in_ptr.diff()

    @cached
    def out_degree(self) -> Tensor:
        """Out-degree of each node, ``[S]``."""
        return self.out_ptr.diff()

    @cached
    def out_target(self) -> Tensor:
        """Targets of the edges, sorted by source: the outgoing edges of node i end in
        ``out_target[out_ptr[i] : out_ptr[i + 1]]``; ``[E]``."""
        return self.target.index_select(0, self.out_order)

    @cached
    def degree_roots(self) -> tuple[Tensor, Tensor]:
        """1/√ of the in- and out-degrees (at least 1), ``[T]`` and ``[S]`` float32; shared by all layers."""
        dst_scale, src_scale = (d.clamp(min=1).float().rsqrt() for d in (self.in_degree, self.out_degree))
        return dst_scale, src_scale

    @cached
    def degree_inverse(self) -> Tensor:
        """1 / in-degree (at least 1), ``[T]`` float32."""
        return self.in_degree.clamp(min=1).float().reciprocal()

    @cached
    def transposed(self) -> "EdgeLayout":
        """Every edge reversed, sorted by its former source (edge k was edge ``out_order[k]``)."""
        positions = torch.arange(self.num_edges, device=self.device)
        back = torch.empty_like(self.out_order).index_copy(0, self.out_order, positions)
        source, target = self.target.index_select(0, self.out_order), self.source.index_select(0, self.out_order)
        return EdgeLayout(source, target, self.num_sources, self.out_ptr, back, self.in_ptr, self.longest)

    @cached
    def with_loops(self) -> "EdgeLayout":
        """These edges with exactly one self-loop at each node: existing self-loops are replaced."""
        loops = torch.arange(self.num_targets, device=self.device)
        edges = torch.cat([self.edge_index[:, self.source != self.target], loops.expand(2, -1)], dim=1)
        layout, _ = EdgeLayout.from_edge_index(edges, self.num_sources)
        if self.num_targets == self.num_sources:
            return layout
        return replace(layout, num_targets=self.num_targets, in_ptr=layout.in_ptr[: self.num_targets + 1])

    @cached
    def has_loops(self) -> bool:
        """Whether there are self-loops."""
        return bool((self.source == self.target).any())

    @cached
    def ones(self) -> Tensor:
        """Weight 1 for every edge, ``[E]`` float32: the values of an unweighted sparse matrix."""
        return torch.ones(self.num_edges, device=self.device)

    @cached
    def chunks(self) -> list[tuple[int, int, int, int]]:
        """``(first node, end node, first edge, end edge)`` of runs of whole targets with many edges each."""
        steps = torch.arange(0, self.num_edges, EDGES_OF_A_CHUNK, device=self.device)
        starts = torch.searchsorted(self.in_ptr, steps, right=True) - 1
        nodes = torch.unique(torch.cat([starts, starts.new_tensor([0, self.num_targets])]))
        runs = pairwise(zip(nodes.tolist(), self.in_ptr.index_select(0, nodes).tolist(), strict=True))
        return [(node, end_node, edge, end_edge) for (node, edge), (end_node, end_edge) in runs if edge < end_edge]

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
    """Start of each node's entries in ``sorted_ids`` ``[E]``, followed by the end: ``[N + 1]``."""
    return torch.searchsorted(sorted_ids, torch.arange(num_nodes + 1, device=sorted_ids.device))


def check_edges_fit(edges: "EdgeLayout | Tensor", num_nodes: int, device: torch.device) -> None:
    """Raises an error if the edges have another number of nodes or another device than the node features."""
    if isinstance(edges, EdgeLayout):
        if edges.num_nodes != num_nodes:
            raise ShapeError(
                f"an EdgeLayout of {num_nodes} nodes, the number of rows of x",
                f"one of {edges.num_nodes} nodes",
                "pass the layout of the same graph as x",
            )
    else:
        check_edge_index(edges, num_nodes)
    if edges.device != device:
        raise DeviceError(
            "x and the edges on one device", f"x on {device}, edges on {edges.device}", f"call .to('{device}')"
        )
