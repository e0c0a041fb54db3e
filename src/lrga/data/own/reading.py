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

from lrga.checks import check_count
from lrga.data.datasets.spec import SPLITS
from lrga.data.links.split import check_fractions
from lrga.data.own.csv_folder import read_folder
from lrga.data.own.pyg import graph_table, load_factory, load_file
from lrga.data.own.table import LEVELS, GraphTable, Split, Target, is_coarse
from lrga.data.packed.graphs import Column, PackedGraphs
from lrga.errors import DataError, DataMissingError, OptionError
from lrga.io.limits import check_memory

TYPE_BYTES = 256  # at least, for 16 values, their gradients and the moments of Adam
_FACTORY = re.compile(r"[A-Za-z_][\w.]*:[A-Za-z_][\w.]*")
TASKS = ("classification", "multilabel", "regression")
NO_LABEL = (-1, -100)  # labels that mean "no label"


class Labels(NamedTuple):
    """Targets ready for training: one of :data:`TASKS`, the level, ``y`` and the class names, if any.

    ``y`` holds [R] int64 classes; [R, T] float32 labels, NaN if missing; or [R] or [R, T] float32 values (float64 if
    float32 cannot distinguish them).
    """

    task: str
    level: str
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
    source = _name(data)
    table = read_graphs(data, level=level)
    target = choose_target(table, level, source)
    if table.split is not None and (split is not None or seed is not None):
        got = f"{'a seed' if split is None else 'fractions'} as well as the {table.split.where}"
        raise OptionError("one split of the data", got, "omit it, or remove the split from the data")
    known = labelled(target, task)
    notes = list(table.notes)
    if missing := int((~known).sum()):
        notes.append(
            f"{missing:,} of {len(known):,} {target.level}s have no label (y is -1 or -100): they are used neither for "
            "training nor for evaluation"
        )
    if table.mask is not None:
        known &= table.mask
    fractions = (0.8, 0.1, 0.1) if split is None else split
    divided = make_split(table, target.level, fractions, 41 if seed is None else seed, source, known)
    used = divided.code >= 0
    used = used if divided.level == target.level else used[table.graphs_of(target.level)]
    labels = make_labels(target, task, used & known, table)
    graphs = table.graphs
    node_features, node_types = _widths(graphs.x, f"node types in {source}")
    edge_features, edge_types = _widths(graphs.edge_attr, f"edge types in {source}")
    names = {key: tuple(graphs.meta[key]) for key in ("node_names", "edge_names") if key in graphs.meta}
    return OwnData(
        splits=_splits(table, labels, divided, known),
        task=labels.task,
        level=labels.level,
        classes=labels.classes,
        num_targets=1 if labels.y.ndim == 1 else labels.y.shape[1],
        node_features=node_features,
        node_types=node_types,
        edge_features=edge_features,
        edge_types=edge_types,
        notes=tuple(notes),
        **names,
    )


def load_inputs(data: Any) -> PackedGraphs:
    """Loads graphs for prediction, from the same sources as :func:`load_custom`; targets and splits are ignored.

    ``objects["graph_id"]`` holds the id of each graph and, for CSV files, ``objects["node_id"]`` the ids of its nodes.
    ``meta`` holds the ``node_names`` and ``edge_names`` of the columns, if any, and ``notes`` on reading the data.
    """
    table = read_graphs(data, target=False)
    table.graphs.meta |= {"notes": list(table.notes)} if table.notes else {}
    return table.graphs


def _name(data: Any) -> str:
    return str(data) if isinstance(data, str | Path) else "the graphs given"


def read_graphs(data: Any, *, level: str | None = None, target: bool = True) -> GraphTable:
    """The graphs of ``data`` (see :func:`load_custom`) as flat arrays."""
    text = _name(data)
    if not isinstance(data, str | Path):
        return graph_table(data, text, level=level, target=target)
    path = Path(data).expanduser()
    if path.is_dir():
        return read_folder(path, target=target)
    if path.suffix == ".csv":
        raise DataError(
            "a folder of CSV files",
            f"the file {text}",
            "pass the folder with nodes.csv and edges.csv, or predict the links of an edge list with --task link",
        )
    if path.suffix in (".pt", ".pth") or path.is_file():
        return graph_table(load_file(path), text, level=level, target=target)
    if is_factory(text):
        return graph_table(load_factory(text), text, level=level, target=target)
    raise DataMissingError(
        "a folder with nodes.csv and edges.csv, a .pt file, or module:factory",
        f"{text!r}, which does not exist in {Path.cwd()}",
        "correct the path, or pass a function as package.module:function",
    )


