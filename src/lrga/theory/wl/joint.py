"""Several graphs refined together, so that equal colours mean the same in all of them: where a test starts and ends.

Letters: G graphs, N nodes of all of them, E arcs; tests on pairs take graphs of n nodes each.
"""

import itertools
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from lrga.errors import DataError, DTypeError
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
            remedy = f"(--{what}-label none, in Python {what}_attribute=None)"
            remedy = f"label the {what}s of all graphs alike, or leave the labels out {remedy}"
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
    """The pair (i, i) stands for node i in these tests, so that it cannot be an edge as well."""
    for number, graph in enumerate(graphs):
        loops = graph.source[graph.source == graph.target]
        if len(loops):
            raise DataError(
                f"graphs without self-loops for {test}, where the pair (i, i) stands for node i",
                f"graph {number} with {len(loops)}, the first at node {loops[0]}",
                "remove them, or say by a node label which nodes had one; 1-wl takes self-loops",
            )


def pair_types(joint: JointGraphs) -> tuple[Array, int]:
    """Number of the isomorphism type of every pair, ``[G, n, n]``, and how many types there are.

    Two pairs (i, j) have the same type when i = j in both or neither, their nodes have the same labels in this order,
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
    """Replaces values by their rank among the different ones."""
    different, rank = np.unique(values, return_inverse=True)
    return rank.reshape(values.shape).astype(np.int64), len(different)


@dataclass(frozen=True, eq=False)
class Colouring:
    """Colours of the nodes or pairs of one graph.

    Attributes:
        test: Name of the test that made it.
        colours: ``[N]`` for 1-WL, ``[N, N]`` for 2-WL and 2-FWL. Names are shared by all graphs refined together and do
            not depend on the order of the nodes: isomorphic graphs have equal histograms.
        rounds: Rounds that changed the partition of all graphs refined together.
        stable: Whether one more round would change nothing; ``False`` when cut short.
    """

    test: str
    colours: Array
    rounds: int
    stable: bool

    @property
    def histogram(self) -> dict[int, int]:
        """How often each colour occurs."""
        names, counts = np.unique(self.colours, return_counts=True)
        return dict(zip(names.tolist(), counts.tolist(), strict=True))

    @property
    def num_colours(self) -> int:
        return len(np.unique(self.colours))


@dataclass(frozen=True, eq=False)
class Refinement:
    """Colours of several graphs refined together.

    Attributes:
        colours: Per graph.
        rounds: Rounds that changed the partition.
        stable: Whether the partition is stable.
        apart_after: The round after which the first two graphs had different histograms (0: before the first), or
            ``None``; only known when asked for.
    """

    colours: list[Array]
    rounds: int
    stable: bool
    apart_after: int | None
