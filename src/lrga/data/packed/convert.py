"""Converts lists of PyG ``Data`` to packed sets and back."""

from collections.abc import Iterable
from typing import Any

import torch
from torch import Tensor
from torch_geometric.data import Batch, Data

from lrga.checks import check_choice
from lrga.data.packed.arrays import LEVELS, pack_arrays
from lrga.data.packed.graphs import Column, PackedGraphs
from lrga.data.packed.segments import DTYPES, narrow
from lrga.errors import DataError, DTypeError, UnsupportedError

_SIZES = ("x", "pos", "z", "batch")  # attributes that tell the number of nodes of a graph


def pack_data_list(graphs: Iterable[Data], *, y_level: str | None = None) -> PackedGraphs:
    """Packs PyG graphs.

    Every graph must have the same attributes with the same types. Tensors with one row for each node (edge) become node
    (edge) attributes; tensors of the same shape in all graphs and Python numbers become graph attributes. Anything else
    (strings, tensors of other shapes, sparse tensors, …) is kept unchanged for each graph and is not part of batches.
    An ``EdgeIndex`` is returned as a plain tensor, a number as a tensor of shape [1].

    Args:
        graphs: ``Data`` objects, at least one.
        y_level: ``"node"``, ``"edge"`` or ``"graph"``; by default derived from the shapes of ``y``.
    """
    check_choice("y_level", y_level, (None, *LEVELS))
    if isinstance(graphs, Data):
        remedy = "pass [data]" if not isinstance(graphs, Batch) else "pass batch.to_data_list()"
        raise DTypeError("a list of PyG Data objects", f"one {type(graphs).__name__}", remedy)
    found = list(graphs)
    if not found:
        raise DataError("at least one graph", "an empty list", "pass at least one graph")
    keys = common_keys(found)
    num_nodes = [count_nodes(g, data, y_level) for g, data in enumerate(found)]
    ends = [plain_edge_index(data, f"graph {g}") for g, data in enumerate(found)]
    num_edges = [e.size(1) for e in ends]
    counts = {"node": num_nodes, "edge": num_edges}

    rows: dict[str, Any] = {"node": {}, "edge": {}}
    others: dict[str, Column] = {}
    objects: dict[str, list[Any]] = {}
    levels: dict[str, str] = {}
    for key in keys:
        if key in ("edge_index", "num_nodes"):
            continue
        values = _tensors_of_numbers([data[key] for data in found])
        level = levels[key] = find_level(key, values, counts, y_level)
        if level in rows:
            rows[level][key] = torch.cat([value.detach() for value in values])
        elif level == "graph":
            others[key] = Column("graph", narrow(torch.stack([value.detach() for value in values])), values[0].dtype)
        else:
            objects[key] = values
    packed = pack_arrays(
        num_nodes=torch.tensor(num_nodes),
        num_edges=torch.tensor(num_edges),
        edge_index=torch.cat(ends, 1),
        **rows,
    )
    columns = packed.columns | others
    packed.columns = {key: columns[key] for key in keys if key in columns}
    packed.objects = objects
    packed.y_level = levels["y"] if levels.get("y", "object") != "object" else None
    packed.explicit_num_nodes = "num_nodes" in keys
    packed.edge_dtype = found[0]["edge_index"].dtype if "edge_index" in keys else None
    return packed


def unpack_data_list(packed: PackedGraphs) -> list[Data]:
    """Restores the PyG graphs that were packed."""
    nodes, edges = packed.node_ptr.tolist(), packed.edge_ptr.tolist()
    whole = packed.batch(slice(None))
    begins = torch.repeat_interleave(packed.node_ptr[:-1], packed.edge_ptr.diff())
    ends = whole.in_original_order((whole.edge_index - begins).t()).t()
    columns = {name: (column, column.values.to(column.dtype)) for name, column in packed.columns.items()}
    for name, (column, values) in columns.items():
        if column.level == "edge":
            columns[name] = (column, whole.in_original_order(values))
    result = []
    for g in range(len(packed)):
        data = Data()
        rows: dict[str, Any] = {
            "node": slice(nodes[g], nodes[g + 1]),
            "edge": slice(edges[g], edges[g + 1]),
            "graph": g,
        }
        if packed.edge_dtype is not None:
            data.edge_index = ends[:, rows["edge"]].to(packed.edge_dtype).contiguous()
        if packed.explicit_num_nodes:
            data.num_nodes = nodes[g + 1] - nodes[g]
        for name, (column, values) in columns.items():
            data[name] = values[rows[column.level]].clone()
        for name, listed in packed.objects.items():
            data[name] = listed[g]
        result.append(data)
    return result


def _tensors_of_numbers(values: list[Any]) -> list[Any]:
    """Converts Python numbers of one type to tensors of shape [1], like PyG's collate; other values are unchanged."""
    if len({type(value) for value in values}) > 1 or type(values[0]) not in (bool, int, float):
        return values
    try:
        return [torch.tensor([value]) for value in values]
    except RuntimeError:  # an integer beyond 64 bits
        return values


