"""A user's own PyG graphs: given, made by a function they name, or stored in a ``.pt`` file."""

import importlib
import os
import sys
import warnings
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch_geometric.data import Data, Dataset, HeteroData

from lrga.data.datasets.spec import SPLITS
from lrga.data.own.table import LEVELS, GraphTable, Split, Target, as_float32
from lrga.data.packed.convert import plain_edge_index
from lrga.data.packed.graphs import PackedGraphs
from lrga.errors import DataError, DataMissingError, LRGAError, OptionError, UnsupportedError
from lrga.io.limits import check_memory, open_regular
from lrga.io.unpickle import check_torch_file

_MASKS = tuple(f"{split}_mask" for split in SPLITS)
_SHAPES = "a Data object, a list of them, a Dataset, or a dict of these called train, val and test"


def load_factory(name: str) -> Any:
    """Imports ``module:factory`` (also from the current folder) and calls it; what is no function is taken as it is."""
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
        remedy = "run from the folder that holds the module, put that folder on PYTHONPATH, or install the package"
        raise DataMissingError(f"the module of {name!r}", f"{error}", remedy) from error
    except Exception as error:  # the user's own code: whatever it raises is told with its cause attached
        got = f"{type(error).__name__}: {error}"
        remedy = "name a function of the module that takes no argument and returns the graphs"
        raise DataError(f"{name!r} to return graphs", got, remedy) from error
    finally:
        sys.path.remove(folder)


def load_file(path: Path) -> Any:
    """What a ``.pt`` file of PyG graphs holds, loaded without running anything in it."""
    from torch_geometric.data.data import DataEdgeAttr, DataTensorAttr
    from torch_geometric.data.storage import BaseStorage, EdgeStorage, GlobalStorage, NodeStorage

    if not path.is_file():
        raise DataMissingError(f"the file {path}", "no such file", "name a file written by torch.save(list_of_data, …)")
    classes = [Data, DataEdgeAttr, DataTensorAttr, BaseStorage, EdgeStorage, GlobalStorage, NodeStorage]
    # Those that PyG has allowed for good are left out: the context would take them away again on leaving.
    allowed = torch.serialization.get_safe_globals()
    classes = [kind for kind in classes if kind not in allowed]
    try:
        with open_regular(path) as file:
            check_torch_file(file, str(path))
        with torch.serialization.safe_globals(classes), warnings.catch_warnings():
            warnings.simplefilter("ignore")  # torch's remarks on odd files: those are refused, in our words
            return torch.load(path, map_location="cpu", weights_only=True)
    except Exception as error:  # damaged bytes can make the unpickler raise anything: IndexError, struct.error, …
        lines = str(error).splitlines() or [type(error).__name__]
        reason = next((line.strip() for line in lines if "GLOBAL" in line or "Unsupported" in line), lines[0])
        remedy = (
            "save a list of torch_geometric.data.Data objects with torch.save; a file that asks for anything but data "
            "classes and tensors is not loaded, as loading it could run any code"
        )
        if _is_text(path):
            remedy = "add --task link to train on an edge list; of graphs in CSV files name the folder that holds them"
            raise DataError(f"PyG graphs (torch.save) in {path}", "a text file", remedy) from error
        if isinstance(error, LRGAError):
            raise
        raise DataError(
            f"PyG graphs alone in {path}", f"a file that cannot be loaded safely ({reason[:300]})", remedy
        ) from error


def _is_text(path: Path) -> bool:
    with open(path, "rb") as file:
        begin = file.read(1024)
    return bool(begin) and all(byte >= 32 or byte in b"\t\n\r" for byte in begin)


def graph_table(loaded: Any, source: str, *, level: str | None = None, target: bool = True) -> GraphTable:
    """Graphs as one table.

    Args:
        loaded: A ``Data``, a sequence of them, a ``Dataset``, :class:`PackedGraphs`, a dict or a tuple of the three
            splits, or the pair that PyG's in-memory data sets store.
        source: Where it came from, for errors.
        level: To what ``y`` belongs; found from its shapes where it is ``None``.
        target: Whether ``y`` is wanted. Without it the names and masks are not looked at either.
    """
    parts = _parts(loaded, source)
    graphs = [graph for part in parts.values() for graph in part]
    counts = {name: len(part) for name, part in parts.items()}
    if not graphs or (len(counts) > 1 and 0 in counts.values()):
        raise DataError(f"graphs in every part of {source}", f"{counts}", "return at least one graph for each")
    for number, graph in enumerate(graphs):
        _check_graph(graph, f"graph {number} of {source}")
    _check_memory(graphs, source)
    num_nodes = np.array([_num_nodes(graph) for graph in graphs])
    ends = [
        plain_edge_index(graph, int(n), f"graph {g} of {source}")
        for g, (graph, n) in enumerate(zip(graphs, num_nodes, strict=True))
    ]
    num_edges = np.array([end.size(1) for end in ends])
    notes: list[str] = []
    x = _features(graphs, "x", num_nodes, source, notes, strict=target)
    edge_attr = _features(graphs, "edge_attr", num_edges, source, notes, strict=target)
    first = loaded.get("train") if isinstance(loaded, Mapping) else loaded
    names: Mapping[str, list[str]] = {}
    if isinstance(first, PackedGraphs):
        level, names = level or first.y_level, first.meta
    rows = {"graph": np.ones_like(num_nodes), "node": num_nodes, "edge": num_edges}
    found = _target(graphs, rows, level, source) if target else None
    masked = any(graph.get("mask") is not None for graph in graphs)  # chooses the targets that may be used
    return GraphTable(
        num_nodes=num_nodes,
        num_edges=num_edges,
        edge_index=torch.cat(ends, dim=1).long().numpy(),
        x=np.ones((int(num_nodes.sum()), 1), np.float32) if x is None else x,
        edge_attr=edge_attr,
        targets={} if found is None else {found.level: found},
        split=_split(parts, graphs, found, rows[found.level if found else "graph"], source),
        mask=_truth_values(graphs, "mask", found.level, rows[found.level], source) if found and masked else None,
        objects={"graph_id": [str(number) for number in range(len(graphs))]},
        x_names=tuple(names["node_names"]) if "node_names" in names else None,
        edge_names=tuple(names["edge_names"]) if "edge_names" in names else None,
        notes=tuple(notes),
    )


