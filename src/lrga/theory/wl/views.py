"""What each node sees, as rows of neighbours with their relations, for the refinement of nodes.

Letters: N nodes of all graphs, E views (a node and one it is adjacent to, by an arc in either direction).
"""

from dataclasses import dataclass

import numpy as np

from lrga.theory.labelled import Array
from lrga.theory.wl.joint import JointGraphs


@dataclass(frozen=True, eq=False)
class Views:
    """Row v lists the nodes that v is adjacent to, each with its relation, in CSR form. Views are mutual.

    Attributes:
        ptr: ``[N + 1]`` first view of each row.
        seen: ``[E]`` the other node.
        relation: ``[E]`` number of the relation of v to the other, or ``None`` where there is only one.
        num_relations: One more than the largest relation.
        labels: Where arcs differ from their reverse, a relation is ``out * labels + in``, the label of the arc to the
            other and that of the arc back (0: no arc); 0 where all graphs are undirected and a relation is a label.
    """

    ptr: Array
    seen: Array
    relation: Array | None
    num_relations: int
    labels: int

    @property
    def num_nodes(self) -> int:
        return len(self.ptr) - 1

    def mirrored(self, relation: Array) -> Array:
        """The same relations seen from the other node."""
        if not self.labels:
            return relation
        outward, inward = np.divmod(relation, self.labels)
        return inward * self.labels + outward

    def rows(self, nodes: Array) -> tuple[Array, Array]:
        """Positions of the views of several rows, one after another, and the length of each row."""
        length = self.ptr[nodes + 1] - self.ptr[nodes]
        return ranges(self.ptr[nodes], length), length


def ranges(start: Array, length: Array) -> Array:
    """``start[0], start[0] + 1, …`` (``length[0]`` of them), ``start[1], …``, concatenated."""
    end = np.cumsum(length)
    total = int(end[-1]) if len(end) else 0
    return np.arange(total) + np.repeat(start - (end - length), length)


def views_of(joint: JointGraphs) -> Views:
    """Views of all graphs; as soon as one of them is directed, relations tell the arc out from the arc in."""
    directed = not all(g.symmetric for g in joint.graphs)
    rows, seen, relations = [], [], []
    for graph, first, label in zip(joint.graphs, joint.node_ptr[:-1], joint.relations, strict=True):
        if directed:
            row, other, relation = _both_directions(graph.source, graph.target, label, graph.num_nodes, joint)
        else:
            row, other, relation = graph.source, graph.target, label
        rows.append(row + first)
        seen.append(other + first)
        relations.append(relation)
    count = np.bincount(np.concatenate(rows), minlength=joint.num_nodes) if rows else np.zeros(0, dtype=np.int64)
    ptr = np.concatenate([[0], np.cumsum(count)])
    labels = joint.num_relations if directed else 0
    several = directed or joint.num_relations > 2
    return Views(
        ptr,
        np.concatenate(seen) if seen else np.empty(0, dtype=np.int64),
        np.concatenate(relations) if several else None,
        max(labels * labels, joint.num_relations) if several else 1,
        labels,
    )


def _both_directions(
    source: Array, target: Array, label: Array, num_nodes: int, joint: JointGraphs
) -> tuple[Array, Array, Array]:
    out_key, in_key = source * num_nodes + target, target * num_nodes + source
    key = np.union1d(out_key, in_key)
    relation = np.zeros(len(key), dtype=np.int64)
    relation[np.searchsorted(key, out_key)] += label * joint.num_relations
    relation[np.searchsorted(key, in_key)] += label
    row, other = np.divmod(key, max(num_nodes, 1))
    return row, other, relation