def common_keys(graphs: list[Any]) -> list[str]:
    """Names of the attributes; they must be the same in every graph."""
    for g, data in enumerate(graphs):
        if not isinstance(data, Data) or isinstance(data, Batch):
            got = f"{type(data).__module__}.{type(data).__qualname__} as graph {g}"
            remedy = "convert it to homogeneous Data objects, one for each graph"
            raise DTypeError("torch_geometric.data.Data objects", got, remedy)
        if type(data).__inc__ is not Data.__inc__ or type(data).__cat_dim__ is not Data.__cat_dim__:
            got = f"graph {g} of class {type(data).__qualname__}, which overrides __inc__ or __cat_dim__"
            remedy = "copy its attributes into plain Data objects"
            raise UnsupportedError("Data objects with PyG's own batching", got, remedy)
    keys = list(graphs[0].to_dict())  # in the order in which they were set; Data.keys() is unordered
    for g, data in enumerate(graphs):
        missing, surplus = sorted(set(keys) - set(data.keys())), sorted(set(data.keys()) - set(keys))
        if missing or surplus:
            parts = [f"without {', '.join(missing)}"] * bool(missing) + [f"with {', '.join(surplus)}"] * bool(surplus)
            expected = f"the attributes of graph 0 ({', '.join(keys)}) in every graph"
            raise DataError(expected, f"graph {g} {' and '.join(parts)}", "set the same attributes in every graph")
    if "edge_index" not in keys and {"adj_t", "adj"} & set(keys):
        raise UnsupportedError("edges as edge_index", "an adjacency matrix", "convert it to edge_index first")
    return keys


def count_nodes(g: int, data: Data, y_level: str | None) -> int:
    """Number of nodes of graph ``g``; all its node attributes must agree."""
    sizes = {key: data[key].size(0) for key in _SIZES if isinstance(data.get(key), Tensor) and data[key].dim() > 0}
    if y_level == "node" and isinstance(data.get("y"), Tensor) and data.y.dim() > 0:
        sizes["y"] = data.y.size(0)
    if "num_nodes" in data:
        sizes["num_nodes"] = int(data.num_nodes)
    if not sizes:
        got = "neither a tensor x nor num_nodes"
        raise DataError(f"the number of nodes of graph {g}", got, "set data.num_nodes, or make x a tensor")
    if len(set(sizes.values())) > 1:
        got = ", ".join(f"{key} of {size}" for key, size in sizes.items())
        remedy = "give x, pos and num_nodes the same number of nodes"
        raise DataError(f"one number of nodes in graph {g}", got, remedy)
    return next(iter(sizes.values()))


def plain_edge_index(data: Data, where: str) -> Tensor:
    """``edge_index`` [2, E] of a graph on the CPU; [2, 0] if the graph has none."""
    ends = data.get("edge_index")
    if ends is None:
        return torch.empty(2, 0, dtype=torch.int64)
    if not isinstance(ends, Tensor) or ends.layout != torch.strided or ends.dim() != 2 or ends.size(0) != 2:
        got = f"shape {list(ends.shape)}, {ends.layout}" if isinstance(ends, Tensor) else type(ends).__name__
        raise DataError(f"a dense edge_index [2, E] in {where}", got, "pass sources in row 0 and targets in row 1")
    if ends.dtype not in (torch.int64, torch.int32, torch.int16, torch.int8, torch.uint8):
        raise DTypeError(f"integers in edge_index of {where}", str(ends.dtype), "convert it with .long()")
    return (ends.as_tensor() if hasattr(ends, "as_tensor") else ends).cpu()


def find_level(key: str, values: list[Any], counts: dict[str, list[int]], y_level: str | None) -> str:
    """The level of an attribute: ``"node"``, ``"edge"``, ``"graph"``, or ``"object"`` for anything else.

    ``counts`` holds the numbers of nodes and edges of each graph, ``y_level`` the level of ``y`` if the user gave it.

    Example:
        >>> find_level("y", [torch.zeros(2), torch.zeros(3)], {"node": [2, 3], "edge": [4, 4]}, None)
        'node'
    """
    are_tensors = [isinstance(value, Tensor) for value in values]
    if len(set(are_tensors)) > 1:
        g = are_tensors.index(not are_tensors[0])
        got = f"{type(values[0]).__name__} in graph 0 and {type(values[g]).__name__} in graph {g}"
        raise DataError(f"{key} of one type in every graph", got, "convert all of them to tensors")
    if not are_tensors[0] or any(value.layout != torch.strided for value in values) or "index" in key or key == "face":
        return "object"
    kinds = [f"{value.dtype} of {value.dim()} dimensions on {value.device}" for value in values]
    for g, kind in enumerate(kinds):
        if kind != kinds[0]:
            got = f"{kinds[0]} in graph 0, {kind} in graph {g}"
            raise DataError(f"{key} of one type and number of dimensions in every graph", got, "convert them to one")
    if values[0].dtype not in DTYPES.values():
        raise DTypeError(f"{key} of type {', '.join(DTYPES)}", str(values[0].dtype), "convert it to one of these types")
    rows = [value.size(0) if value.dim() else -1 for value in values]
    wanted = {"edge_attr": "edge", "y": y_level}.get(key, "node" if key in _SIZES else None)
    if wanted in counts:
        for g, (found, count) in enumerate(zip(rows, counts[wanted], strict=True)):
            if found != count:
                got = "no dimension" if found < 0 else f"{found} rows"
                expected = f"{key} of graph {g} with one row for each of its {count} {wanted}s"
                raise DataError(expected, got, f"give {key} one row for each {wanted}")
        return wanted
    odd = next((g for g, value in enumerate(values) if value.shape != values[0].shape), None)
    fits = [level for level in ("node", "edge") if rows == counts[level]] if wanted is None else []
    if odd is None and (not fits or set(counts[fits[0]]) == {1}):
        return "graph"
    if fits:
        return "edge" if "edge" in fits and "edge" in key else fits[0]
    if key == "y":
        got = f"shape {list(values[0].shape)} in graph 0 and {list(values[odd or 0].shape)} in graph {odd}"
        expected = "y with a row for each node or edge, or of the same shape in every graph"
        raise DataError(expected, got, "give y the same shape in every graph, or pass y_level")
    return "object"