def _check_memory(graphs: list[Any], source: str) -> None:
    """Refuses graphs that memory does not hold: a view that repeats one number takes no memory until it is copied."""
    names = ("x", "edge_attr", "edge_index", "y", "mask", *_MASKS)
    values = [graph.get(name) for graph in graphs for name in names]
    need = sum(value.numel() * value.element_size() for value in values if isinstance(value, Tensor))
    check_memory(need + 8 * sum(map(_num_nodes, graphs)), f"the graphs of {source}")


def _parts(loaded: Any, source: str) -> dict[str, list[Any]]:
    """Split → graphs, or ``{"": graphs}`` where no splits are given."""
    if isinstance(loaded, Mapping):
        if set(loaded) != set(SPLITS):
            got = f"a dict with {', '.join(map(repr, loaded)) or 'nothing'} from {source}"
            raise DataError(
                "a dict with train, val and test", got, "name the splits so, or return all graphs in a list"
            )
        return {split: _graphs(loaded[split], source) for split in SPLITS}
    if isinstance(loaded, tuple) and len(loaded) in (2, 3) and not any(isinstance(part, Data) for part in loaded[1:]):
        if len(loaded) == 3 and all(isinstance(part, Dataset | Sequence) for part in loaded):
            return {split: _graphs(part, source) for split, part in zip(SPLITS, loaded, strict=True)}
        return {"": _separate(loaded, source)}
    return {"": _graphs(loaded, source)}


def _graphs(loaded: Any, source: str) -> list[Any]:
    if isinstance(loaded, PackedGraphs):
        return loaded.to("cpu").to_data_list()
    if isinstance(loaded, Data | HeteroData):
        _check_whole(loaded, source)
        return loaded.to_data_list() if hasattr(loaded, "to_data_list") else [loaded]
    if isinstance(loaded, Dataset | list | tuple | torch.utils.data.Dataset) and hasattr(loaded, "__len__"):
        return [loaded[i] for i in range(len(loaded))]
    raise DataError(f"{_SHAPES} from {source}", f"a {type(loaded).__name__}", "return one of these")


def _separate(stored: tuple[Any, ...], source: str) -> list[Data]:
    """The graphs of what ``InMemoryDataset.save`` writes: all of them in one, and where each begins."""
    together, slices = stored[:2]
    if isinstance(together, Mapping):
        together = Data.from_dict(dict(together))
    if isinstance(together, Data):
        _check_whole(together, source)
    if not isinstance(together, Data) or not (slices is None or isinstance(slices, Mapping)):
        got = f"a tuple of {', '.join(type(part).__name__ for part in stored)}"
        raise DataError(f"{_SHAPES} in {source}", got, "save a list of Data objects")
    if not slices:
        return [together]
    from torch_geometric.data.separate import separate

    count = len(next(iter(slices.values()))) - 1
    try:
        return [separate(Data, together, i, slices, decrement=False) for i in range(count)]
    except Exception as error:  # PyG indexes whatever the file says
        got = f"others ({(str(error).splitlines() or [''])[0][:200]})"
        raise DataError(f"slices that fit the graphs of {source}", got, "save a list of Data objects") from error


def _check_whole(graph: Any, where: str) -> None:
    """A graph whose pickle was damaged, or written by a PyG before 2.0, has nothing that PyG could read it from."""
    if isinstance(graph, HeteroData):
        raise UnsupportedError("homogeneous graphs (Data)", f"HeteroData as {where}", "convert with .to_homogeneous()")
    if not isinstance(graph, Data):
        raise DataError(f"a Data object as {where}", f"a {type(graph).__name__}", "return Data objects")
    if "_store" not in vars(graph):
        raise DataError(f"a whole Data object as {where}", "one without its content", "save the graphs again")


