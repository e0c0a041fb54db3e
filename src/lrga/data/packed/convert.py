"""PyG ``Data`` lists to packed sets and back, without loss."""

from collections.abc import Iterable
from typing import Any

import torch
from torch_geometric.data import Batch, Data

from lrga.data.packed.arrays import LEVELS, pack_arrays
from lrga.data.packed.attributes import common_keys, count_nodes, find_level, plain_edge_index
from lrga.data.packed.columns import Column
from lrga.data.packed.graphs import PackedGraphs
from lrga.data.packed.segments import narrow, pointer
from lrga.errors import DataError, DTypeError, OptionError

_SCALARS: dict[type, tuple[str, torch.dtype, torch.dtype]] = {  # name, stored, shown in batches (as PyG collates)
    bool: ("bool", torch.bool, torch.bool),
    int: ("int", torch.int64, torch.int64),
    float: ("float", torch.float64, torch.float32),
}
_PYTHON = {"bool": bool, "int": int, "float": float}


def pack_data_list(graphs: Iterable[Data], *, y_level: str | None = None) -> PackedGraphs:
    """Packs PyG graphs.

    Every graph must have the same attributes with the same types. Tensors with one row for each node (edge) become
    attributes of nodes (edges), tensors of one shape attributes of graphs, others are kept as lists, and anything
    else (strings, dictionaries, sparse tensors, …) as Python values. ``edge_index`` of class ``EdgeIndex`` comes back
    as a plain tensor.

    Args:
        graphs: ``Data`` objects, at least one.
        y_level: ``"node"``, ``"edge"`` or ``"graph"``; found from the shapes of ``y`` where it is ``None``.
    """
    if y_level not in (None, *LEVELS):
        raise OptionError(f"y_level, one of {', '.join(LEVELS)}", repr(y_level), "choose one, or leave it out")
    if isinstance(graphs, Data):
        raise DTypeError(
            "a list of PyG Data objects",
            f"one {type(graphs).__name__}",
            "pass [data]" if not isinstance(graphs, Batch) else "pass batch.to_data_list()",
        )
    found = list(graphs)
    if not found:
        raise DataError("at least one graph", "an empty list", "pass at least one, so that the attributes are known")
    keys = common_keys(found)
    num_nodes = [count_nodes(g, data, y_level) for g, data in enumerate(found)]
    has_edges = "edge_index" in keys
    ends = [plain_edge_index(g, data, n) for g, (data, n) in enumerate(zip(found, num_nodes, strict=True))]
    num_edges = [e.size(1) for e in ends]
    counts = {"node": num_nodes, "edge": num_edges}

    rows: dict[str, dict[str, Any]] = {"node": {}, "edge": {}}
    others: dict[str, Column] = {}
    objects: dict[str, list[Any]] = {}
    levels: dict[str, str] = {}
    for key in keys:
        if key in ("edge_index", "num_nodes"):
            continue
        values = [data[key] for data in found]
        level = levels[key] = find_level(key, values, counts, y_level)
        if level in rows:
            rows[level][key] = torch.cat([value.detach() for value in values])
        elif level == "object":
            objects[key] = values
        else:
            others[key] = _other_column(level, key, values)
    packed = pack_arrays(
        num_nodes=torch.tensor(num_nodes),
        num_edges=torch.tensor(num_edges),
        edge_index=torch.cat(ends, 1),
        node=rows["node"],
        edge=rows["edge"],
    )
    columns = packed.columns | others
    packed.columns = {key: columns[key] for key in keys if key in columns}
    packed.objects = objects
    packed.y_level = {"scalar": "graph", "object": None}.get(levels.get("y", "object"), levels.get("y"))
    packed.explicit_num_nodes = "num_nodes" in keys
    packed.edge_dtype = found[0]["edge_index"].dtype if has_edges else None
    return packed


def unpack_data_list(packed: PackedGraphs) -> list[Data]:
    """PyG graphs as they were before packing."""
    nodes, edges = packed.node_ptr.tolist(), packed.edge_ptr.tolist()
    target = torch.repeat_interleave(packed.in_degree.long())
    target -= torch.repeat_interleave(packed.node_ptr[:-1], packed.edge_ptr.diff())
    ends = torch.stack((packed.source.to(target.dtype), target))
    columns = {name: (column, column.values.to(column.dtype)) for name, column in packed.columns.items()}
    if packed.edge_order is not None:
        place = packed.edge_order + torch.repeat_interleave(packed.edge_ptr[:-1], packed.edge_ptr.diff())
        ends = torch.empty_like(ends).index_copy_(1, place, ends)
        for name, (column, values) in columns.items():
            if column.level == "edge":
                columns[name] = (column, torch.empty_like(values).index_copy_(0, place, values))
    list_ptrs = {name: c.ptr.tolist() for name, c in packed.columns.items() if c.ptr is not None}
    result = []
    for g in range(len(packed)):
        data = Data()
        if packed.edge_dtype is not None:
            data.edge_index = ends[:, edges[g] : edges[g + 1]].to(packed.edge_dtype).contiguous()
        if packed.explicit_num_nodes:
            data.num_nodes = nodes[g + 1] - nodes[g]
        for name, (column, values) in columns.items():
            if column.scalar is not None:
                data[name] = _PYTHON[column.scalar](column.values[g].item())
            elif column.level == "graph":
                data[name] = values[g].clone()
            elif column.level == "list":
                ptr = list_ptrs[name]
                data[name] = values[ptr[g] : ptr[g + 1]].movedim(0, column.dim).clone()
            else:
                ptr = nodes if column.level == "node" else edges
                data[name] = values[ptr[g] : ptr[g + 1]].clone()
        for name, listed in packed.objects.items():
            data[name] = listed[g]
        result.append(data)
    return result


def _other_column(level: str, key: str, values: list[Any]) -> Column:
    if level == "scalar":
        name, stored, shown = _SCALARS[type(values[0])]
        return Column("graph", torch.tensor(values, dtype=stored), shown, scalar=name)
    tensors = [value.detach() for value in values]
    if level == "graph":
        return Column("graph", narrow(torch.stack(tensors)), tensors[0].dtype)
    index = "index" in key or key == "face"
    dim = tensors[0].dim() - 1 if index else 0
    moved = [value.movedim(dim, 0) for value in tensors]
    for g, value in enumerate(moved):
        if value.shape[1:] != moved[0].shape[1:]:
            raise DataError(
                f"{key} that differs between graphs in one dimension only",
                f"shape {list(tensors[0].shape)} in graph 0 and {list(tensors[g].shape)} in graph {g}",
                "pad it, or keep it as a Python value",
            )
    ptr = pointer(torch.tensor([value.size(0) for value in moved], device=moved[0].device))
    return Column("list", narrow(torch.cat(moved)), tensors[0].dtype, ptr=ptr, dim=dim, shift=index)
