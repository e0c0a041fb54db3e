"""The user's own graphs: a folder of CSV files, a ``.pt`` file, or a function that returns PyG graphs."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch

from lrga.data.datasets.place import SPLITS
from lrga.data.own.csv_folder import read_folder
from lrga.data.own.pyg import graph_table, load_factory, load_file
from lrga.data.own.table import GraphTable, Split, Target
from lrga.data.own.target import Labels, choose_target, labelled, make_labels, make_split
from lrga.data.packed.columns import Column
from lrga.data.packed.graphs import PackedGraphs
from lrga.errors import DataError, DataMissingError, OptionError
from lrga.io.limits import check_memory

TYPE_BYTES = 256  # at least: 16 numbers, their gradients and the moments of Adam
_FACTORY = re.compile(r"[A-Za-z_][\w.]*:[A-Za-z_][\w.]*")


@dataclass(frozen=True)
class CustomData:
    """A user's graphs, ready to train on.

    Attributes:
        splits: ``{"train": …, "val": …, "test": …}``. Where ``masked``, all three hold every graph.
        task: ``"classification"``, ``"multilabel"`` or ``"regression"``.
        level: What is predicted: ``"node"``, ``"edge"`` or ``"graph"``.
        num_classes: Number of classes; ``None`` for regression.
        classes: What class 0, 1, … is called in the user's data; ``None`` for regression.
        num_targets: Numbers predicted for each node, edge or graph: one, or more where ``y`` has several columns.
        node_features: Width of ``x``; 0 where it holds types.
        node_types: Number of node types where ``x`` [N] holds them, else ``None``.
        edge_features: Width of ``edge_attr``; 0 where it holds types or there is none.
        edge_types: Number of edge types where ``edge_attr`` [E] holds them, else ``None``.
        masked: Whether the splits are of nodes (or edges) of the same graphs, or some of these have no label. Each
            split then has an attribute ``mask`` of that level: only where it is true may a target be looked at.
        node_names: What the columns of ``x`` are called, where they have names.
        edge_names: The same of ``edge_attr``.
        notes: What one should know of how the data were read: repeated edges, missing labels, lost digits.
    """

    splits: dict[str, PackedGraphs]
    task: str
    level: str
    num_classes: int | None
    classes: tuple[str, ...] | None
    num_targets: int
    node_features: int
    node_types: int | None
    edge_features: int
    edge_types: int | None
    masked: bool
    node_names: tuple[str, ...] | None = None
    edge_names: tuple[str, ...] | None = None
    notes: tuple[str, ...] = ()

    @property
    def num_outputs(self) -> int:
        """Width of a model's output: classes, or numbers to predict."""
        return self.num_classes if self.num_classes is not None else self.num_targets


def load_custom(
    spec: str | Path,
    *,
    task: str | None = None,
    level: str | None = None,
    split: Sequence[float] | None = None,
    seed: int | None = None,
) -> CustomData:
    """The user's own graphs.

    Args:
        spec: A folder of CSV files (:mod:`lrga.data.own.csv_folder`), a ``.pt`` file of PyG ``Data`` objects (a list,
            or a dict of lists called train, val and test), or ``"module:factory"``, a function without arguments that
            returns such a list or dict or a PyG ``Dataset``.
        task: ``"classification"``, ``"multilabel"`` (every column of ``y`` is a label, 1 or 0, NaN where it is missing)
            or ``"regression"``; found from the targets where it is ``None``: integers and names are classes, other
            numbers are values.
        level: To what the target belongs, ``"node"``, ``"edge"`` or ``"graph"``; found where it is ``None``.
        split: Fractions of train, val and test where the data name no split, by default (0.8, 0.1, 0.1): of graphs
            where there are at least three, else of the nodes (or edges) of the one graph, which gives ``masked`` data.
        seed: Of that drawing, by default 41. Both are refused where the data name a split.

    Example:
        >>> import tempfile
        >>> folder = Path(tempfile.mkdtemp())
        >>> nodes = "".join(f"{g},{n},{n / 2}\\n" for g in range(10) for n in range(3))
        >>> _ = (folder / "nodes.csv").write_text("graph,node,x0\\n" + nodes)
        >>> _ = (folder / "edges.csv").write_text("graph,source,target\\n0,0,1\\n0,1,0\\n")
        >>> _ = (folder / "graphs.csv").write_text("graph,y\\n" + "".join(f"{g},{g % 2}\\n" for g in range(10)))
        >>> data = load_custom(folder)
        >>> data.level, data.task, data.num_classes, {name: len(graphs) for name, graphs in data.splits.items()}
        ('graph', 'classification', 2, {'train': 8, 'val': 1, 'test': 1})
    """
    source = str(spec)
    table = read_graphs(spec, level=level)
    target = choose_target(table, level, source)
    if table.split is not None and (split is not None or seed is not None):
        got = f"{'a seed' if split is None else 'fractions'} beside the {table.split.where}"
        raise OptionError("one split of the data", got, "leave it out, or take the split away from the data")
    fractions = (0.8, 0.1, 0.1) if split is None else split
    known = labelled(target, task) if table.ignores_negative else np.ones(len(target.values), dtype=bool)
    divided = make_split(table, target.level, fractions, 41 if seed is None else seed, source, known)
    labels = make_labels(target, task, _used(table, target.level, divided) & known, table)
    masked = divided.level != "graph" or (target.level != "graph" and not known.all())
    return CustomData(
        splits=_splits(table, labels, divided, known),
        task=labels.task,
        level=labels.level,
        num_classes=None if labels.classes is None else len(labels.classes),
        classes=labels.classes,
        num_targets=1 if labels.y.ndim == 1 else labels.y.shape[1],
        node_features=_width(table.x),
        node_types=_types(table.x, f"node types in {source}"),
        edge_features=0 if table.edge_attr is None else _width(table.edge_attr),
        edge_types=None if table.edge_attr is None else _types(table.edge_attr, f"edge types in {source}"),
        masked=masked,
        node_names=table.x_names,
        edge_names=table.edge_names,
        notes=(*table.notes, *_notes_on_labels(target, labels, known)),
    )