def _check_graph(graph: Any, where: str) -> None:
    _check_whole(graph, where)
    for name, value in graph.to_dict().items():
        if isinstance(value, Tensor) and (value.is_nested or value.is_quantized):
            raise DataError(f"a dense tensor as {name} of {where}", "a nested or quantized one", "save it as floats")
    if graph.edge_index is None and {"adj", "adj_t"} & set(graph.keys()):
        raise UnsupportedError(f"edges as edge_index in {where}", "an adjacency matrix", "convert it to edge_index")
    try:
        count = _num_nodes(graph)
    except (TypeError, ValueError, OverflowError) as error:
        raise DataError(f"an integer as num_nodes of {where}", str(error), "correct it") from error
    if count <= 0:
        raise DataError(f"nodes in {where}", "an empty graph", "set x or num_nodes, or leave the graph out")


def _num_nodes(graph: Data) -> int:
    for name in ("x", "pos"):
        if isinstance(graph.get(name), Tensor | np.ndarray) and graph[name].ndim > 0:
            return len(graph[name])
    if "num_nodes" in graph:
        return int(graph.num_nodes or 0)
    # PyG would warn that isolated nodes at the end cannot be known; nothing else says how many there are.
    ends = graph.edge_index
    known = isinstance(ends, Tensor) and ends.layout == torch.strided and ends.numel() > 0
    return int(ends.max()) + 1 if known else 0


def _attribute(graphs: list[Any], name: str, source: str) -> list[Tensor] | None:
    """An attribute of every graph, as dense tensors of numbers on the CPU; ``None`` where no graph has it."""
    values = [graph.get(name) for graph in graphs]
    missing = [number for number, value in enumerate(values) if value is None]
    if len(missing) == len(values):
        return None
    if missing:
        expected, got = f"{name} in every graph of {source} or in none", f"graph {missing[0]} without it"
        raise DataError(expected, got, f"give {name} to every graph")
    tensors = []
    for number, value in enumerate(values):
        where = f"{name} of graph {number} of {source}"
        if isinstance(value, Tensor) and value.layout != torch.strided:
            remedy = f"convert it: data.{name} = data.{name}.to_dense()"
            raise DataError(f"a dense tensor as {where}", f"one of layout {value.layout}", remedy)
        try:
            tensors.append(torch.as_tensor(value).detach().cpu())
        except (TypeError, ValueError, RuntimeError) as error:
            remedy = "make numbers of it; number classes from 0 (in CSV files they may have names)"
            raise DataError(f"numbers in {where}", f"{type(value).__name__} {value!r:.60}", remedy) from error
    return tensors


def _features(
    graphs: list[Any], name: str, rows: np.ndarray, source: str, notes: list[str], *, strict: bool
) -> np.ndarray | None:
    """[R, F] float32 features, or [R] int64 types where there is one column of integers from 0."""
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
        raise DataError(f"finite numbers in {name} of {source}", got, "replace or leave out what is not known")
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
        level = "graph"  # graphs of one node each: one value for the graph
    if level is None or level not in fits:
        what = f"one of {', '.join(LEVELS)}" if level is None else level
        got = (
            f"rows that fit {' and '.join(fits)}" if fits else f"{rows[0]} rows in graph 0 of {counts['node'][0]} nodes"
        )
        error = OptionError if level is None else DataError
        raise error(f"y of {source} with one row for each {what}", got, "say level='node', 'edge' or 'graph'")
    widths = {tuple(tensor.shape[1:]) for tensor in tensors}
    if len(widths) > 1 or len(next(iter(widths))) > 1 or 0 in next(iter(widths)):
        raise DataError(f"y of one width in every graph of {source}", f"shapes {sorted(widths)}", "give y one shape")
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
        raise DataError(expected, f"{', '.join(masks)} alone", "give all three masks, or none to have the split drawn")
    code = np.full(len(target.values), -1)
    for number, name in enumerate(_MASKS):
        chosen = _truth_values(graphs, name, target.level, rows, source)
        if (code[chosen] >= 0).any():
            expected = f"masks of {source} that do not overlap"
            raise DataError(expected, f"{name} overlaps an earlier one", "separate them")
        code[chosen] = number
    return Split(target.level, code, f"the masks of {source}")


def _truth_values(graphs: list[Any], name: str, level: str, rows: np.ndarray, source: str) -> np.ndarray:
    """[R] a mask of nodes, edges or graphs."""
    masks = _attribute(graphs, name, source) or []
    for number, (mask, count) in enumerate(zip(masks, rows, strict=True)):
        if mask.dim() == 2 and mask.size(1) > 1:
            remedy = f"choose one of them: data.{name} = data.{name}[:, 0]"
            raise UnsupportedError(f"one {name} in {source}", f"{mask.size(1)} side by side", remedy)
        if mask.dtype != torch.bool or mask.shape != (count,):
            got = f"{mask.dtype} of shape {list(mask.shape)} in graph {number}"
            remedy = "convert it with .bool(), or rename the attribute if it means something else"
            raise DataError(f"truth values as {name} in {source}, one for each {level}", got, remedy)
    return np.asarray(torch.cat(masks).numpy())
