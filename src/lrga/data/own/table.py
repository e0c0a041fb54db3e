"""A user's graphs as flat arrays, wherever they came from, before it is decided what is to be predicted.

Letters: G graphs, N nodes and E edges of all of them.
"""

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from lrga.data.datasets.place import SPLITS
from lrga.data.packed.arrays import pack_arrays
from lrga.data.packed.graphs import PackedGraphs

LEVELS = ("node", "edge", "graph")


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
        objects: Further values, one list entry for each graph (ids).
        x_names: What the columns of ``x`` are called, where they have names.
        edge_names: The same of ``edge_attr``.
        ignores_negative: Whether labels -1 and -100 mean that there is none.
        notes: What one should know of how the data were read.
    """

    num_nodes: np.ndarray
    num_edges: np.ndarray
    edge_index: np.ndarray
    x: np.ndarray
    edge_attr: np.ndarray | None
    targets: dict[str, Target]
    split: Split | None
    objects: dict[str, list[Any]] = field(default_factory=dict)
    x_names: tuple[str, ...] | None = None
    edge_names: tuple[str, ...] | None = None
    ignores_negative: bool = False
    notes: tuple[str, ...] = ()

    def rows(self, level: str) -> int:
        """Number of nodes, edges or graphs."""
        return {"node": len(self.x), "edge": self.edge_index.shape[1], "graph": len(self.num_nodes)}[level]

    def graph_of(self, level: str, row: int) -> int:
        """The graph to which a node, an edge or a graph belongs."""
        if level == "graph":
            return row
        counts = self.num_nodes if level == "node" else self.num_edges
        return int(np.searchsorted(np.cumsum(counts), row, side="right"))

    def graphs_of(self, level: str) -> np.ndarray:
        """[R] the graph of each node, edge or graph."""
        each = np.arange(len(self.num_nodes))
        return each if level == "graph" else np.repeat(each, self.num_nodes if level == "node" else self.num_edges)

    def pack(self, y: np.ndarray | None = None, *, level: str | None = None, meta: Any = None) -> PackedGraphs:
        """The graphs as flat tensors, with ``y`` of ``level`` as their target."""
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
        )
