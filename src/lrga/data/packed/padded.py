"""Batches of a fixed capacity, gathered on the device of the graphs without synchronising it.

A captured training step replays the same kernels on the same memory, so every batch has the same shapes: B graphs, N
nodes and E edges. Real graphs, nodes and edges come first. Unused graph slots hold empty graphs. Padding nodes belong
to a dummy graph, number B; there is always at least one. Padding edges are loops at the padding nodes, spread evenly
(at a single node their sum could overflow). On a GPU ``in_ptr`` and ``out_ptr`` end at the last real edge, so kernels
that use them skip the padding. On a CPU they include the loops, because its sparse products need a pointer for every
edge.

Letters: B graphs, N nodes and E edges of a padded batch; G graphs of the set.
"""

from dataclasses import dataclass, replace

import torch
from torch import Tensor

from lrga.data.packed.batch import COLUMNS
from lrga.data.packed.graphs import PackedGraphs
from lrga.data.packed.segments import narrow, pointer, repeat
from lrga.errors import DataError
from lrga.ops.attention.segments import Segments
from lrga.ops.neighbors.batch_layout import batch_begins, batch_layout
from lrga.ops.neighbors.edges import EdgeLayout, run_starts


@dataclass(frozen=True, order=True)
class Capacity:
    """Capacity of a batch: nodes (including at least one dummy) and edges."""

    nodes: int
    edges: int

    def holds(self, nodes: int, edges: int) -> bool:
        """Whether this many real nodes and edges fit."""
        return nodes < self.nodes and edges <= self.edges


@dataclass(eq=False)
class PaddedBatch:
    """A padded batch; the attributes are those of :class:`~lrga.data.packed.batch.PackedBatch`.

    Attributes:
        segments: Nodes by graph, of ``B + 1`` graphs; the last one is the dummy.
        real: Number of real rows of each level ``"node"``, ``"edge"`` and ``"graph"``, 0-dimensional int64.
        mask: Attribute ``mask`` of the set at the level of y, if any.
    """

    x: Tensor | None
    edges: EdgeLayout
    edge_attr: Tensor | None
    y: Tensor | None
    mask: Tensor | None
    batch: Tensor
    segments: Segments
    real: dict[str, Tensor]
    num_graphs: int  # including the dummy
    num_nodes: int
    num_edges: int
    node_encoding: Tensor | None = None
    edge_encoding: Tensor | None = None

    def valid(self, level: str) -> Tensor:
        """Bool mask of the predictions that count: real rows that are in the set's mask, if any."""
        rows = {"node": self.num_nodes, "edge": self.num_edges, "graph": self.num_graphs - 1}[level]
        real = torch.arange(rows, device=self.batch.device) < self.real[level]
        return real if self.mask is None else real & self.mask.view(rows)


