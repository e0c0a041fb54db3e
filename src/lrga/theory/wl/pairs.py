"""Isomorphism types of pairs of nodes, numbered over several graphs: where 2-WL and 2-FWL start.

Letters: G graphs of n nodes each.
"""

from collections.abc import Sequence

import numpy as np

from lrga.errors import DataError
from lrga.theory.labelled import Array, LabelledGraph
from lrga.theory.wl.joint import JointGraphs


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
    kind = kind * count + nodes
    kind = 2 * kind
    kind[:, np.arange(size), np.arange(size)] += 1
    return _number(kind)


def _number(values: Array) -> tuple[Array, int]:
    """Replaces values by their rank among the different ones."""
    different, rank = np.unique(values, return_inverse=True)
    return rank.reshape(values.shape).astype(np.int64), len(different)
