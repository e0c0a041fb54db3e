"""The user's own PyG graphs: objects, the result of a function, or a ``.pt`` file."""

import importlib
import os
import sys
import warnings
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch_geometric.data import Data, Dataset, HeteroData

from lrga.data.datasets.spec import SPLITS
from lrga.data.own.table import LEVELS, GraphTable, Split, Target, as_float32
from lrga.data.packed.arrays import pack_arrays
from lrga.data.packed.convert import plain_edge_index
from lrga.data.packed.graphs import PackedGraphs
from lrga.errors import DataError, DataMissingError, LRGAError, OptionError, UnsupportedError
from lrga.io.limits import check_memory, first_line, open_regular, reading
from lrga.io.unpickle import check_torch_file

_MASKS = tuple(f"{split}_mask" for split in SPLITS)
_SHAPES = "a Data object, a list of them, a Dataset, or a dict of these called train, val and test"


def load_factory(name: str) -> Any:
    """Imports ``module:factory`` (also from the current folder) and calls it if it is a function."""
    module_name, _, attribute = name.partition(":")
    folder = os.getcwd()
    sys.path.insert(0, folder)
    try:
        found: Any = importlib.import_module(module_name)
        for part in attribute.split("."):
            found = getattr(found, part)
        return found() if callable(found) and not isinstance(found, Dataset) else found
    except LRGAError:
        raise
    except ModuleNotFoundError as error:
        remedy = "run from the folder of the module, add that folder to PYTHONPATH, or install the package"
        raise DataMissingError(f"the module of {name!r}", f"{error}", remedy) from error
    except Exception as error:  # the user's own code may raise anything; the cause is attached
        got = f"{type(error).__name__}: {error}"
        remedy = "name a function of the module that takes no arguments and returns the graphs"
        raise DataError(f"{name!r} to return graphs", got, remedy) from error
    finally:
        sys.path.remove(folder)


def load_file(path: Path) -> Any:
    """Loads a ``.pt`` file of PyG graphs without running code in it."""
    from torch_geometric.data.data import DataEdgeAttr, DataTensorAttr
    from torch_geometric.data.storage import BaseStorage, EdgeStorage, GlobalStorage, NodeStorage

    classes = [Data, DataEdgeAttr, DataTensorAttr, BaseStorage, EdgeStorage, GlobalStorage, NodeStorage]
    # Without the classes that PyG allows permanently: on exit the context would remove them.
    allowed = torch.serialization.get_safe_globals()
    classes = [kind for kind in classes if kind not in allowed]
    remedy = (
        "save a list of torch_geometric.data.Data objects with torch.save (only data classes and tensors are loaded, "
        "because other objects could run code); to train on an edge list, add --task link"
    )
    with reading(path, "PyG graphs (torch.save) in", remedy=remedy):
        with open_regular(path) as file:
            check_torch_file(file, str(path))
        with torch.serialization.safe_globals(classes), warnings.catch_warnings():
            warnings.simplefilter("ignore")  # torch warns about unusual files; they raise our own errors
            return torch.load(path, map_location="cpu", weights_only=True)


def graph_table(loaded: Any, source: str, *, level: str | None = None, target: bool = True) -> GraphTable:
    """Graphs as one table.

    Args:
        loaded: A ``Data``, a sequence of them, a ``Dataset``, :class:`PackedGraphs`, or a dict of the three
            splits.
        source: Where the graphs came from, for errors.
        level: Level of ``y``; ``None`` derives it from the shapes.
        target: Whether to read ``y``. If not, names and masks are ignored too.
    """
    try:
        return _table(_parts(loaded, source), loaded, source, level, target)
    except LRGAError:
        raise
    except Exception as error:  # nested or quantized tensors, a damaged pickle, errors of the user's data set, …
        remedy = "save the graphs again, with dense tensors of numbers"
        raise DataError(f"PyG graphs in {source}", f"an unsupported form ({first_line(error)})", remedy) from error


