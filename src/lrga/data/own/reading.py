"""The user's own graphs: a folder of CSV files, a ``.pt`` file, a function that returns PyG graphs, or PyG graphs.

This module determines the task, the classes, the inputs of a network and the splits, whatever the source.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch

from lrga.checks import check_choice, check_count
from lrga.data.datasets.spec import SPLITS
from lrga.data.links.split import DEFAULT_FRACTIONS, check_fractions
from lrga.data.own.csv_folder import read_folder
from lrga.data.own.pyg import load_factory, load_file, read_pyg
from lrga.data.own.table import is_coarse
from lrga.data.packed.arrays import LEVELS
from lrga.data.packed.graphs import Column, PackedGraphs
from lrga.errors import DataError, DataMissingError, OptionError
from lrga.io.limits import check_memory

TYPE_BYTES = 256  # at least, for 16 values, their gradients and the moments of Adam
_FACTORY = re.compile(r"[A-Za-z_][\w.]*:[A-Za-z_][\w.]*")
TASKS = ("classification", "multilabel", "regression")
NO_LABEL = (-1, -100)  # labels that mean "no label"


class Labels(NamedTuple):
    """Targets ready for training: one of :data:`TASKS`, ``y`` and the class names, if any.

    ``y`` holds [R] int64 classes; [R, T] float32 labels, NaN if missing; or [R] or [R, T] float32 values (float64 if
    float32 cannot distinguish them).
    """

    task: str
    y: np.ndarray
    classes: tuple[str, ...] | None


@dataclass(frozen=True)
class OwnData:
    """A user's graphs, ready for training.

    Attributes:
        splits: ``{"train": …, "val": …, "test": …}``. If :attr:`masked`, each has an attribute ``mask`` of the
            level; only targets where it is true may be used.
        task: ``"classification"`` or ``"regression"``.
        level: Level of the predictions: ``"node"``, ``"edge"`` or ``"graph"``.
        classes: Names of the classes in the user's data; ``None`` for regression.
        num_targets: Number of values to predict for each node, edge or graph: the number of columns of ``y``.
        node_features: Width of ``x``; 0 if it holds types.
        node_types: Number of node types if ``x`` [N] holds types, else ``None``.
        edge_features: Width of ``edge_attr``; 0 if it holds types or does not exist.
        edge_types: Number of edge types if ``edge_attr`` [E] holds types, else ``None``.
        node_names: Names of the columns of ``x``, if any.
        edge_names: Names of the columns of ``edge_attr``, if any.
        target_names: Names of several targets, if any.
        notes: Notes on reading the data: repeated edges, missing labels, lost digits.
    """

    splits: dict[str, PackedGraphs]
    task: str
    level: str
    classes: tuple[str, ...] | None
    num_targets: int
    node_features: int
    node_types: int | None
    edge_features: int
    edge_types: int | None
    node_names: tuple[str, ...] | None = None
    edge_names: tuple[str, ...] | None = None
    target_names: tuple[str, ...] | None = None
    notes: tuple[str, ...] = ()

    @property
    def masked(self) -> bool:
        """Whether every split has a ``mask``: the splits share all graphs, or labels are missing."""
        return "mask" in self.splits["train"].columns

    @property
    def num_classes(self) -> int | None:
        """Number of classes; ``None`` for regression."""
        return None if self.classes is None else len(self.classes)

    @property
    def num_outputs(self) -> int:
        """Width of a model's output: number of classes, or of values to predict."""
        return self.num_targets if self.classes is None else len(self.classes)


