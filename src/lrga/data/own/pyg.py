"""The user's own PyG graphs: objects, the result of a function, or a ``.pt`` file."""

import importlib
import os
import sys
import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch_geometric.data import Data, Dataset, HeteroData

from lrga.data.datasets.spec import SPLITS
from lrga.data.own.table import as_float32, no_target
from lrga.data.packed.arrays import LEVELS, pack_arrays
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
        remedy = "pass a function that takes no arguments and returns the graphs"
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


def read_pyg(loaded: Any, source: str, *, level: str | None = None, target: bool = True) -> PackedGraphs:
    """Packs the user's graphs.

    Args:
        loaded: A ``Data``, a sequence of them, a ``Dataset``, :class:`PackedGraphs`, or a dict of the three
            splits.
        source: Where the graphs came from, for errors.
        level: Level of ``y``; ``None`` derives it from the shapes.
        target: Whether to read ``y``. If not, masks are ignored too.

    Returns:
        The graphs as :func:`lrga.data.own.reading.read_graphs` describes them.
    """
    try:
        return _packed(loaded, source, level, target)
    except LRGAError as error:
        expected = error.expected if source in error.expected else f"{error.expected} in {source}"
        raise type(error)(expected, error.got, error.remedy) from error
    except Exception as error:  # nested or quantized tensors, a damaged pickle, errors of the user's data set, …
        remedy = "save the graphs again, with dense tensors of numbers"
        raise DataError(f"PyG graphs in {source}", f"an unsupported form ({first_line(error)})", remedy) from error


def _packed(loaded: Any, source: str, level: str | None, target: bool) -> PackedGraphs:
    if isinstance(loaded, Mapping) and set(loaded) != set(SPLITS):
        got = f"a dict with {', '.join(map(repr, loaded)) or 'nothing'}"
        raise DataError("a dict with train, val and test", got, "use these keys, or return all graphs in a list")
    given = {split: loaded[split] for split in SPLITS} if isinstance(loaded, Mapping) else {"": loaded}
    parts = {split: _graphs(part) for split, part in given.items()}
    graphs = [graph for part in parts.values() for graph in part]
    counts = {name: len(part) for name, part in parts.items()}
    if not graphs or (len(counts) > 1 and 0 in counts.values()):
        raise DataError("graphs in every part", str(counts) if graphs else "none", "return at least one for each part")
    num_nodes = np.array([_num_nodes(graph, f"graph {number}") for number, graph in enumerate(graphs)])
    values = [graph.get(name) for graph in graphs for name in ("x", "edge_attr", "edge_index", "y", "mask", *_MASKS)]
    need = sum(value.numel() * value.element_size() for value in values if isinstance(value, Tensor))
    # A view that repeats one number uses no memory until it is copied.
    check_memory(need + 8 * sum(num_nodes.tolist()), "the graphs")
    ends = [plain_edge_index(graph, f"graph {number}") for number, graph in enumerate(graphs)]
    num_edges = np.array([end.size(1) for end in ends])
    rows = {"graph": np.ones_like(num_nodes), "node": num_nodes, "edge": num_edges}
    first = next(iter(given.values()))
    known = first.meta if isinstance(first, PackedGraphs) else {}
    meta: dict[str, Any] = {key: known[key] for key in ("node_names", "edge_names") if key in known}
    notes: list[str] = []
    x = _features(graphs, "x", "node", rows, notes, strict=target)
    columns: dict[str, Any] = {
        "node": {"x": torch.ones(int(num_nodes.sum()), 1) if x is None else x},
        "edge": {"edge_attr": _features(graphs, "edge_attr", "edge", rows, notes, strict=target)},
        "graph": {},
    }
    if target:
        level, found = _target(graphs, rows, level or getattr(first, "y_level", None), source)
        columns[level] |= found
        split_level, code = _split(parts, graphs, level, rows)
        columns[split_level]["split"] = code
        meta |= {"y": f"y of {source}", "split": f"the {'splits' if len(parts) > 1 else 'masks'} of {source}"}
    return pack_arrays(
        num_nodes=num_nodes,
        num_edges=num_edges,
        edge_index=torch.cat(ends, dim=1),
        **columns,
        objects={"graph_id": [str(number) for number in range(len(graphs))]},
        meta=meta | ({"notes": notes} if notes else {}),
    )


