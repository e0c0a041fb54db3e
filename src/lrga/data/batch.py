"""Some graphs of a packed set side by side, cut out by index arithmetic.

Letters: G graphs, N nodes, E edges of the batch.
"""

from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from lrga.data.segments import Rows, add_repeated, cut, edge_ends, numbers_repeated, pointer, repeat, row_count, take
from lrga.errors import OptionError
from lrga.kernels.edges import EdgeLayout

if TYPE_CHECKING:
    from lrga.data.packed import PackedGraphs


@dataclass(eq=False)
class PackedBatch:
    """A batch of graphs.

    Attributes:
        x: [N, …] node features, or ``None``.
        edge_index: [2, E] int64, row 0 source, row 1 target, sorted by target.
        edge_attr: [E, …] edge features in that order, or ``None``.
        y: Targets, one row for each node, edge or graph, or ``None``.
        batch: [N] int64, the graph of each node.
        ptr: [G + 1] int64, the nodes of each graph.
        num_graphs: G.
        num_nodes: N.
        num_edges: E.
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
    _edge_shift: tuple[Tensor, Tensor]  # for each graph its first edge in the batch, and the number of its edges
    _packed: "PackedGraphs"
    _rows: dict[str, Rows]  # the rows of these nodes, edges and graphs in the set
    _layout: EdgeLayout | None = None

    @classmethod
    def of(cls, packed: "PackedGraphs", host: slice | Tensor, on_device: Tensor | None) -> "PackedBatch":
        """Cuts graphs out of ``packed``: their positions on the CPU and, unless they are a slice, on its device."""
        graphs = host if on_device is None else on_device
        node_rows, node_counts, ptr = cut(packed.node_ptr, graphs, packed.host_node_ptr, host)
        edge_rows, edge_counts, edge_ptr = cut(packed.edge_ptr, graphs, packed.host_edge_ptr, host)
        num_nodes, num_edges = row_count(node_rows), row_count(edge_rows)
        in_degree = take(packed.in_degree, node_rows)
        rows: dict[str, Rows] = {"node": node_rows, "edge": edge_rows, "graph": graphs}
        return cls(
            x=_column(packed, "x", rows),
            edge_index=edge_ends(take(packed.source, edge_rows), ptr[:-1], edge_counts, in_degree),
            edge_attr=_column(packed, "edge_attr", rows),
            y=_column(packed, "y", rows),
            batch=numbers_repeated(node_counts, num_nodes),
            ptr=ptr,
            num_graphs=node_counts.numel(),
            num_nodes=num_nodes,
            num_edges=num_edges,
            _in_ptr=pointer(in_degree),
            _edge_shift=(edge_ptr[:-1], edge_counts),
            _packed=packed,
            _rows=rows,
        )

    def __len__(self) -> int:
        return self.num_graphs

    def __repr__(self) -> str:
        return f"PackedBatch({self.num_graphs} graphs, {self.num_nodes} nodes, {self.num_edges} edges)"

    @property
    def device(self) -> torch.device:
        """Where the tensors lie."""
        return self.ptr.device

    @property
    def edges(self) -> EdgeLayout:
        """The edges as the message-passing kernels want them; nothing is sorted, the set keeps both orders."""
        if self._layout is None:
            order, degree = self._packed.transposed
            self._layout = EdgeLayout(
                source=self.edge_index[0],
                target=self.edge_index[1],
                num_nodes=self.num_nodes,
                in_ptr=self._in_ptr,
                out_order=self._in_batch(order),
                out_ptr=pointer(take(degree, self._rows["node"]).to(self.device)),
            )
        return self._layout

    def attribute(self, name: str) -> Tensor:
        """Any attribute of the set for these graphs, cut out when asked for.

        Attributes of varying length are concatenated as PyG does it, node numbers in them shifted.
        """
        column = self._packed.columns.get(name)
        if column is None:
            raise OptionError(
                f"one of the attributes {', '.join(self._packed.columns) or '(none)'}",
                repr(name),
                "choose one of these",
            )
        if column.ptr is None:
            return column.take(self._rows[column.level]).to(self.device)
        rows, counts, _ = cut(column.ptr, self._rows["graph"])
        values = column.take(rows).to(self.device)
        if column.shift:
            shift = repeat(self.ptr[:-1], counts.to(self.device), values.size(0)).to(values.dtype)
            values = values + shift.view(-1, *[1] * (values.dim() - 1))
        return values.movedim(0, column.dim)

    def in_original_order(self, values: Tensor) -> Tensor:
        """Rows for the edges of this batch, [E, …], in the order in which the edges originally came."""
        order = self._packed.edge_order
        if order is None:
            return values
        return torch.empty_like(values).index_copy_(0, self._in_batch(order).to(values.device), values)

    def _in_batch(self, order: Tensor) -> Tensor:
        """Numbers of edges of the set, counted inside each graph, as numbers of the edges of this batch, [E]."""
        inside = take(order, self._rows["edge"]).to(self.device)
        return add_repeated(inside, *self._edge_shift)

    def to(self, device: str | torch.device) -> "PackedBatch":
        """The batch with its tensors on ``device``."""
        values: dict[str, Any] = {field.name: getattr(self, field.name) for field in fields(self)}
        for name, value in values.items():
            if isinstance(value, Tensor):
                values[name] = value.to(device, non_blocking=True)
        first, counts = self._edge_shift
        values["_edge_shift"] = (first.to(device), counts.to(device))
        values["_layout"] = None if self._layout is None else self._layout.to(device)
        return PackedBatch(**values)

    def to_data(self) -> Any:
        """PyG's ``Batch`` of these graphs: what ``Batch.from_data_list`` makes of them, edges in original order."""
        from torch_geometric.data import Batch

        return Batch.from_data_list(self._packed.subset(self._rows["graph"]).to_data_list()).to(self.device)


def _column(packed: "PackedGraphs", name: str, rows: dict[str, Rows]) -> Tensor | None:
    column = packed.columns.get(name)
    return None if column is None else column.take(rows[column.level])