def load_custom(
    data: Any,
    *,
    task: str | None = None,
    level: str | None = None,
    split: Sequence[float] | None = None,
    seed: int | None = None,
) -> OwnData:
    """Loads the user's own graphs.

    Args:
        data: A folder of CSV files (:mod:`lrga.data.own.csv_folder`); a ``.pt`` file of graphs; ``"module:factory"``,
            a function without arguments that returns graphs; or the graphs themselves. Graphs are a PyG ``Data``, a
            list of them, a PyG ``Dataset``, :class:`PackedGraphs`, or a dict of these called train, val and test.
        task: ``"classification"``, ``"multilabel"`` (every column of ``y`` is a label, 1 or 0, NaN if missing) or
            ``"regression"``. By default integers and names are classes, other numbers are values.
        level: Level of the target: ``"node"``, ``"edge"`` or ``"graph"``; by default derived from the data.
        split: Fractions of train, val and test, by default (0.8, 0.1, 0.1): fractions of the graphs if there are at
            least three, else of the nodes (or edges), which then have a ``mask``.
        seed: Seed of the random split, by default 41. If the data contain a split, ``split`` and ``seed`` are errors.

    Example:
        >>> import tempfile
        >>> folder = Path(tempfile.mkdtemp())
        >>> nodes = "".join(f"{g},{n},{n / 2}\\n" for g in range(10) for n in range(3))
        >>> _ = (folder / "nodes.csv").write_text("graph,node,x0\\n" + nodes)
        >>> _ = (folder / "edges.csv").write_text("graph,source,target\\n0,0,1\\n0,1,0\\n")
        >>> _ = (folder / "graphs.csv").write_text("graph,y\\n" + "".join(f"{g},{g % 2}\\n" for g in range(10)))
        >>> data = load_custom(folder)
        >>> data.level, data.task, data.classes, {name: len(graphs) for name, graphs in data.splits.items()}
        ('graph', 'classification', ('0', '1'), {'train': 8, 'val': 1, 'test': 1})
    """
    check_choice("level", level, (None, *LEVELS))
    source, graphs = _name(data), read_graphs(data, level=level)
    level = graphs.columns["y"].level
    if "split" in graphs.columns and (split is not None or seed is not None):
        got = f"{'a seed' if split is None else 'fractions'} as well as {graphs.meta['split']}"
        raise OptionError("one split of the data", got, "omit it, or remove the split from the data")
    known = labelled(graphs, task)
    notes = graphs.meta.get("notes", [])
    if missing := int((~known).sum()):
        notes.append(
            f"{missing:,} of {len(known):,} {level}s have no label (y is -1 or -100): they are used neither for "
            "training nor for evaluation"
        )
    if "mask" in graphs.columns:
        known &= _rows(graphs, "mask")
    fractions, seed = DEFAULT_FRACTIONS if split is None else split, 41 if seed is None else seed
    split_level, code = make_split(graphs, known, fractions, seed, source)
    used = code >= 0 if split_level == level else (code >= 0)[graph_of(graphs, level)]
    labels = make_labels(graphs, task, used & known)
    node_features, node_types = _widths(graphs.x, f"node types in {source}")
    edge_features, edge_types = _widths(graphs.edge_attr, f"edge types in {source}")
    names: dict[str, Any] = {key: graphs.meta[key] for key in ("node_names", "edge_names") if key in graphs.meta}
    columns: dict[str, Column] = {key: graphs.columns[key] for key in ("x", "edge_attr") if key in graphs.columns}
    columns["y"] = Column.of(level, torch.from_numpy(labels.y))
    if split_level == "graph" and level != "graph" and not known.all():
        columns["mask"] = Column.of(level, torch.from_numpy(known))
    target_names = tuple(graphs.meta.get("target_names", ()))
    named = len(target_names) > 1 and target_names != tuple(map(str, range(len(target_names))))  # not y:0, y:1, …
    graphs = replace(graphs, columns=columns, meta=names)
    chosen = {name: code == number for number, name in enumerate(SPLITS)}
    if split_level == "graph":
        splits = {name: graphs[np.flatnonzero(rows)] for name, rows in chosen.items()}
    else:
        masks = {name: Column.of(level, torch.from_numpy(rows)) for name, rows in chosen.items()}
        splits = {name: graphs.with_column("mask", mask) for name, mask in masks.items()}
    return OwnData(
        splits=splits,
        task=labels.task,
        level=level,
        classes=labels.classes,
        num_targets=1 if labels.y.ndim == 1 else labels.y.shape[1],
        node_features=node_features,
        node_types=node_types,
        edge_features=edge_features,
        edge_types=edge_types,
        target_names=target_names if named else None,
        notes=tuple(notes),
        **{key: tuple(own) for key, own in names.items()},
    )