def _table(parts: dict[str, list[Any]], loaded: Any, source: str, level: str | None, target: bool) -> GraphTable:
    graphs = [graph for part in parts.values() for graph in part]
    counts = {name: len(part) for name, part in parts.items()}
    if not graphs or (len(counts) > 1 and 0 in counts.values()):
        got = str(counts) if graphs else "none"
        raise DataError(f"graphs in every part of {source}", got, "return at least one graph for each part")
    num_nodes = np.array([_num_nodes(graph, f"graph {number} of {source}") for number, graph in enumerate(graphs)])
    values = [graph.get(name) for graph in graphs for name in ("x", "edge_attr", "edge_index", "y", "mask", *_MASKS)]
    need = sum(value.numel() * value.element_size() for value in values if isinstance(value, Tensor))
    # A view that repeats one number uses no memory until it is copied.
    check_memory(need + 8 * sum(num_nodes.tolist()), f"the graphs of {source}")
    ends = [plain_edge_index(graph, f"graph {number} of {source}") for number, graph in enumerate(graphs)]
    num_edges = np.array([end.size(1) for end in ends])
    notes: list[str] = []
    x = _features(graphs, "x", num_nodes, source, notes, strict=target)
    first = loaded.get("train") if isinstance(loaded, Mapping) else loaded
    names = first.meta if isinstance(first, PackedGraphs) else {}
    packed = pack_arrays(
        num_nodes=num_nodes,
        num_edges=num_edges,
        edge_index=torch.cat(ends, dim=1),
        x=np.ones((int(num_nodes.sum()), 1), np.float32) if x is None else x,
        edge_attr=_features(graphs, "edge_attr", num_edges, source, notes, strict=target),
        objects={"graph_id": [str(number) for number in range(len(graphs))]},
        meta={key: names[key] for key in ("node_names", "edge_names") if key in names},
    )
    if not target:
        return GraphTable(packed, {}, None, notes=tuple(notes))
    rows = {"graph": np.ones_like(num_nodes), "node": num_nodes, "edge": num_edges}
    level = level or (first.y_level if isinstance(first, PackedGraphs) else None)
    found = _target(graphs, rows, level, source)
    split = _split(parts, graphs, found, rows[found.level if found else "graph"], source)
    mask = None
    if found is not None and any(graph.get("mask") is not None for graph in graphs):
        mask = _truth_values(graphs, "mask", found.level, rows[found.level], source)
    if found is not None and found.level == "edge":
        order = packed.given_edges.numpy()
        found = replace(found, values=found.values[order])
        mask = None if mask is None else mask[order]
        split = replace(split, code=split.code[order]) if split is not None and split.level == "edge" else split
    return GraphTable(packed, {} if found is None else {found.level: found}, split, mask, tuple(notes))


def _parts(loaded: Any, source: str) -> dict[str, list[Any]]:
    """Split → graphs, or ``{"": graphs}`` without given splits."""
    if isinstance(loaded, Mapping):
        if set(loaded) != set(SPLITS):
            got = f"a dict with {', '.join(map(repr, loaded)) or 'nothing'} from {source}"
            raise DataError("a dict with train, val and test", got, "use these keys, or return all graphs in a list")
        return {split: _graphs(loaded[split], source) for split in SPLITS}
    return {"": _graphs(loaded, source)}


def _graphs(loaded: Any, source: str) -> list[Any]:
    if isinstance(loaded, PackedGraphs):
        return loaded.to("cpu").to_data_list()
    if isinstance(loaded, Data | HeteroData):
        _check_whole(loaded, source)
        return loaded.to_data_list() if hasattr(loaded, "to_data_list") else [loaded]
    if isinstance(loaded, Dataset | list | tuple | torch.utils.data.Dataset) and hasattr(loaded, "__len__"):
        return [loaded[i] for i in range(len(loaded))]
    raise DataError(f"{_SHAPES} from {source}", f"a {type(loaded).__name__}", "return one of these types")


