"""Joint refinement of several graphs, so that equal colours mean the same in all of them: input and result of a test.

Letters: G graphs, N nodes and E arcs of all graphs; tests on pairs take graphs of n nodes each.
"""

import itertools
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from lrga.errors import DataError, DTypeError
from lrga.theory.labelled import Array, LabelledGraph


@dataclass(frozen=True, eq=False)
class JointGraphs:
    """The disjoint union of several graphs; labels are numbered jointly.

    Attributes:
        graphs: The graphs.
        node_ptr: ``[G + 1]``, the first node of each graph.
        colour: ``[N]``, the number of each node's label, in the order of the labels.
        num_labels: Number of distinct node labels.
        relations: ``[E]`` per graph, the number of each arc's label, from 1 (0 means no arc).
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
    """Numbers the labels of all graphs jointly, in the order of the labels (not of the nodes)."""
    check_same_label_types(graphs)
    node_ptr = np.cumsum([0, *(g.num_nodes for g in graphs)])
    arc_ptr = np.cumsum([0, *(len(g.source) for g in graphs)])
    colour, num_labels = _numbered([g.node_labels for g in graphs], int(node_ptr[-1]))
    relation, num_relations = _numbered([g.edge_labels for g in graphs], int(arc_ptr[-1]))
    relations = tuple(relation[a:b] + 1 for a, b in itertools.pairwise(arc_ptr))
    return JointGraphs(tuple(graphs), node_ptr, colour, num_labels, relations, num_relations + 1)


def check_same_label_types(graphs: Sequence[LabelledGraph]) -> None:
    """Checks that all graphs have node labels of the same width or none has; the same for edges."""
    for what, labels, counts in (
        ("node", [g.node_labels for g in graphs], [g.num_nodes for g in graphs]),
        ("edge", [g.edge_labels for g in graphs], [len(g.source) for g in graphs]),
    ):
        # A graph without nodes or edges has no label to check.
        widths = {0 if label is None else label.shape[1] for label, count in zip(labels, counts, strict=True) if count}
        if len(widths) > 1:
            said = " and ".join(f"{w} label{'s' * (w > 1)} per {what}" if w else "none" for w in sorted(widths))
            remedy = f"(--{what}-label none, in Python {what}_attribute=None)"
            remedy = f"label the {what}s of all graphs in the same way, or ignore labels {remedy}"
            raise DTypeError(f"{what} labels of the same type in all graphs", f"graphs with {said}", remedy)


def _numbered(labels: Sequence[Array | None], total: int) -> tuple[Array, int]:
    given = [label for label in labels if label is not None and len(label)]
    if not given:
        return np.zeros(total, dtype=np.int64), min(total, 1)
    rows = np.concatenate(given)
    rows, axis = (rows[:, 0], None) if rows.shape[1] == 1 else (rows, 0)
    values, number = np.unique(rows, axis=axis, return_inverse=True)
    return number.reshape(-1).astype(np.int64), len(values)


def check_no_self_loops(graphs: Sequence[LabelledGraph], test: str) -> None:
    """In these tests the pair (i, i) represents node i, so self-loops are an error."""
    for number, graph in enumerate(graphs):
        loops = graph.source[graph.source == graph.target]
        if len(loops):
            raise DataError(
                f"graphs without self-loops for {test}, where the pair (i, i) represents node i",
                f"graph {number} with a self-loop at node {loops[0]} ({len(loops)} in total)",
                "remove self-loops, or mark their nodes by a node label; 1-wl accepts self-loops",
            )


def pair_types(joint: JointGraphs) -> tuple[Array, int]:
    """Number of the isomorphism type of every pair, ``[G, n, n]``, and the number of types.

    Two pairs (i, j) have the same type if i = j in both or neither, their nodes have the same labels in this order,
    and the arcs i → j and j → i have the same labels, or are both missing.
    """
    size = joint.graphs[0].num_nodes
    relation = np.zeros((len(joint.graphs), size, size), dtype=np.int64)
    for matrix, graph, label in zip(relation, joint.graphs, joint.relations, strict=True):
        matrix[graph.source, graph.target] = label
    kind, _ = _number(relation * joint.num_relations + relation.transpose(0, 2, 1))
    colour = joint.colour.reshape(len(joint.graphs), size)
    nodes, count = _number(colour[:, :, None] * joint.num_labels + colour[:, None, :])
    kind = 2 * (kind * count + nodes)
    kind[:, np.arange(size), np.arange(size)] += 1
    return _number(kind)


def _number(values: Array) -> tuple[Array, int]:
    """Replaces values by their rank among the distinct values."""
    different, rank = np.unique(values, return_inverse=True)
    return rank.reshape(values.shape).astype(np.int64), len(different)


@dataclass(frozen=True, eq=False)
class Colouring:
    """Colours of the nodes or pairs of one graph.

    Attributes:
        test: Name of the test.
        colours: ``[N]`` for 1-WL, ``[N, N]`` for 2-WL and 2-FWL. Graphs that are refined together share names, which do
            not depend on the order of the nodes: isomorphic graphs have equal histograms.
        rounds: Rounds that changed the partition of all graphs refined together.
        stable: Whether one more round would change nothing; ``False`` if ``rounds`` stopped it early.
    """

    test: str
    colours: Array
    rounds: int
    stable: bool

    @property
    def histogram(self) -> dict[int, int]:
        """Number of occurrences of each colour."""
        names, counts = np.unique(self.colours, return_counts=True)
        return dict(zip(names.tolist(), counts.tolist(), strict=True))

    @property
    def num_colours(self) -> int:
        """Number of distinct colours."""
        return len(np.unique(self.colours))


@dataclass(frozen=True, eq=False)
class Refinement:
    """Colours of several graphs refined together.

    Attributes:
        colours: The colours of each graph.
        rounds: Rounds that changed the partition.
        stable: Whether the partition is stable.
        apart_after: The round after which the first two graphs had different histograms (0: before the first), or
            ``None``; only known when asked for.
    """

    colours: list[Array]
    rounds: int
    stable: bool
    apart_after: int | None