def load_inputs(data: Any) -> PackedGraphs:
    """Loads graphs for prediction, from the same sources as :func:`load_custom`; targets and splits are ignored.

    ``objects["graph_id"]`` holds the id of each graph and, for CSV files, ``objects["node_id"]`` the ids of its nodes.
    ``meta`` holds the ``node_names`` and ``edge_names`` of the columns, if any, and ``notes`` on reading the data.
    """
    return read_graphs(data, target=False)


def _name(data: Any) -> str:
    return str(data) if isinstance(data, str | Path) else "the graphs given"


def read_graphs(data: Any, *, level: str | None = None, target: bool = True) -> PackedGraphs:
    """The graphs of ``data`` (see :func:`load_custom`) before the task is known.

    ``x`` and ``edge_attr`` are float32 features or int64 types. With ``target``, ``y`` holds the values given (if
    ``meta`` has ``classes``, indices into these names), ``split`` 0, 1, 2 or -1 for train, val, test or none, and
    ``mask`` is true in rows whose target may be used. ``meta`` also has the origin of ``y`` and ``split``, for errors.
    """
    text = _name(data)
    if not isinstance(data, str | Path):
        return read_pyg(data, text, level=level, target=target)
    path = Path(data).expanduser()
    if path.is_dir():
        return read_folder(path, level=level, target=target)
    if path.suffix == ".py" and path.is_file():
        raise DataError("graphs", f"the file {text}", f"pass a function of it that returns them: {path.stem}:FUNCTION")
    if path.suffix in (".csv", ".tsv", ".txt", ".gz") and path.is_file():
        remedy = "pass the folder with nodes.csv and edges.csv, or predict the links of an edge list with --task link"
        raise DataError("a folder of CSV files", f"the file {text}", remedy)
    if path.suffix in (".pt", ".pth") or path.is_file():
        return read_pyg(load_file(path), text, level=level, target=target)
    if is_factory(text):
        return read_pyg(load_factory(text), text, level=level, target=target)
    got, remedy = f"{text!r}, which does not exist in {Path.cwd()}", "correct the path, or pass package.module:function"
    raise DataMissingError("a folder with nodes.csv and edges.csv, a .pt file, or module:factory", got, remedy)


def is_factory(spec: str) -> bool:
    """Whether ``spec`` has the form ``module:factory``, a reference to code.

    Example:
        >>> is_factory("my_graphs:load"), is_factory("my_graphs/")
        (True, False)
    """
    return _FACTORY.fullmatch(spec) is not None


def _widths(values: torch.Tensor | None, what: str) -> tuple[int, int | None]:
    """Number of features, and number of types if the values are types (rows of an embedding table)."""
    if values is None or values.dim() == 2:
        return 0 if values is None else values.size(1), None
    count = int(values.max()) + 1 if len(values) else 0
    remedy = "number the types 0, 1, 2, …, or convert them to floats to use them as a feature"
    check_memory(count * TYPE_BYTES, f"a table of {count:,} {what}", remedy=remedy)
    return 0, count


def graph_of(graphs: PackedGraphs, level: str) -> np.ndarray:
    """[R] the graph of each node, edge or graph."""
    each = np.arange(len(graphs))
    counts = {"node": graphs.nodes_per_graph, "edge": graphs.edges_per_graph}.get(level)
    return each if counts is None else each.repeat(counts.numpy())


