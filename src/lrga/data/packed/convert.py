"""PyG ``Data`` lists to packed sets and back, without loss."""

from collections.abc import Iterable
from typing import Any

import torch
from torch import Tensor
from torch_geometric.data import Batch, Data

from lrga.data.packed.arrays import LEVELS, pack_arrays
from lrga.data.packed.graphs import Column, PackedGraphs
from lrga.data.packed.segments import DTYPES, narrow, pointer
from lrga.errors import DataError, DTypeError, OptionError, UnsupportedError

_SCALARS: dict[type, tuple[str, torch.dtype, torch.dtype]] = {  # name, stored, shown in batches (as PyG collates)
    bool: ("bool", torch.bool, torch.bool),
    int: ("int", torch.int64, torch.int64),
    float: ("float", torch.float64, torch.float32),
}
_PYTHON = {"bool": bool, "int": int, "float": float}
_SIZES = ("x", "pos", "z", "batch")  # attributes that say how many nodes a graph has


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
    ends = [plain_edge_index(data, num_nodes[g], f"graph {g}") for g, data in enumerate(found)]
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
    packed.edge_dtype = found[0]["edge_index"].dtype if "edge_index" in keys else None
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


def common_keys(graphs: list[Any]) -> list[str]:
    """Names of the attributes, which must be the same in every graph."""
    for g, data in enumerate(graphs):
        if not isinstance(data, Data) or isinstance(data, Batch):
            raise DTypeError(
                "torch_geometric.data.Data objects",
                f"{type(data).__module__}.{type(data).__qualname__} as graph {g}",
                "convert it to homogeneous Data objects, one for each graph",
            )
        if type(data).__inc__ is not Data.__inc__ or type(data).__cat_dim__ is not Data.__cat_dim__:
            raise UnsupportedError(
                "Data objects that batch as PyG's own",
                f"graph {g} of class {type(data).__qualname__}, which overrides __inc__ or __cat_dim__",
                "copy its attributes into plain Data objects",
            )
    keys = list(graphs[0].to_dict())  # in the order in which they were set; Data.keys() has none
    for g, data in enumerate(graphs):
        missing, surplus = sorted(set(keys) - set(data.keys())), sorted(set(data.keys()) - set(keys))
        if missing or surplus:
            parts = [f"without {', '.join(missing)}"] * bool(missing) + [f"with {', '.join(surplus)}"] * bool(surplus)
            raise DataError(
                f"the attributes of graph 0 ({', '.join(keys)}) in every graph",
                f"graph {g} {' and '.join(parts)}",
                "give every graph the same attributes",
            )
    if "edge_index" not in keys and {"adj_t", "adj"} & set(keys):
        raise UnsupportedError("edges as edge_index", "an adjacency matrix", "convert it to edge_index first")
    return keys


def count_nodes(g: int, data: Data, y_level: str | None) -> int:
    """Number of nodes of graph ``g``, on which all its attributes of nodes must agree."""
    sizes = {key: data[key].size(0) for key in _SIZES if isinstance(data.get(key), Tensor) and data[key].dim() > 0}
    if y_level == "node" and isinstance(data.get("y"), Tensor) and data.y.dim() > 0:
        sizes["y"] = data.y.size(0)
    if "num_nodes" in data:
        sizes["num_nodes"] = int(data.num_nodes)
    if not sizes and data.get("x") is not None:
        got = f"{type(data.x).__name__} {data.x!r:.60}"
        raise DataError(f"a tensor of numbers as x of graph {g}", got, "turn the values into numbers")
    if not sizes:
        raise DataError(f"the number of nodes of graph {g}", "neither x nor num_nodes", "set data.num_nodes")
    if len(set(sizes.values())) > 1:
        raise DataError(
            f"one number of nodes in graph {g}",
            ", ".join(f"{key} of {size}" for key, size in sizes.items()),
            "give x, pos and num_nodes the same number of nodes",
        )
    return next(iter(sizes.values()))