def _check_whole(graph: Any, where: str) -> None:
    if isinstance(graph, HeteroData):
        raise UnsupportedError("homogeneous graphs (Data)", f"HeteroData as {where}", "convert with .to_homogeneous()")
    if not isinstance(graph, Data):
        raise DataError(f"a Data object as {where}", f"a {type(graph).__name__}", "return Data objects")


def _num_nodes(graph: Any, where: str) -> int:
    _check_whole(graph, where)
    if graph.edge_index is None and {"adj", "adj_t"} & set(graph.keys()):
        raise UnsupportedError(f"edges as edge_index in {where}", "an adjacency matrix", "convert it to edge_index")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # if only the edges tell the number of nodes
        count = int(graph.num_nodes or 0)
    if count <= 0:
        raise DataError(f"nodes in {where}", "an empty graph", "set x or num_nodes, or remove the graph")
    return count


def _attribute(graphs: list[Any], name: str, source: str) -> list[Tensor] | None:
    """An attribute of every graph, as dense numeric tensors on the CPU; ``None`` if no graph has it."""
    values = [graph.get(name) for graph in graphs]
    missing = [number for number, value in enumerate(values) if value is None]
    if len(missing) == len(values):
        return None
    if missing:
        expected, got = f"{name} in every graph of {source} or in none", f"graph {missing[0]} without it"
        raise DataError(expected, got, f"set {name} in every graph")
    tensors = []
    for number, value in enumerate(values):
        where = f"{name} of graph {number} of {source}"
        if isinstance(value, Tensor) and value.layout != torch.strided:
            remedy = f"convert it: data.{name} = data.{name}.to_dense()"
            raise DataError(f"a dense tensor as {where}", f"one of layout {value.layout}", remedy)
        try:
            tensors.append(torch.as_tensor(value).detach().cpu())
        except (TypeError, ValueError, RuntimeError) as error:
            remedy = "convert it to numbers; number classes from 0 (only CSV files may have class names)"
            raise DataError(f"numbers in {where}", f"{type(value).__name__} {value!r:.60}", remedy) from error
    return tensors


def _features(
    graphs: list[Any], name: str, rows: np.ndarray, source: str, notes: list[str], *, strict: bool
) -> np.ndarray | None:
    """Features [R, F] float32; one column of non-negative integers gives types [R] int64."""
    tensors = _attribute(graphs, name, source)
    if tensors is None:
        return None
    for number, (tensor, count) in enumerate(zip(tensors, rows, strict=True)):
        if tensor.dim() == 0 or tensor.size(0) != count or tensor.shape[1:] != tensors[0].shape[1:]:
            expected = f"{name} of {count} rows of shape {list(tensors[0].shape[1:])} in graph {number} of {source}"
            raise DataError(expected, f"shape {list(tensor.shape)}", f"give {name} one row each, as wide as in graph 0")
    values = torch.cat(tensors)
    if len(values) and values[0].numel() == 0:
        return None
    flat = values.reshape(len(values), values.shape[1:].numel())
    if flat.is_complex():
        raise DataError(f"real numbers in {name} of {source}", str(flat.dtype), "split real and imaginary parts")
    if flat.size(1) == 1 and flat.dtype in (torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64):
        types = flat[:, 0].long()
        if not len(types) or int(types.min()) >= 0:
            return np.asarray(types.numpy())
    features = flat.float()
    finite = features.isfinite().all(dim=1)
    if not finite.all():
        row = int((~finite).nonzero()[0])
        graph = int(np.searchsorted(np.cumsum(rows), row, side="right"))
        got = f"NaN or infinity in graph {graph}, row {row - int(rows[:graph].sum())}"
        raise DataError(f"finite numbers in {name} of {source}", got, "replace or remove missing values")
    if flat.dtype == torch.bool or (flat.is_floating_point() and flat.dtype != torch.float64):  # float32 holds them
        return np.asarray(features.numpy())
    columns, level = [column.numpy() for column in flat.t()], "node" if name == "x" else "edge"
    names = [f"{name}[:, {i}]" for i in range(len(columns))]
    return as_float32(columns, names, level, source, notes, strict=strict)