def _graphs(loaded: Any) -> list[Any]:
    if isinstance(loaded, PackedGraphs):
        return loaded.to("cpu").to_data_list()
    if isinstance(loaded, Data | HeteroData):
        return loaded.to_data_list() if hasattr(loaded, "to_data_list") else [loaded]
    if isinstance(loaded, Dataset | list | tuple | torch.utils.data.Dataset) and hasattr(loaded, "__len__"):
        return [loaded[i] for i in range(len(loaded))]
    raise DataError(_SHAPES, f"a {type(loaded).__name__}", "return one of these types")


def _num_nodes(graph: Any, where: str) -> int:
    if isinstance(graph, HeteroData):
        raise UnsupportedError("homogeneous graphs (Data)", f"HeteroData as {where}", "convert with .to_homogeneous()")
    if not isinstance(graph, Data):
        raise DataError(f"a Data object as {where}", f"a {type(graph).__name__}", "return Data objects")
    if graph.edge_index is None and {"adj", "adj_t"} & set(graph.keys()):
        raise UnsupportedError(f"edges as edge_index in {where}", "an adjacency matrix", "convert it to edge_index")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # if only the edges tell the number of nodes
        count = int(graph.num_nodes or 0)
    if count <= 0:
        raise DataError(f"nodes in {where}", "an empty graph", "set x or num_nodes, or remove the graph")
    return count


def _column(graphs: list[Any], name: str, rows: dict[str, np.ndarray], level: str | None) -> tuple[str, Tensor] | None:
    """The level of an attribute (``level``, or derived from the shapes) and its values [R, …]; ``None`` if no graph
    has it."""
    tensors = []
    for number, value in enumerate(found := [graph.get(name) for graph in graphs]):
        if value is None:
            continue
        where = f"{name} of graph {number}"
        if isinstance(value, Tensor) and value.layout != torch.strided:
            remedy = f"convert it: data.{name} = data.{name}.to_dense()"
            raise DataError(f"a dense tensor as {where}", f"one of layout {value.layout}", remedy)
        try:
            tensor = torch.as_tensor(value).detach().cpu()
        except (TypeError, ValueError, RuntimeError) as error:
            remedy = "convert it to numbers; number classes from 0 (only CSV files may have class names)"
            raise DataError(f"numbers in {where}", f"{type(value).__name__} {value!r:.60}", remedy) from error
        tensors.append(tensor.reshape(1) if tensor.dim() == 0 else tensor)
    if not tensors:
        return None
    if len(tensors) < len(graphs):
        missing = next(number for number, value in enumerate(found) if value is None)
        expected, got = f"{name} in every graph or in none", f"graph {missing} without it"
        raise DataError(expected, got, f"set {name} in every graph")
    sizes = np.array([tensor.size(0) for tensor in tensors])
    fits = [of for of, counts in rows.items() if (sizes == counts).all()]
    if level is None and (len(fits) == 1 or (fits[:1] == ["graph"] and len(graphs) > 1)):
        level = fits[0]  # graphs of one node each: one value per graph
    if level is None:
        got = f"rows that fit {' and '.join(fits)}"
        got = got if fits else f"{sizes[0]} rows in graph 0 of {rows['node'][0]} nodes"
        expected = f"{name} with one row for each one of {', '.join(LEVELS)}"
        remedy = "pass level='node', 'edge' or 'graph'"
        if not fits and (sizes == sizes[0]).all():
            remedy = f"if these are {sizes[0]} targets of each graph, reshape {name} to [1, {sizes[0]}]"
        raise OptionError(expected, got, remedy)
    wide = tensors[0].shape[1:]
    odd = (sizes != rows[level]) | np.array([tensor.shape[1:] != wide for tensor in tensors])
    if odd.any():
        number = int(np.argmax(odd))
        shape = [int(rows[level][number]), *wide]
        expected = f"{name} of {shape[0]} rows (shape {shape}), one for each {level}, in graph {number}"
        got = f"{tensors[number].dtype} of shape {list(tensors[number].shape)}"
        other = "pass another level" if name == "y" else "rename it"
        raise DataError(expected, got, f"give {name} one row for each {level}, as wide as in graph 0, or {other}")
    return level, torch.cat(tensors)