class PaddedGraphs:
    """A packed set that yields batches of a fixed capacity.

    Args:
        graphs: The set, on any device.

    Example:
        >>> from torch_geometric.data import Data
        >>> path = torch.tensor([[0, 1], [1, 0]])
        >>> data = [Data(x=torch.full((2, 1), float(i)), edge_index=path) for i in range(4)]
        >>> padded = PaddedGraphs(PackedGraphs.from_data_list(data))
        >>> batch = padded.gather(torch.tensor([2, 0, padded.empty_graph]), Capacity(8, 10))
        >>> batch.x[:4, 0].tolist(), batch.batch.tolist(), int(batch.real["graph"])
        ([2.0, 2.0, 0.0, 0.0], [0, 0, 1, 1, 3, 3, 3, 3], 2)
    """

    def __init__(self, graphs: PackedGraphs) -> None:
        self.graphs, self.device = graphs, graphs.device
        self._source, (self._order, _) = graphs.source, graphs.transposed
        structure = graphs.kept("padded", lambda: _structure(graphs))
        self.table, self._in_start, self._out_start, self._target, self._longest = structure
        self._spare_node, self._spare_edge = _finite_row(graphs, "node"), _finite_row(graphs, "edge")

    @property
    def empty_graph(self) -> int:
        """The index that stands for an empty graph."""
        return len(self.graphs)

    def valid_per_graph(self, level: str) -> Tensor:
        """[G + 1] on the CPU: number of nodes, edges or graphs of each graph that count (those in the mask, if any)."""
        graphs, mask = self.graphs, self.graphs.columns.get("mask")
        ptrs = {"node": graphs.host_node_ptr, "edge": graphs.host_edge_ptr}
        ptr = ptrs.get(level, torch.arange(len(graphs) + 1))
        if mask is not None:
            ptr = pointer(mask.values.cpu().view(-1).long())[ptr]
        return torch.nn.functional.pad(ptr.diff(), (0, 1))

    def gather(self, index: Tensor, capacity: Capacity) -> PaddedBatch:
        """Batches the graphs ``index`` ``[B]``; entries :attr:`empty_graph` must come last.

        Nothing is read from the device: the caller must make sure that the graphs fit.
        """
        size, nodes, edges = index.size(0), capacity.nodes, capacity.edges
        begins, shift, ptr, real_graphs = batch_begins(self.table, index, nodes)
        graph, row, in_ptr, out_ptr, edge_row, source, target, out_order = batch_layout(
            [begins, shift, self._source, self._target, self._order, self._in_start, self._out_start],
            [nodes, edges, self._spare_node, self._spare_edge],
        )
        real_nodes, real_edges = begins[size].unbind(0)
        if self.device.type == "cpu":
            in_ptr = run_starts(target, nodes)
            out_ptr = torch.where(torch.arange(nodes + 1) > real_nodes, in_ptr, out_ptr)

        batch = graph[:nodes]
        rows = {"node": row[:nodes], "edge": edge_row, "graph": index.clamp(max=len(self.graphs) - 1)}
        return PaddedBatch(
            edges=EdgeLayout(
                source,
                target,
                nodes,
                in_ptr,
                out_order,
                out_ptr,
                self._longest,
                valid_nodes=real_nodes,
                valid_edges=real_edges,
            ),
            batch=batch,
            segments=Segments.from_ptr(ptr, batch),
            real={"node": real_nodes, "edge": real_edges, "graph": real_graphs},
            num_graphs=size + 1,
            num_nodes=nodes,
            num_edges=edges,
            **{name: self._column(name, rows) for name in (*COLUMNS, "mask")},
        )

    def _column(self, name: str, rows: dict[str, Tensor]) -> Tensor | None:
        column = self.graphs.columns.get(name)
        if column is None:
            return None
        if column.values.size(0) == 0:  # a set without edges
            column = replace(column, values=column.values.new_zeros(1, *column.values.shape[1:]))
        return column.take(rows[column.level])


def why_not_padded(graphs: PackedGraphs) -> str | None:
    """Why these graphs do not support batches of a fixed capacity; ``None`` if they do."""
    if graphs.num_nodes == 0 or len(graphs) == 0:
        return "there is no node"
    for level in ("node", "edge"):
        try:
            _finite_row(graphs, level)
        except DataError:
            return f"no {level} has finite features"
    return None


def _structure(graphs: PackedGraphs) -> tuple[Tensor, Tensor, Tensor, Tensor, int]:
    """Table of the graphs, first edge into and out of each node, target of each edge, maximum degree."""
    node_ptr, (_, out_degree) = graphs.node_ptr, graphs.transposed
    starts = torch.stack([node_ptr, graphs.edge_ptr], dim=1)  # [G + 1, 2]
    counts = torch.cat([starts.diff(dim=0), starts.new_zeros(1, 2)])
    table = torch.cat([starts, counts], dim=1)  # first node, first edge, nodes, edges; the last graph is empty
    in_degree = graphs.in_degree.long()
    local = torch.arange(graphs.num_nodes, device=graphs.device)
    local -= repeat(node_ptr[:-1], node_ptr.diff(), graphs.num_nodes)
    target = repeat(narrow(local), in_degree, graphs.num_edges)
    longest = max(int(degree.max()) if degree.numel() else 0 for degree in (in_degree, out_degree))
    return table, pointer(in_degree), pointer(out_degree.long()), target, longest


def _finite_row(graphs: PackedGraphs, level: str) -> int:
    """Index of a node or edge with finite features: padding repeats it and must not introduce NaN."""
    name = {"node": "x", "edge": "edge_attr"}[level]
    column = graphs.columns.get(name)
    if column is None or column.level != level or not column.values.is_floating_point() or not column.values.numel():
        return 0
    finite = column.values.flatten(1).isfinite().all(1) if column.values.dim() > 1 else column.values.isfinite()
    if not bool(finite.any()):
        raise DataError(f"a {level} with finite features", "none", "check the data for NaN and infinity")
    return int(finite.int().argmax())