def _target(graphs: list[Any], counts: dict[str, np.ndarray], level: str | None, source: str) -> Target | None:
    tensors = _attribute(graphs, "y", source)
    if tensors is None:
        return None
    tensors = [tensor.reshape(1) if tensor.dim() == 0 else tensor for tensor in tensors]
    rows = np.array([tensor.size(0) for tensor in tensors])
    fits = [name for name, count in counts.items() if (rows == count).all()]
    if level is None and len(fits) == 1:
        level = fits[0]
    elif level is None and fits[:1] == ["graph"] and len(graphs) > 1:
        level = "graph"  # graphs of one node each: one value per graph
    if level is None or level not in fits:
        what = f"one of {', '.join(LEVELS)}" if level is None else level
        got = (
            f"rows that fit {' and '.join(fits)}" if fits else f"{rows[0]} rows in graph 0 of {counts['node'][0]} nodes"
        )
        error = OptionError if level is None else DataError
        raise error(f"y of {source} with one row for each {what}", got, "pass level='node', 'edge' or 'graph'")
    widths = {tuple(tensor.shape[1:]) for tensor in tensors}
    if len(widths) > 1 or len(next(iter(widths))) > 1 or 0 in next(iter(widths)):
        raise DataError(f"y of one width in every graph of {source}", f"shapes {sorted(widths)}", "give y one width")
    y = torch.cat(tensors)
    y = y[:, 0] if y.dim() == 2 and y.size(1) == 1 else y
    y = y.float() if y.is_floating_point() and y.dtype != torch.float64 else y  # numpy has no bfloat16
    return Target(level, np.asarray((y.long() if y.dtype == torch.bool else y).numpy()), f"y of {source}")


def _split(
    parts: dict[str, list[Any]], graphs: list[Any], target: Target | None, rows: np.ndarray, source: str
) -> Split | None:
    if len(parts) > 1:
        codes = [np.full(len(parts[name]), code) for code, name in enumerate(SPLITS)]
        return Split("graph", np.concatenate(codes), f"the splits of {source}")
    masks = [name for name in _MASKS if all(graph.get(name) is not None for graph in graphs)]
    if not masks or target is None or target.level == "graph":
        return None
    if len(masks) < len(_MASKS):
        expected = f"{', '.join(_MASKS)} in {source}"
        raise DataError(expected, f"only {', '.join(masks)}", "give all three masks, or none for a random split")
    code = np.full(len(target.values), -1)
    for number, name in enumerate(_MASKS):
        chosen = _truth_values(graphs, name, target.level, rows, source)
        if (code[chosen] >= 0).any():
            expected = f"masks of {source} that do not overlap"
            raise DataError(expected, f"{name} overlaps an earlier one", "put each row in one mask")
        code[chosen] = number
    return Split(target.level, code, f"the masks of {source}")


def _truth_values(graphs: list[Any], name: str, level: str, rows: np.ndarray, source: str) -> np.ndarray:
    """A mask of nodes, edges or graphs, [R]."""
    masks = _attribute(graphs, name, source) or []
    for number, (mask, count) in enumerate(zip(masks, rows, strict=True)):
        if mask.dim() == 2 and mask.size(1) > 1:
            remedy = f"choose one column: data.{name} = data.{name}[:, 0]"
            raise UnsupportedError(f"one {name} in {source}", f"{mask.size(1)} columns", remedy)
        if mask.dtype != torch.bool or mask.shape != (count,):
            got = f"{mask.dtype} of shape {list(mask.shape)} in graph {number}"
            remedy = "convert it with .bool(), or rename the attribute if it means something else"
            raise DataError(f"bool {name} in {source}, one value for each {level}", got, remedy)
    return np.asarray(torch.cat(masks).numpy())
