"""A batch of graphs from a packed set, created by index arithmetic.

Letters: G graphs, N nodes, E edges of the batch.
"""

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from lrga.data.packed.segments import Rows, Selection, numbers_repeated, pointer, repeat, take
from lrga.errors import OptionError
from lrga.ops.cached import outside_inference
from lrga.ops.neighbors.edges import EdgeLayout

if TYPE_CHECKING:
    from lrga.data.packed.graphs import PackedGraphs

COLUMNS = ("x", "edge_attr", "y", "node_encoding", "edge_encoding")  # what every batch has, if the set has it


@dataclass(eq=False)
class PackedBatch:
    """A batch of graphs.

    Attributes:
        x: [N, …] node features, or ``None``.
        edge_index: [2, E] int64, row 0 source, row 1 target, sorted by target.
        edge_attr: [E, …] edge features in the same order, or ``None``.
        y: Targets, one row for each node, edge or graph, or ``None``.
        batch: [N] int64, the graph of each node.
        ptr: [G + 1] int64, offsets of the nodes of each graph.
        num_graphs: G.
        num_nodes: N.
        num_edges: E.
        node_encoding: [N, P] positional encodings (:mod:`lrga.data.encodings`), if the set has them.
        edge_encoding: [E, Q] positional encodings of the edges.
        num_seeds: Number of seed nodes of a sampled batch (:mod:`lrga.data.packed.sampler`). They are the first nodes;
            loss and metric use only them.
    """

    x: Tensor | None
    edge_index: Tensor
    edge_attr: Tensor | None
    y: Tensor | None
    batch: Tensor
    ptr: Tensor
    num_graphs: int
    num_nodes: int
    num_edges: int
    _in_ptr: Tensor
    _packed: "PackedGraphs"
    _rows: dict[str, Rows]  # indices of nodes, edges and graphs in the set
    _edges: Selection
    _layout: EdgeLayout | None = None
    num_seeds: int | None = None
    node_encoding: Tensor | None = None
    edge_encoding: Tensor | None = None

    @classmethod
    def of(cls, packed: "PackedGraphs", host: slice | Tensor, on_device: Tensor | None) -> "PackedBatch":
        """Batches graphs of ``packed``, given their positions on the CPU and, unless a slice, on its device."""
        graphs = host if on_device is None else on_device
        nodes = Selection(packed.node_ptr, graphs, packed.host_node_ptr, host)
        edges = Selection(packed.edge_ptr, graphs, packed.host_edge_ptr, host)
        rows = {"node": nodes.rows, "edge": edges.rows, "graph": graphs}
        in_degree = take(packed.in_degree, nodes.rows)
        source = repeat(nodes.ptr[:-1], edges.counts, edges.total).add_(take(packed.source, edges.rows))
        columns: dict[str, Any] = {name: packed.attribute(name, rows) for name in COLUMNS}
        return cls(
            edge_index=torch.stack((source, numbers_repeated(in_degree, edges.total))),
            batch=numbers_repeated(nodes.counts, nodes.total),
            ptr=nodes.ptr,
            num_graphs=nodes.counts.numel(),
            num_nodes=nodes.total,
            num_edges=edges.total,
            _in_ptr=pointer(in_degree),
            _packed=packed,
            _rows=rows,
            _edges=edges,
            **columns,
        )

    def __len__(self) -> int:
        return self.num_graphs

    def __repr__(self) -> str:
        return f"PackedBatch({self.num_graphs} graphs, {self.num_nodes} nodes, {self.num_edges} edges)"

    @property
    def device(self) -> torch.device:
        """The device of the tensors."""
        return self.ptr.device

    @property
    @outside_inference
    def edges(self) -> EdgeLayout:
        """The edges for the message-passing kernels; nothing is sorted, because the set keeps both orders."""
        if self._layout is None:
            order, degree = self._packed.transposed
            self._layout = EdgeLayout(
                source=self.edge_index[0],
                target=self.edge_index[1],
                num_targets=self.num_nodes,
                in_ptr=self._in_ptr,
                out_order=self._in_batch(take(order, self._rows["edge"])),
                out_ptr=pointer(take(degree, self._rows["node"]).to(self.device)),
            )
        return self._layout

    def attribute(self, name: str) -> Tensor:
        """Any attribute of the set for these graphs, computed on request."""
        column = self._packed.columns.get(name)
        if column is None:
            expected = f"one of the attributes {', '.join(self._packed.columns) or '(none)'}"
            raise OptionError(expected, repr(name), "choose one of these")
        return column.take(self._rows[column.level]).to(self.device)

    def in_original_order(self, values: Tensor) -> Tensor:
        """Reorders rows for the edges of this batch, [E, …], to the original order of the edges."""
        order = self._packed.edge_order
        if order is None:
            return values
        place = self._in_batch(take(order, self._rows["edge"]))
        return torch.empty_like(values).index_copy_(0, place.to(values.device), values)

    def _in_batch(self, inside: Tensor) -> Tensor:
        """Converts edge numbers inside each graph to edge numbers of this batch, [E]."""
        return repeat(self._edges.ptr[:-1], self._edges.counts, self._edges.total).add_(inside).to(self.device)

    def to(self, device: str | torch.device) -> "PackedBatch":
        """The batch with its tensors on ``device``."""
        tensors = {key: value for key, value in vars(self).items() if isinstance(value, Tensor)}
        moved: dict[str, Any] = {key: value.to(device, non_blocking=True) for key, value in tensors.items()}
        return replace(self, **moved, _layout=None if self._layout is None else self._layout.to(device))