def is_factory(spec: str) -> bool:
    """Whether ``spec`` has the form ``module:factory``, a reference to code.

    Example:
        >>> is_factory("my_graphs:load"), is_factory("my_graphs/")
        (True, False)
    """
    return _FACTORY.fullmatch(spec) is not None


def _splits(table: GraphTable, labels: Labels, divided: Split, known: np.ndarray) -> dict[str, PackedGraphs]:
    graphs = table.graphs.with_column("y", Column.of(labels.level, torch.from_numpy(labels.y)))
    graphs.y_level = labels.level
    if divided.level == "graph":
        if labels.level != "graph" and not known.all():
            graphs = graphs.with_column("mask", Column.of(labels.level, torch.from_numpy(known)))
        return {name: graphs[torch.from_numpy(np.flatnonzero(divided.rows(name)))] for name in SPLITS}
    masks = {name: Column.of(labels.level, torch.from_numpy(divided.rows(name))) for name in SPLITS}
    return {name: graphs.with_column("mask", mask) for name, mask in masks.items()}


def _widths(values: torch.Tensor | None, what: str) -> tuple[int, int | None]:
    """Number of features, and number of types if the values are types (rows of an embedding table)."""
    if values is None or values.dim() == 2:
        return 0 if values is None else values.size(1), None
    count = int(values.max()) + 1 if len(values) else 0
    remedy = "number the types 0, 1, 2, …, or convert them to floats to use them as a feature"
    check_memory(count * TYPE_BYTES, f"a table of {count:,} {what}", remedy=remedy)
    return 0, count


def choose_target(table: GraphTable, level: str | None, source: str) -> Target:
    """The only target of ``table``, or the one of ``level``."""
    if level is not None and level not in LEVELS:
        raise OptionError(f"level, one of {', '.join(LEVELS)}", repr(level), "choose one of these, or omit it")
    found = list(table.targets)
    if not found or (level is not None and level not in found):
        wanted = "a target" if level is None else f"a target for each {level}"
        got = f"targets for each {' and '.join(found)}" if found else "none"
        remedy = "add y: a column of nodes.csv, edges.csv or graphs.csv, or an attribute of the Data objects"
        raise DataError(f"{wanted} (y) in {source}", got, remedy)
    if level is None and len(found) > 1:
        got = " and ".join(table.targets[name].where for name in found)
        raise OptionError(f"one target in {source}, or level= to choose", got, f"pass level={found[0]!r}, for example")
    return table.targets[level or found[0]]


def make_labels(target: Target, task: str | None, rows: np.ndarray, table: GraphTable) -> Labels:
    """Targets of ``task``; by default integers and names are classes, and other numbers are values.

    Classes are numbered 0, 1, … in the order of their labels, numeric or alphabetic.

    Args:
        target: The target as it was read.
        task: One of :data:`TASKS`, or ``None``.
        rows: [R] which rows are in a split; the others may hold anything.
        table: The graphs, for error messages.
    """
    if task not in (None, *TASKS):
        raise OptionError(f"task, one of {', '.join(TASKS)}", repr(task), "choose one of these, or omit it")
    values = target.values
    kind = values.dtype.kind
    if kind not in "iufU":
        raise DataError(f"numbers or names in {target.where}", str(values.dtype), "write numbers, or names of classes")
    if task == "multilabel":
        return _labels(target, rows)
    if kind == "f":
        finite = np.isfinite(values.reshape(len(values), -1)).all(axis=1) | ~rows
        if not finite.all():
            graph = table.graphs_of(target.level)[np.argmin(finite)]
            remedy = f"remove the {target.level}s without target"
            raise DataError(f"finite numbers in {target.where}", f"NaN or infinity in graph {graph}", remedy)
    chosen = task or ("regression" if kind == "f" else "classification")
    if chosen == "regression":
        if kind == "U":
            got = f"names such as {values[0]!s}"
            raise DataError(
                f"numbers in {target.where} for regression", got, "write numbers, or ask for classification"
            )
        if kind == "f" and np.abs(values[rows]).max(initial=0) > np.finfo(np.float32).max:
            raise DataError(f"numbers of at most 3.4e38 in {target.where}", "a larger one", "scale the target")
        y = np.where(rows.reshape(-1, *[1] * (values.ndim - 1)), values, 0)
        columns = values[rows].reshape(int(rows.sum()), -1).T
        dtype = np.float64 if any(map(is_coarse, columns)) else np.float32
        return Labels(chosen, target.level, y.astype(dtype), None)
    return _classes(target, rows)


