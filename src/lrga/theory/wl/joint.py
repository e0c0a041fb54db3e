"""Several graphs to be refined together, so that equal colours mean the same in all of them.

Letters: N nodes of all graphs, E views (a node and one it is adjacent to), G graphs.
"""

import itertools
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from lrga.errors import DTypeError
from lrga.theory.labelled import Array, LabelledGraph


@dataclass(frozen=True, eq=False)
class JointGraphs:
    """The disjoint union of graphs, labels numbered over all of them.

    Attributes:
        graphs: What was joined.
        node_ptr: ``[G + 1]`` first node of each graph.
        colour: ``[N]`` number of each node's label, in the order of the labels.
        num_labels: How many different node labels there are.
        relations: ``[E]`` per graph, number of each arc's label, from 1 (0 stands for no arc).
        num_relations: One more than the largest of them.
    """

    graphs: tuple[LabelledGraph, ...]
    node_ptr: Array
    colour: Array
    num_labels: int
    relations: tuple[Array, ...]
    num_relations: int

    @property
    def num_nodes(self) -> int:
        return int(self.node_ptr[-1])


def join(graphs: Sequence[LabelledGraph]) -> JointGraphs:
    """Numbers the labels of all graphs together; the numbers follow the order of the labels, not that of the nodes."""
    check_same_label_types(graphs)
    node_ptr = np.cumsum([0, *(g.num_nodes for g in graphs)])
    arc_ptr = np.cumsum([0, *(len(g.source) for g in graphs)])
    colour, num_labels = _numbered([g.node_labels for g in graphs], int(node_ptr[-1]))
    relation, num_relations = _numbered([g.edge_labels for g in graphs], int(arc_ptr[-1]))
    relations = tuple(relation[a:b] + 1 for a, b in itertools.pairwise(arc_ptr))
    return JointGraphs(tuple(graphs), node_ptr, colour, num_labels, relations, num_relations + 1)


def check_same_label_types(graphs: Sequence[LabelledGraph]) -> None:
    """All graphs have node labels of one width or none has; the same for edges."""
    for what, labels, counts in (
        ("node", [g.node_labels for g in graphs], [g.num_nodes for g in graphs]),
        ("edge", [g.edge_labels for g in graphs], [len(g.source) for g in graphs]),
    ):
        # A graph without a single node or edge cannot show what its labels would have been.
        widths = {0 if label is None else label.shape[1] for label, count in zip(labels, counts, strict=True) if count}
        if len(widths) > 1:
            said = " and ".join(f"{w} label{'s' * (w > 1)} per {what}" if w else "none" for w in sorted(widths))
            raise DTypeError(
                f"{what} labels of the same type in all graphs",
                f"graphs with {said}",
                f"label the {what}s of all graphs alike, or leave the labels out (--{what}-label none, in Python "
                f"{what}_attribute=None)",
            )


def _numbered(labels: Sequence[Array | None], total: int) -> tuple[Array, int]:
    given = [label for label in labels if label is not None and len(label)]
    if not given:
        return np.zeros(total, dtype=np.int64), min(total, 1)
    rows = np.concatenate(given)
    if rows.shape[1] == 1:
        values, number = np.unique(rows[:, 0], return_inverse=True)
    else:
        values, number = np.unique(rows, axis=0, return_inverse=True)
    return number.reshape(-1).astype(np.int64), len(values)