def plain_edge_index(data: Data, num_nodes: int, where: str) -> Tensor:
    """``edge_index`` [2, E] of a graph on the CPU, its values checked; without edges where it has none."""
    ends = data.get("edge_index")
    if ends is None:
        return torch.empty(2, 0, dtype=torch.int64)
    if not isinstance(ends, Tensor) or ends.layout != torch.strided or ends.dim() != 2 or ends.size(0) != 2:
        got = f"shape {list(ends.shape)}, {ends.layout}" if isinstance(ends, Tensor) else type(ends).__name__
        raise DataError(f"a dense edge_index [2, E] in {where}", got, "row 0 holds sources, row 1 targets")
    if ends.dtype not in (torch.int64, torch.int32, torch.int16, torch.int8, torch.uint8):
        raise DTypeError(f"integers in edge_index of {where}", str(ends.dtype), "convert it with .long()")
    plain = ends.as_tensor() if hasattr(ends, "as_tensor") else ends
    if plain.numel() and (int(plain.min()) < 0 or int(plain.max()) >= num_nodes):
        raise DataError(
            f"edge_index of {where} between its nodes 0 to {num_nodes - 1}",
            f"values from {int(plain.min())} to {int(plain.max())}",
            "number the nodes of each graph from 0, or set num_nodes",
        )
    return plain.cpu()


def find_level(key: str, values: list[Any], counts: dict[str, list[int]], y_level: str | None) -> str:
    """What an attribute belongs to: ``"node"``, ``"edge"``, ``"graph"``, ``"list"``, ``"scalar"`` or ``"object"``.

    ``counts`` says how many nodes and edges each graph has, ``y_level`` what ``y`` belongs to, if the user said so.

    Example:
        >>> find_level("y", [torch.zeros(2), torch.zeros(3)], {"node": [2, 3], "edge": [4, 4]}, None)
        'node'
    """
    kinds = [Tensor if isinstance(value, Tensor) else type(value) for value in values]
    for g, kind in enumerate(kinds):
        if (kind is Tensor) != (kinds[0] is Tensor):
            got = f"{kinds[0].__name__} in graph 0 and {kind.__name__} in graph {g}"
            raise DataError(f"{key} of one kind in every graph", got, "make them all tensors")
    if kinds[0] is not Tensor or any(value.layout != torch.strided for value in values):
        plain = kinds[0] in _SCALARS and len(set(kinds)) == 1
        fits_int64 = kinds[0] is not int or all(-(2**63) <= value < 2**63 for value in values)
        return "scalar" if plain and fits_int64 else "object"
    _check_same(key, values)
    rows = [value.size(0) if value.dim() else -1 for value in values]
    if key == "edge_attr" or (key == "y" and y_level == "edge"):
        return _demand(key, "edge", rows, counts)
    if key in _SIZES or (key == "y" and y_level == "node"):
        return _demand(key, "node", rows, counts)
    one_shape = all(value.shape == values[0].shape for value in values)
    if key == "y" and y_level == "graph":
        return _demand_one_shape(key, values)
    if "index" in key or key == "face":
        return "list" if values[0].dim() else "graph"
    fits = [level for level in ("node", "edge") if rows == counts[level]]
    if one_shape and (not fits or set(counts[fits[0]]) == {1}):
        return "graph"
    if fits:
        return "edge" if "edge" in fits and "edge" in key else fits[0]
    return _demand_one_shape(key, values) if key == "y" else "list"


def _check_same(key: str, values: list[Tensor]) -> None:
    first = values[0]
    for g, value in enumerate(values):
        if value.dtype != first.dtype or value.dim() != first.dim() or value.device != first.device:
            raise DataError(
                f"{key} of one type and number of dimensions in every graph",
                f"{first.dtype} of shape {list(first.shape)} on {first.device} in graph 0, "
                f"{value.dtype} of shape {list(value.shape)} on {value.device} in graph {g}",
                "convert them to one type",
            )
    if first.dtype not in DTYPES.values():
        raise DTypeError(f"{key} of type {', '.join(DTYPES)}", str(first.dtype), "convert it to one of these types")


def _demand(key: str, level: str, rows: list[int], counts: dict[str, list[int]]) -> str:
    for g, (found, wanted) in enumerate(zip(rows, counts[level], strict=True)):
        if found != wanted:
            raise DataError(
                f"{key} of graph {g} with one row for each of its {wanted} {level}s",
                f"{'no dimension' if found < 0 else f'{found} rows'}",
                f"give {key} one row for each {level}",
            )
    return level


def _demand_one_shape(key: str, values: list[Tensor]) -> str:
    for g, value in enumerate(values):
        if value.shape != values[0].shape:
            raise DataError(
                f"{key} with a row for each node or edge, or of one shape in every graph",
                f"shape {list(values[0].shape)} in graph 0 and {list(value.shape)} in graph {g}",
                f"give {key} one shape, or say y_level",
            )
    return "graph"