def labelled(target: Target, task: str | None) -> np.ndarray:
    """[R] whether each row has a label: class labels -1 and -100 mean no label, all regression targets count.

    Example:
        >>> labelled(Target("node", np.array([0, -1, 2, -100]), "y"), None).tolist()
        [True, False, True, False]
    """
    values = target.values
    is_label = values.ndim == 1 and (values.dtype.kind == "i" if task is None else task == "classification")
    if not is_label or values.dtype.kind not in "if":
        return np.ones(len(values), dtype=bool)
    found = np.isin(values, NO_LABEL)
    if found.all():
        got = "only -1 and -100, which mean no label"
        raise DataError(f"labels in {target.where}", got, f"label some of the {target.level}s")
    if found.any() and (values[~found] < 0).any():
        odd = values[~found].min()
        expected = f"classes numbered from 0 in {target.where}, with -1 or -100 for no label"
        remedy = "number the classes from 0, or ask for regression (--task regression)"
        raise DataError(expected, f"{int(odd)} and {int(values[found][0])}", remedy)
    return ~found


def _labels(target: Target, rows: np.ndarray) -> Labels:
    expected = f"labels 0 and 1 in {target.where}, with NaN for a missing label"
    if target.values.dtype.kind == "U":
        raise DataError(expected, f"names such as {target.values[0]!s}", "write numbers, or ask for classification")
    y = target.values.reshape(len(target.values), -1).astype(np.float32)
    odd = y[rows & ~((y == 0) | (y == 1) | np.isnan(y)).all(axis=1)]
    if odd.size:
        raise DataError(expected, f"a row {odd[0].tolist()}"[:80], "write 0 or 1, or ask for regression")
    return Labels("multilabel", target.level, np.where(rows[:, None], y, np.float32("nan")), None)


def _classes(target: Target, rows: np.ndarray) -> Labels:
    values = target.values
    if values.ndim > 1:
        got = f"{values.shape[1]} values each in {target.where}"
        raise DataError("one class each", got, "give one label, or pass --task multilabel")
    if values.dtype.kind == "f" and (values[rows] != np.round(values[rows])).any():
        bad = values[rows][values[rows] != np.round(values[rows])][0]
        raise DataError(f"integers in {target.where} for classification", f"{bad:g}", "ask for regression")
    used, codes = np.unique(values[rows], return_inverse=True)
    if len(used) < 2:
        got = f"{len(used)} class in {target.where}"
        if values.dtype.kind in "if" and np.isin(values, NO_LABEL).any():
            got += ", besides -1 or -100, which mean no label"
            raise DataError("at least two classes", got, "number the classes from 0, or give them names")
        raise DataError("at least two classes", got, "bring graphs of every class, or ask for regression")
    y = np.zeros(len(values), np.int64)
    y[rows] = codes
    names = tuple(str(name) if values.dtype.kind == "U" else str(int(name)) for name in used)
    return Labels("classification", target.level, y, names)


def make_split(
    table: GraphTable, level: str, fractions: Sequence[float], seed: int, source: str, known: np.ndarray | None = None
) -> Split:
    """The given split, or a random one: of the graphs if there are at least three, else of nodes or edges.

    ``known`` [R] says which targets of ``level`` exist (by default all); the others are in no split.
    """
    known = np.ones(len(table.graphs_of(level)), dtype=bool) if known is None else known
    if table.split is not None:
        split = table.split
        if split.level not in ("graph", level):
            expected = f"a split of graphs or of {level}s, which have the target"
            raise DataError(expected, f"a split of {split.level}s ({split.where})", "move the column to the right file")
    else:
        of = "graph" if level == "graph" or len(table.graphs) >= len(SPLITS) else level
        code = np.full(len(table.graphs_of(of)), -1, np.int8)
        drawn = np.flatnonzero(known) if of == level else np.arange(len(code))
        code[drawn] = draw_split(len(drawn), fractions, seed, of)
        split = Split(of, code, "the split drawn")
    if split.level == level and not known.all():
        split = replace(split, code=np.where(known, split.code, -1))
    for name in SPLITS:
        rows = split.rows(name)
        what = f"{split.level}s of {name} in {split.where}"
        if not rows.any():
            raise DataError(f"at least one of the {what}", "none", f"assign some {split.level}s of {source} to {name}")
        if split.level != level and not (rows[table.graphs_of(level)] & known).any():
            raise DataError(
                f"at least one target (y) of a {level} in {name!r} of {source}", "none", "use another split"
            )
    return split


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
