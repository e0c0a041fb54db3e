"""Some graphs of a packed set side by side, cut out by index arithmetic.

Letters: G graphs, N nodes, E edges of the batch.
"""

from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from lrga.data.columns import Rows, pointer, repeat, spans, take
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
    """

    x: Tensor | None
    edge_index: Tensor
    edge_attr: Tensor | None
    y: Tensor | None
    batch: Tensor
    ptr: Tensor
    num_graphs: int
    num_nodes: int
    _in_ptr: Tensor
    _edge_ptr: Tensor
    _packed: "PackedGraphs"
    _graphs: Rows
    _node_rows: Rows
    _edge_rows: Rows
    _layout: EdgeLayout | None = None

    @classmethod
    def of(cls, packed: "PackedGraphs", host: slice | Tensor, on_device: Tensor | None) -> "PackedBatch":
        """Cuts graphs out of ``packed``: their positions on the CPU and, unless they are a slice, on its device."""
        graphs = host if on_device is None else on_device
        node_rows, ptr, num_nodes = _rows(packed.node_ptr, packed._host_node_ptr, host, graphs)
        edge_rows, edge_ptr, num_edges = _rows(packed.edge_ptr, packed._host_edge_ptr, host, graphs)
        num_graphs = ptr.numel() - 1
        in_degree = take(packed.in_degree, node_rows)
        edge_index = torch.empty(2, num_edges, dtype=torch.int64, device=packed.device)
        torch.add(take(packed.source, edge_rows), repeat(ptr[:-1], edge_ptr.diff(), num_edges), out=edge_index[0])
        edge_index[1] = repeat(torch.arange(num_nodes, device=ptr.device), in_degree.long(), num_edges)
        rows: dict[str, Rows] = {"node": node_rows, "edge": edge_rows, "graph": graphs}
        return cls(
            x=_column(packed, "x", rows),
            edge_index=edge_index,
            edge_attr=_column(packed, "edge_attr", rows),
            y=_column(packed, "y", rows),
            batch=repeat(torch.arange(num_graphs, device=ptr.device), ptr.diff(), num_nodes),
            ptr=ptr,
            num_graphs=num_graphs,
            num_nodes=num_nodes,
            _in_ptr=pointer(in_degree),
            _edge_ptr=edge_ptr,
            _packed=packed,
            _graphs=graphs,
            _node_rows=node_rows,
            _edge_rows=edge_rows,
        )

    def __len__(self) -> int:
        return self.num_graphs

    def __repr__(self) -> str:
        return f"PackedBatch({self.num_graphs} graphs, {self.num_nodes} nodes, {self.num_edges} edges)"

    @property
    def num_edges(self) -> int:
        """E."""
        return self.edge_index.size(1)

    @property
    def device(self) -> torch.device:
        """Where the tensors lie."""
        return self.edge_index.device

    @property
    def edges(self) -> EdgeLayout:
        """The edges as the message-passing kernels want them; nothing is sorted, the set keeps both orders."""
        if self._layout is None:
            order, degree = self._packed.transposed
            shift = repeat(self._edge_ptr[:-1], self._edge_ptr.diff(), self.num_edges)
            self._layout = EdgeLayout(
                source=self.edge_index[0],
                target=self.edge_index[1],
                num_nodes=self.num_nodes,
                in_ptr=self._in_ptr,
                out_order=shift.add_(take(order, self._edge_rows).to(shift.device)),
                out_ptr=pointer(take(degree, self._node_rows).to(shift.device)),
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
            rows = {"node": self._node_rows, "edge": self._edge_rows, "graph": self._graphs}[column.level]
            values = _column(self._packed, name, {column.level: rows})
        else:
            list_rows, list_ptr = self._packed.rows(column.ptr, self._graphs)
            values = column.take(list_rows)
            if column.shift:
                shift = repeat(self.ptr[:-1].to(values.device), list_ptr.diff(), values.size(0)).to(values.dtype)
                values = values + shift.view(-1, *[1] * (values.dim() - 1))
            values = values.movedim(0, column.dim)
        assert values is not None  # the column is there
        return values.to(self.device)

    def in_original_order(self, values: Tensor) -> Tensor:
        """Rows for the edges of this batch, [E, …], in the order in which the edges originally came."""
        order = self._packed.edge_order
        if order is None:
            return values
        place = take(order, self._edge_rows).long().to(values.device)
        place += repeat(self._edge_ptr[:-1], self._edge_ptr.diff(), self.num_edges).to(values.device)
        return torch.empty_like(values).index_copy_(0, place, values)

    def to(self, device: str | torch.device) -> "PackedBatch":
        """The batch with its tensors on ``device``."""
        values: dict[str, Any] = {field.name: getattr(self, field.name) for field in fields(self)}
        for name in ("x", "edge_index", "edge_attr", "y", "batch", "ptr", "_in_ptr", "_edge_ptr"):
            if values[name] is not None:
                values[name] = values[name].to(device, non_blocking=True)
        return PackedBatch(**(values | {"_layout": None}))

    def to_data(self) -> Any:
        """PyG's ``Batch`` of these graphs: what ``Batch.from_data_list`` makes of them, edges in original order."""
        from torch_geometric.data import Batch

        graphs = self._graphs if isinstance(self._graphs, slice) else self._graphs.cpu()
        return Batch.from_data_list(self._packed.subset(graphs).to_data_list()).to(self.device)


def _rows(ptr: Tensor, host_ptr: Tensor, host: slice | Tensor, graphs: Rows) -> tuple[Rows, Tensor, int]:
    """Rows of ``graphs``, their pointer, their number; only the CPU is asked for numbers."""
    if isinstance(graphs, slice):
        first, last = int(host_ptr[graphs.start]), int(host_ptr[graphs.stop])
        return slice(first, last), ptr[graphs.start : graphs.stop + 1] - first, last - first
    starts = ptr[graphs]
    counts = ptr[graphs + 1] - starts
    new_ptr = pointer(counts)
    if ptr is host_ptr or isinstance(host, slice):
        total = int(new_ptr[-1])
    else:
        total = int((host_ptr[host + 1] - host_ptr[host]).sum())
    return spans(starts, counts, new_ptr[:-1], total, int(host_ptr[-1])), new_ptr, total


def _column(packed: "PackedGraphs", name: str, rows: dict[str, Rows]) -> Tensor | None:
    column = packed.columns.get(name)
    if column is None:
        return None
    values = column.take(rows[column.level])
    # PyG concatenates: [1] becomes [G], [k] becomes [G k], a scalar becomes [G].
    return values.flatten(0, 1) if column.level == "graph" and values.dim() > 1 else values
