"""A user's graphs as flat arrays, wherever they came from, before it is decided what is to be predicted.

Letters: G graphs, N nodes and E edges of all of them.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from lrga.data.datasets.spec import SPLITS
from lrga.data.packed.arrays import LEVELS as LEVELS
from lrga.data.packed.arrays import pack_arrays
from lrga.data.packed.graphs import PackedGraphs
from lrga.errors import DataError

MIN_STEPS = 1_000  # that float32 must have between the quartiles of what it merges


@dataclass(frozen=True)
class Target:
    """What may be predicted: one row for each node, edge or graph.

    Attributes:
        level: ``"node"``, ``"edge"`` or ``"graph"``.
        values: Integers, floats or text, [R] or [R, T].
        where: Where it was found, for errors: ``"column y of nodes.csv"``.
    """

    level: str
    values: np.ndarray
    where: str


@dataclass(frozen=True)
class Split:
    """Which row (of a node, an edge or a graph) belongs to which split.

    ``code`` [R] holds 0 for train, 1 for val, 2 for test and -1 for none of them.
    """

    level: str
    code: np.ndarray
    where: str

    def rows(self, split: str) -> np.ndarray:
        """[R] whether each row belongs to ``split``."""
        return self.code == SPLITS.index(split)


@dataclass(frozen=True)
class GraphTable:
    """Graphs one after the other.

    Attributes:
        num_nodes: [G].
        num_edges: [G].
        edge_index: [2, E], counted inside each graph; row 0 source, row 1 target.
        x: [N, F] float32 features or [N] int64 types.
        edge_attr: [E, F] float32 features, [E] int64 types, or ``None``.
        targets: Level → what may be predicted there.
        split: Who belongs to which split, or ``None``.
        mask: [R] of which rows the target may be used; ``None`` for all.
        objects: Further values, one list entry for each graph (ids).
        x_names: What the columns of ``x`` are called, where they have names.
        edge_names: The same of ``edge_attr``.
        notes: What one should know of how the data were read.
    """

    num_nodes: np.ndarray
    num_edges: np.ndarray
    edge_index: np.ndarray
    x: np.ndarray
    edge_attr: np.ndarray | None
    targets: dict[str, Target]
    split: Split | None
    mask: np.ndarray | None = None
    objects: dict[str, list[Any]] = field(default_factory=dict)
    x_names: tuple[str, ...] | None = None
    edge_names: tuple[str, ...] | None = None
    notes: tuple[str, ...] = ()

    def rows(self, level: str) -> int:
        """Number of nodes, edges or graphs."""
        return {"node": len(self.x), "edge": self.edge_index.shape[1], "graph": len(self.num_nodes)}[level]

    def graphs_of(self, level: str) -> np.ndarray:
        """[R] the graph of each node, edge or graph."""
        each = np.arange(len(self.num_nodes))
        return each if level == "graph" else np.repeat(each, self.num_nodes if level == "node" else self.num_edges)

    def pack(
        self,
        y: np.ndarray | None = None,
        *,
        level: str | None = None,
        mask: np.ndarray | None = None,
        meta: Mapping[str, Any] | None = None,
    ) -> PackedGraphs:
        """The graphs as flat tensors, with ``y`` of ``level`` as their target and ``mask`` as an attribute of it."""
        more: dict[str, Any] = {} if level is None or mask is None else {level: {"mask": mask}}
        return pack_arrays(
            num_nodes=self.num_nodes,
            num_edges=self.num_edges,
            edge_index=self.edge_index,
            x=self.x,
            edge_attr=self.edge_attr,
            y=y,
            y_level=level if y is not None else None,
            objects=self.objects,
            meta=meta,
            **more,
        )


def number(text: str) -> float | None:
    """The number that ``text`` writes, NaN and infinity too; ``None`` where it writes none."""
    try:
        return float(text)
    except ValueError:
        return None


def finite(text: str) -> float:
    """The finite number that ``text`` writes, else NaN.

    Python reads 1_000 as a number; a file that has it is more likely mistaken.
    """
    value = number(text)
    return value if value is not None and math.isfinite(value) and "_" not in text else math.nan


def as_float32(
    columns: Sequence[np.ndarray], names: Sequence[str], level: str, where: str, notes: list[str], *, strict: bool
) -> np.ndarray:
    """Features ``[R, F]`` float32 (7 digits) of columns ``[R]`` of numbers.

    Times in seconds since 1970, for example, are 128 seconds apart in float32: where that is coarse for the differences
    within a column, the column is refused.

    Args:
        columns: Of any numeric type, finite and within the range of float32.
        names: What each is called.
        level: What has these features: ``"node"`` or ``"edge"``.
        where: Where they come from, for the error.
        notes: Where to append what one should know.
        strict: ``False`` notes a coarse column instead of refusing it.

    Example:
        >>> notes = []
        >>> columns = [np.array([0.5, 2.0]), np.array([2**24, 2**24 + 1])]
        >>> _ = as_float32(columns, ["a", "b"], "node", "nodes.csv", notes, strict=False)
        >>> notes
        ["float32 (7 digits) is coarse for the node feature 'b', near 16777216"]
    """
    for name, column in zip(names, columns, strict=True):
        if is_coarse(column):
            got = f"float32 (7 digits) is coarse for the {level} feature {name!r}, near {float(column[0]):.10g}"
            if strict:
                remedy = "subtract an offset such as the column's minimum, or remove the column if it is an id"
                raise DataError(f"values that float32 can distinguish in column {name!r} of {where}", got, remedy)
            notes.append(got)
    if len(columns) > 1 and all(column.dtype.kind in "iu" for column in columns):
        notes.append(f"{len(columns)} integer {level} features are used as numbers, not as categories")
    return np.stack([column.astype(np.float32) for column in columns], axis=1)


def is_coarse(column: np.ndarray) -> bool:
    """Whether float32 merges values of a column ``[R]`` and has few steps between its quartiles."""
    with np.errstate(invalid="ignore", over="ignore"):  # float32 rounds 2⁶³ - 1 to 2⁶³, which is no int64
        if (column.astype(np.float32).astype(column.dtype) == column).all():
            return False
    values = np.unique(column)
    if len(np.unique(values.astype(np.float32))) == len(values):
        return False
    low, high = float(values[len(values) // 4]), float(values[3 * len(values) // 4])
    return high - low < MIN_STEPS * float(np.spacing(np.float32(max(abs(low), abs(high)))))
