"""The user's own graphs: a folder of CSV files, a ``.pt`` file, a function that returns PyG graphs, or the graphs.

However they come, what they mean is decided here: the task, the classes, the inputs of a network, the splits.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch

from lrga.data.datasets.spec import SPLITS
from lrga.data.own.csv_folder import read_folder
from lrga.data.own.pyg import graph_table, load_factory, load_file
from lrga.data.own.table import GraphTable, Split
from lrga.data.own.target import Labels, choose_target, labelled, make_labels, make_split
from lrga.data.packed.graphs import PackedGraphs
from lrga.errors import DataError, DataMissingError, OptionError
from lrga.io.limits import check_memory

TYPE_BYTES = 256  # at least: 16 numbers, their gradients and the moments of Adam
_FACTORY = re.compile(r"[A-Za-z_][\w.]*:[A-Za-z_][\w.]*")


@dataclass(frozen=True)
class OwnData:
    """A user's graphs, ready to train on.

    Attributes:
        splits: ``{"train": …, "val": …, "test": …}``. Where ``masked``, all three hold every graph.
        task: ``"classification"`` or ``"regression"``.
        level: What is predicted: ``"node"``, ``"edge"`` or ``"graph"``.
        classes: What class 0, 1, … is called in the user's data; ``None`` for regression.
        num_targets: Numbers predicted for each node, edge or graph: one, or more where ``y`` has several columns.
        node_features: Width of ``x``; 0 where it holds types.
        node_types: Number of node types where ``x`` [N] holds them, else ``None``.
        edge_features: Width of ``edge_attr``; 0 where it holds types or there is none.
        edge_types: Number of edge types where ``edge_attr`` [E] holds them, else ``None``.
        node_names: What the columns of ``x`` are called, where they have names.
        edge_names: The same of ``edge_attr``.
        notes: What one should know of how the data were read: repeated edges, missing labels, lost digits.
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
        """Whether the splits are of nodes (or edges) of the same graphs, or some of these have no label.

        Each split then has an attribute ``mask`` of that level: only where it is true may a target be looked at.
        """
        return "mask" in self.splits["train"].columns

    @property
    def num_classes(self) -> int | None:
        """Number of classes; ``None`` for regression."""
        return None if self.classes is None else len(self.classes)

    @property
    def num_outputs(self) -> int:
        """Width of a model's output: classes, or numbers to predict."""
        return self.num_targets if self.classes is None else len(self.classes)


def load_custom(
    data: Any,
    *,
    task: str | None = None,
    level: str | None = None,
    split: Sequence[float] | None = None,
    seed: int | None = None,
) -> OwnData:
    """The user's own graphs.

    Args:
        data: A folder of CSV files (:mod:`lrga.data.own.csv_folder`); a ``.pt`` file of graphs; ``"module:factory"``,
            a function without arguments that returns graphs; or the graphs themselves. Graphs are a PyG ``Data``, a
            list of them, a PyG ``Dataset``, :class:`PackedGraphs`, or a dict of these called train, val and test.
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
    source = _name(data)
    table = read_graphs(data, level=level)
    target = choose_target(table, level, source)
    if table.split is not None and (split is not None or seed is not None):
        got = f"{'a seed' if split is None else 'fractions'} beside the {table.split.where}"
        raise OptionError("one split of the data", got, "leave it out, or take the split away from the data")
    known = labelled(target, task)
    notes = list(table.notes)
    if missing := int((~known).sum()):
        notes.append(
            f"{missing:,} of {len(known):,} {target.level}s have no label (y is -1 or -100): they are neither trained "
            "on nor scored"
        )
    if table.mask is not None:
        known &= table.mask
    fractions = (0.8, 0.1, 0.1) if split is None else split
    divided = make_split(table, target.level, fractions, 41 if seed is None else seed, source, known)
    used = divided.code >= 0
    used = used if divided.level == target.level else used[table.graphs_of(target.level)]
    labels = make_labels(target, task, used & known, table)
    node_features, node_types = _widths(table.x, f"node types in {source}")
    edge_features, edge_types = _widths(table.edge_attr, f"edge types in {source}")
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
        node_names=table.x_names,
        edge_names=table.edge_names,
        notes=tuple(notes),
    )


def load_inputs(data: Any) -> PackedGraphs:
    """Graphs to predict on, from the same sources as :func:`load_custom`; targets and splits are left out.

    ``objects["graph_id"]`` holds the id of each graph and, from CSV files, ``objects["node_id"]`` those of its nodes;
    ``meta`` the ``node_names`` and ``edge_names`` of the columns, where they have names, and ``notes`` on the reading.
    """
    table = read_graphs(data, target=False)
    return table.pack(meta=_names(table) | ({"notes": list(table.notes)} if table.notes else {}))


def _name(data: Any) -> str:
    return str(data) if isinstance(data, str | Path) else "the graphs given"


def _names(table: GraphTable) -> dict[str, list[str]]:
    names = {"node_names": table.x_names, "edge_names": table.edge_names}
    return {key: list(value) for key, value in names.items() if value is not None}


def read_graphs(data: Any, *, level: str | None = None, target: bool = True) -> GraphTable:
    """The graphs that ``data`` are or name (see :func:`load_custom`) as flat arrays."""
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


def _splits(table: GraphTable, labels: Labels, divided: Split, known: np.ndarray) -> dict[str, PackedGraphs]:
    if divided.level == "graph":
        mask = None if labels.level == "graph" or known.all() else known
        packed = table.pack(labels.y, level=labels.level, mask=mask, meta=_names(table))
        return {name: packed[torch.from_numpy(np.flatnonzero(divided.rows(name)))] for name in SPLITS}
    # Packing sorts the edges: the mask must follow them, so the codes are packed too, and then compared.
    packed = table.pack(labels.y, level=labels.level, mask=divided.code.astype(np.int8), meta=_names(table))
    codes = packed.columns["mask"]
    masks = {name: replace(codes, values=codes.values == code, dtype=torch.bool) for code, name in enumerate(SPLITS)}
    return {name: packed.with_column("mask", mask) for name, mask in masks.items()}


def _widths(values: np.ndarray | None, what: str) -> tuple[int, int | None]:
    """Number of features, and of types where the values are types: each is a row of an embedding table."""
    if values is None or values.ndim == 2:
        return 0 if values is None else values.shape[1], None
    count = int(values.max(initial=-1)) + 1
    remedy = "number the types 0, 1, 2, …, or make them real numbers to use them as a feature"
    check_memory(count * TYPE_BYTES, f"a table of {count:,} {what}", remedy=remedy)
    return 0, count