def _rows(graphs: PackedGraphs, name: str) -> np.ndarray:
    """[R, …] an attribute of the graphs as given: integers, floats or text."""
    values = graphs.columns[name].take(slice(None)).numpy()
    return np.array(graphs.meta["classes"])[values] if name == "y" and "classes" in graphs.meta else values


def make_labels(graphs: PackedGraphs, task: str | None, rows: np.ndarray) -> Labels:
    """Targets of ``task``; by default integers and names are classes, and other numbers are values.

    Classes are numbered 0, 1, … in the order of their labels, numeric or alphabetic.

    Args:
        graphs: The graphs of :func:`read_graphs`.
        task: One of :data:`TASKS`, or ``None``.
        rows: [R] which rows are in a split; the others may hold anything.
    """
    check_choice("task", task, (None, *TASKS))
    values, where, level = _rows(graphs, "y"), graphs.meta["y"], graphs.columns["y"].level
    kind = values.dtype.kind
    if task == "multilabel":
        return _labels(values, rows, where)
    if kind == "f":
        finite = np.isfinite(values.reshape(len(values), -1)).all(axis=1) | ~rows
        if not finite.all():
            graph = graph_of(graphs, level)[np.argmin(finite)]
            remedy = f"remove the {level}s without target" + ", or pass --task multilabel" * (values.ndim > 1)
            raise DataError(f"finite numbers in {where}", f"NaN or infinity in graph {graph}", remedy)
    chosen = task or ("regression" if kind == "f" else "classification")
    if chosen == "classification":
        return _classes(values, rows, where)
    if kind == "U":
        got = f"names such as {values[0]!s}"
        raise DataError(f"numbers in {where} for regression", got, "write numbers, or set the task to classification")
    if kind == "f" and np.abs(values[rows]).max(initial=0) > np.finfo(np.float32).max:
        raise DataError(f"numbers of at most 3.4e38 in {where}", "a larger one", "scale the target")
    y = np.where(rows.reshape(-1, *[1] * (values.ndim - 1)), values, 0)
    columns = values[rows].reshape(int(rows.sum()), -1).T
    return Labels(chosen, y.astype(np.float64 if any(map(is_coarse, columns)) else np.float32), None)


def labelled(graphs: PackedGraphs, task: str | None) -> np.ndarray:
    """[R] whether each row has a label: class labels -1 and -100 mean no label, all regression targets count."""
    values, where = _rows(graphs, "y"), graphs.meta["y"]
    is_label = values.ndim == 1 and (values.dtype.kind == "i" if task is None else task == "classification")
    if not is_label or values.dtype.kind not in "if":
        return np.ones(len(values), dtype=bool)
    found = np.isin(values, NO_LABEL)
    if found.all():
        got = "only -1 and -100, which mean no label"
        raise DataError(f"labels in {where}", got, f"label some of the {graphs.columns['y'].level}s")
    if found.any() and (values[~found] < 0).any():
        odd = values[~found].min()
        expected = f"classes numbered from 0 in {where}, with -1 or -100 for no label"
        remedy = "number the classes from 0, or set the task to regression (--task regression)"
        raise DataError(expected, f"{int(odd)} and {int(values[found][0])}", remedy)
    return ~found


def _labels(values: np.ndarray, rows: np.ndarray, where: str) -> Labels:
    expected = f"labels 0 and 1 in {where}, with NaN for a missing label"
    if values.dtype.kind == "U":
        raise DataError(expected, f"names such as {values[0]!s}", "write numbers, or set the task to classification")
    y = values.reshape(len(values), -1).astype(np.float32)
    odd = y[rows & ~((y == 0) | (y == 1) | np.isnan(y)).all(axis=1)]
    if odd.size:
        raise DataError(expected, f"a row {odd[0].tolist()}"[:80], "write 0 or 1, or set the task to regression")
    return Labels("multilabel", np.where(rows[:, None], y, np.float32("nan")), None)