def _features(
    graphs: list[Any], name: str, level: str, rows: dict[str, np.ndarray], notes: list[str], *, strict: bool
) -> Tensor | None:
    """Features [R, F] float32; one column of non-negative integers gives types [R] int64."""
    found = _column(graphs, name, rows, level)
    if found is None or 0 in found[1].shape[1:]:
        return None
    flat = found[1].flatten(1) if found[1].dim() > 1 else found[1].unsqueeze(1)
    if flat.is_complex():
        raise DataError(f"real numbers in {name}", str(flat.dtype), "split real and imaginary parts")
    if flat.size(1) == 1 and flat.dtype in (torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64):
        types = flat[:, 0].long()
        if not len(types) or int(types.min()) >= 0:
            return types
    features = flat.float()
    finite = features.isfinite().all(dim=1)
    if not finite.all():
        row = int((~finite).nonzero()[0])
        graph = int(np.searchsorted(np.cumsum(rows[level]), row, side="right"))
        got = f"NaN or infinity in graph {graph}, row {row - int(rows[level][:graph].sum())}"
        raise DataError(f"finite numbers in {name}", got, "replace or remove missing values")
    if flat.dtype == torch.bool or (flat.is_floating_point() and flat.dtype != torch.float64):  # float32 holds them
        return features
    columns = [column.numpy() for column in flat.t()]
    names = [f"{name}[:, {i}]" for i in range(len(columns))]
    return torch.from_numpy(as_float32(columns, names, level, "the graphs", notes, strict=strict))


def _target(
    graphs: list[Any], rows: dict[str, np.ndarray], level: str | None, source: str
) -> tuple[str, dict[str, Tensor | None]]:
    """The level of ``y``; ``y`` [R] or [R, T] and ``mask`` [R], if any."""
    found = _column(graphs, "y", rows, level)
    if found is None:
        raise no_target(level, source)
    level, y = found
    if y.dim() > 2 or 0 in y.shape[1:]:
        raise DataError("y of one width", f"shape {list(y.shape)}", "give y one width")
    y = y[:, 0] if y.dim() == 2 and y.size(1) == 1 else y
    if y.is_floating_point() and y.dtype != torch.float64:
        y = y.float()  # numpy has no bfloat16
    return level, {"y": y.long() if y.dtype == torch.bool else y, "mask": _mask(graphs, "mask", level, rows)}


def _split(
    parts: dict[str, list[Any]], graphs: list[Any], level: str, rows: dict[str, np.ndarray]
) -> tuple[str, Tensor | None]:
    """The level of the split, and 0, 1, 2 or -1 for train, val, test or none in each row; ``None`` if none is given."""
    if len(parts) > 1:
        return "graph", torch.cat([torch.full((len(parts[name]),), code) for code, name in enumerate(SPLITS)])
    given = [name for name in _MASKS if all(graph.get(name) is not None for graph in graphs)]
    if not given or level == "graph":
        return level, None
    if len(given) < len(_MASKS):
        expected = ", ".join(_MASKS)
        raise DataError(expected, f"only {', '.join(given)}", "give all three masks, or none for a random split")
    masks = torch.stack([_mask(graphs, name, level, rows) for name in _MASKS]).long()  # [3, R]
    if (masks.sum(0) > 1).any():
        raise DataError("masks that do not overlap", "a row in two of them", "put each row in one mask")
    return level, torch.where(masks.sum(0) > 0, masks.argmax(0), -1)


def _mask(graphs: list[Any], name: str, level: str, rows: dict[str, np.ndarray]) -> Any:
    """[R] a mask of nodes, edges or graphs; ``None`` if no graph has it."""
    found = _column(graphs, name, rows, level)
    if found is None:
        return None
    mask = found[1]
    if mask.dim() == 2 and mask.size(1) > 1:
        remedy = f"choose one column: data.{name} = data.{name}[:, 0]"
        raise UnsupportedError(f"one {name}", f"{mask.size(1)} columns", remedy)
    if mask.dtype != torch.bool or mask.dim() > 1:
        remedy = "convert it with .bool(), or rename the attribute if it means something else"
        raise DataError(f"bool {name}, one value for each {level}", f"{mask.dtype} of {mask.dim()} dimensions", remedy)
    return mask