def load_inputs(spec: str | Path) -> PackedGraphs:
    """Graphs to predict on, from the same sources as :func:`load_custom`; targets and splits are left out.

    ``objects["graph_id"]`` holds the id of each graph and, from CSV files, ``objects["node_id"]`` those of its nodes;
    ``meta`` the ``node_names`` and ``edge_names`` of the columns, where they have names, and ``notes`` on the reading.
    """
    table = read_graphs(spec, target=False)
    return table.pack(meta=_names(table) | ({"notes": list(table.notes)} if table.notes else {}))


def _names(table: GraphTable) -> dict[str, list[str]]:
    names = {"node_names": table.x_names, "edge_names": table.edge_names}
    return {key: list(value) for key, value in names.items() if value is not None}


def read_graphs(spec: str | Path, *, level: str | None = None, target: bool = True) -> GraphTable:
    """The graphs that ``spec`` names (see :func:`load_custom`) as flat arrays."""
    text, path = str(spec), Path(spec).expanduser()
    if path.is_dir():
        return read_folder(path, target=target)
    if path.suffix == ".csv":
        raise DataError(
            "a folder of CSV files",
            f"the file {text}",
            "name the folder that holds nodes.csv and edges.csv, or predict the links of an edge list with --task link",
        )
    if path.suffix in (".pt", ".pth") or path.is_file():
        return graph_table(load_file(path), text, level=level, target=target)
    if is_factory(text):
        return graph_table(load_factory(text), text, level=level, target=target)
    raise DataMissingError(
        "a folder with nodes.csv and edges.csv, a .pt file, or module:factory",
        f"{text!r}, which is none of them here ({Path.cwd()})",
        "correct the path, or name a function as package.module:function",
    )


def is_factory(spec: str) -> bool:
    """Whether ``spec`` has the form ``module:factory``, which names code.

    Example:
        >>> is_factory("my_graphs:load"), is_factory("my_graphs/")
        (True, False)
    """
    return _FACTORY.fullmatch(spec) is not None


def _used(table: GraphTable, level: str, divided: Split) -> np.ndarray:
    """[R] whether each row of ``level`` is in a split, itself or by its graph."""
    used = divided.code >= 0
    return np.asarray(used if divided.level == level else used[table.graphs_of(level)])


def unlabelled_note(count: int, total: int, level: str) -> str:
    """What to say of labels -1 and -100."""
    return f"{count:,} of {total:,} {level}s have no label (y is -1 or -100): they are neither trained on nor scored"


def _notes_on_labels(target: Target, labels: Labels, known: np.ndarray) -> list[str]:
    if not known.all():
        return [unlabelled_note(int((~known).sum()), len(known), target.level)]
    odd = [name for name in ("-1", "-100") if name in (labels.classes or ())]
    if not odd:
        return []
    return [f"warning: y = {' and '.join(odd)} is a class; leave y and split blank where there is no label"]


def _splits(table: GraphTable, labels: Labels, divided: Split, known: np.ndarray) -> dict[str, PackedGraphs]:
    packed = table.pack(labels.y, level=labels.level, meta=_names(table))
    if divided.level == "graph":
        if labels.level != "graph" and not known.all():
            mask = _packed_codes(table, Split(labels.level, known, "")).bool()
            packed = packed.with_column("mask", Column(labels.level, mask, torch.bool))
        return {name: packed[torch.from_numpy(np.flatnonzero(divided.rows(name)))] for name in SPLITS}
    # The mask must follow the edges, which packing sorts: pack it once as codes, then compare.
    codes = _packed_codes(table, divided)
    masks = {name: Column(divided.level, codes == SPLITS.index(name), torch.bool) for name in SPLITS}
    return {name: packed.with_column("mask", mask) for name, mask in masks.items()}


def _packed_codes(table: GraphTable, divided: Split) -> torch.Tensor:
    codes = table.pack(divided.code.astype(np.int64), level=divided.level).y
    return codes if codes is not None else torch.empty(0)


def _width(values: np.ndarray) -> int:
    return values.shape[1] if values.ndim == 2 else 0


def _types(values: np.ndarray, what: str) -> int | None:
    """How many types there are, each a row of an embedding table; ``None`` where the values are no types."""
    if values.ndim != 1:
        return None
    count = int(values.max(initial=-1)) + 1
    remedy = "number the types 0, 1, 2, …, or make them real numbers to use them as a feature"
    check_memory(count * TYPE_BYTES, f"a table of {count:,} {what}", remedy=remedy)
    return count