def _classes(values: np.ndarray, rows: np.ndarray, where: str) -> Labels:
    if values.ndim > 1:
        got = f"{values.shape[1]} values each in {where}"
        raise DataError("one class each", got, "give one label, or pass --task multilabel")
    if values.dtype.kind == "f" and (values[rows] != np.round(values[rows])).any():
        bad = values[rows][values[rows] != np.round(values[rows])][0]
        raise DataError(f"integers in {where} for classification", f"{bad:g}", "set the task to regression")
    used, codes = np.unique(values[rows], return_inverse=True)
    if len(used) < 2:
        got = f"{len(used)} class in {where}"
        if values.dtype.kind in "if" and np.isin(values, NO_LABEL).any():
            got += ", besides -1 or -100, which mean no label"
            raise DataError("at least two classes", got, "number the classes from 0, or give them names")
        raise DataError("at least two classes", got, "add graphs of another class, or set the task to regression")
    y = np.zeros(len(values), np.int64)
    y[rows] = codes
    names = tuple(str(name) if values.dtype.kind == "U" else str(int(name)) for name in used)
    return Labels("classification", y, names)


def make_split(
    graphs: PackedGraphs, known: np.ndarray, fractions: Sequence[float], seed: int, source: str
) -> tuple[str, np.ndarray]:
    """The level of the split, and 0, 1, 2 or -1 for train, val, test or none in each row.

    It is the given split, or a random one: of the graphs if there are at least three, else of nodes or edges. Rows
    that are not ``known`` [R], because they have no target, are in no split.
    """
    level, given = graphs.columns["y"].level, graphs.columns.get("split")
    if given is not None:
        of, code, where = given.level, _rows(graphs, "split"), graphs.meta["split"]
        if of not in ("graph", level):
            expected = f"a split of graphs or of {level}s, which have the target"
            raise DataError(expected, f"a split of {of}s ({where})", "move the column to the right file")
    else:
        of = "graph" if level == "graph" or len(graphs) >= len(SPLITS) else level
        code, where = np.full(len(graph_of(graphs, of)), -1, np.int8), "the split drawn"
        drawn = np.flatnonzero(known) if of == level else np.arange(len(code))
        code[drawn] = draw_split(len(drawn), fractions, seed, of)
    if of == level:
        code = np.where(known, code, -1)
    for number, name in enumerate(SPLITS):
        rows = code == number
        if not rows.any():
            what = f"{of}s of {name} in {where}"
            raise DataError(f"at least one of the {what}", "none", f"assign some {of}s of {source} to {name}")
        if of != level and not (rows[graph_of(graphs, level)] & known).any():
            expected = f"at least one target (y) of a {level} in {name!r} of {source}"
            raise DataError(expected, "none", "use another split")
    return of, code


def draw_split(count: int, fractions: Sequence[float], seed: int, what: str = "graph") -> np.ndarray:
    """A random split, [count] 0, 1 or 2 for train, val and test; the same for the same ``seed``.

    Example:
        >>> np.bincount(draw_split(10, (0.8, 0.1, 0.1), seed=41)).tolist()
        [8, 1, 1]
    """
    check_fractions(fractions)
    if count < len(SPLITS):
        remedy = f"provide at least {len(SPLITS)} {what}s, or split them yourself"
        raise DataError(f"enough {what}s for train, val and test", f"{count}", remedy)
    held_out = [max(1, round(count * fraction)) for fraction in fractions[1:]]
    while count - sum(held_out) < 1:  # few rows, rounded up: training keeps at least one
        held_out[int(np.argmax(held_out))] -= 1
    check_count("seed", seed)
    order = np.random.default_rng(seed).permutation(count)
    code = np.zeros(count, np.int8)
    code[order[: held_out[0]]] = 1
    code[order[held_out[0] : sum(held_out)]] = 2
    return code
