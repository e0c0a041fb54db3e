"""1-WL, the colour refinement of nodes; the time of a round depends on the nodes that change.

In a round, the new colour of a node consists of its old colour and the multiset of its neighbours' colours (with the
labels of the edges). Two facts make this fast and exact:

- When a class splits, one part keeps the name. A round therefore processes only nodes with a renamed neighbour; for the
  others nothing has changed.
- Multisets are hashed by sums of two 64-bit mixing functions, 128 bits in total. Different hashes imply different
  multisets, so a collision could only hide a difference. Therefore the final colouring is verified once with the exact
  sorted multisets. The coarsest stable colouring is unique, so a stable colouring that results from refinement is
  correct, and verdicts do not depend on collisions.

Names do not depend on the order of the nodes: hashes are fixed functions of names, and new names follow their order.

Letters: G graphs, N nodes of all of them, E views (a node and one it is adjacent to, by an arc in either direction).
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from lrga.theory.labelled import Array, LabelledGraph, check_fits
from lrga.theory.wl.joint import JointGraphs, Refinement, join

_BYTES_PER_NODE, _BYTES_PER_ARC = 200, 140  # tests/theory/test_refinement.py measures them


def refine_nodes(
    graphs: Sequence[LabelledGraph], *, rounds: int | None = None, until_apart: bool = False
) -> Refinement:
    """Refines the nodes of all graphs together.

    Args:
        graphs: Graphs with labels of the same types.
        rounds: Maximum number of rounds; until stable by default.
        until_apart: Stop as soon as the histograms of the first two graphs differ.
    """
    nodes, arcs = sum(g.num_nodes for g in graphs), sum(len(g.source) for g in graphs)
    bytes_per_node = _BYTES_PER_NODE + arcs / max(nodes, 1) * _BYTES_PER_ARC
    check_fits(nodes, lambda n: int(n * bytes_per_node), what="1-WL")
    joint = join(graphs)
    views = views_of(joint)
    partition = _Partition(joint.colour, joint.num_labels)
    apart, boundary = False, 0
    if until_apart:
        _, boundary, end = (int(p) for p in joint.node_ptr[:3])
        apart = 2 * boundary != end or _unbalanced(joint.colour[:end], np.arange(end) < boundary)
    done, stable = 0, partition.is_discrete
    while not (apart or stable) and (rounds is None or done < rounds):
        if not partition.refine(views):
            stable = partition.is_stable(views)
            if not stable:  # a 128-bit collision: repeat with other mixing functions
                partition.renamed, partition.seed = np.arange(len(partition.colour)), partition.seed + 1
            continue
        done, stable = done + 1, partition.is_discrete
        # Classes that kept their name are balanced between the graphs if and only if the renamed ones are.
        apart = until_apart and _unbalanced(partition.colour[partition.renamed], partition.renamed < boundary)
    ends = zip(joint.node_ptr[:-1], joint.node_ptr[1:], strict=True)
    return Refinement([partition.colour[a:b] for a, b in ends], done, stable, done if apart else None)


@dataclass(frozen=True, eq=False)
class Views:
    """Neighbours in CSR form: row v lists the nodes adjacent to v and their relations.

    Attributes:
        ptr: ``[N + 1]``, the first view of each row.
        seen: ``[E]``, the neighbour.
        relation: ``[E]``, the number of the relation: the label of the edge or, if a graph is directed, the labels of
            the arcs in both directions (0: no arc).
        num_relations: One more than the largest relation.
    """

    ptr: Array
    seen: Array
    relation: Array
    num_relations: int

    def rows(self, nodes: Array) -> tuple[Array, Array]:
        """Positions of the views of several rows, concatenated, and the length of each row."""
        length = self.ptr[nodes + 1] - self.ptr[nodes]
        return ranges(self.ptr[nodes], length), length


def ranges(start: Array, length: Array) -> Array:
    """``start[0], start[0] + 1, …`` (``length[0]`` of them), ``start[1], …``, concatenated."""
    end = np.cumsum(length)
    total = int(end[-1]) if len(end) else 0
    return np.arange(total) + np.repeat(start - (end - length), length)


def views_of(joint: JointGraphs) -> Views:
    """Views of all graphs. If one of them is directed, relations distinguish outgoing and incoming arcs."""
    directed = not all(g.symmetric for g in joint.graphs)
    rows, seen, relations = [np.empty(0, dtype=np.int64)], [np.empty(0, dtype=np.int64)], [np.empty(0, dtype=np.int64)]
    for graph, first, label in zip(joint.graphs, joint.node_ptr[:-1], joint.relations, strict=True):
        row, other, relation = graph.source, graph.target, label
        if directed:
            row, other, relation = _both_directions(row, other, label, graph.num_nodes, joint.num_relations)
        rows.append(row + first)
        seen.append(other + first)
        relations.append(relation)
    count = np.bincount(np.concatenate(rows), minlength=joint.num_nodes)
    num_relations = joint.num_relations ** (2 if directed else 1)
    return Views(np.append(0, np.cumsum(count)), np.concatenate(seen), np.concatenate(relations), num_relations)


def _both_directions(
    source: Array, target: Array, label: Array, num_nodes: int, num_relations: int
) -> tuple[Array, Array, Array]:
    out_key, in_key = source * num_nodes + target, target * num_nodes + source
    key = np.union1d(out_key, in_key)
    relation = np.zeros(len(key), dtype=np.int64)
    relation[np.searchsorted(key, out_key)] += label * num_relations
    relation[np.searchsorted(key, in_key)] += label
    row, other = np.divmod(key, max(num_nodes, 1))
    return row, other, relation


class _Partition:
    """The classes of nodes during refinement.

    Attributes:
        colour: ``[N]``, the class of each node.
        size: ``[N]``, the number of nodes of each class, 0 for unused names.
        num_classes: Number of used names.
        renamed: Nodes renamed in the last round; initially all.
        seed: Seed of the mixing functions.
    """

    def __init__(self, colour: Array, num_classes: int) -> None:
        self.colour, self.num_classes = colour.copy(), num_classes
        self.size = np.bincount(colour, minlength=len(colour))
        self.renamed, self.seed = np.arange(len(colour)), 0

    @property
    def is_discrete(self) -> bool:
        """Whether every node has its own colour: nothing is left to split."""
        return self.num_classes == len(self.colour)

    def refine(self, views: Views) -> bool:
        """Runs one round; returns whether any class was split."""
        # Nodes with a renamed neighbour (or all nodes, if these are many), except nodes alone in their class.
        many = 4 * len(self.renamed) > len(self.colour)
        nodes = np.arange(len(self.colour)) if many else np.unique(views.seen[views.rows(self.renamed)[0]])
        nodes = nodes[self.size[self.colour[nodes]] > 1]
        if not len(nodes):
            return False
        first, second = self._hashes(views, nodes)
        order = np.lexsort((second, first, self.colour[nodes]))
        nodes = nodes[order]
        differs = _differs(self.colour[nodes]) | _differs(first[order]) | _differs(second[order])
        head, part = np.flatnonzero(differs), np.cumsum(differs) - 1
        part_size, owner = np.diff(np.append(head, len(nodes))), self.colour[nodes[head]]  # the class of each part
        # Members without a renamed neighbour keep the name; if there are none, the (first) largest part does.
        by_size = np.lexsort((-part_size, owner))
        largest = by_size[_differs(owner[by_size])]
        complete = np.add.reduceat(part_size, np.flatnonzero(_differs(owner))) == self.size[owner[largest]]
        is_renamed = np.ones(len(head), dtype=bool)
        is_renamed[largest[complete]] = False
        name = self.num_classes - 1 + np.cumsum(is_renamed)
        moved = is_renamed[part]
        self.renamed = nodes[moved]
        self.colour[self.renamed] = name[part[moved]]
        self.size[name[is_renamed]] = part_size[is_renamed]
        np.subtract.at(self.size, owner[is_renamed], part_size[is_renamed])
        self.num_classes += int(np.count_nonzero(is_renamed))
        return len(self.renamed) > 0

    def _hashes(self, views: Views, nodes: Array) -> list[Array]:
        """Two hashes of the multiset of each node's neighbours; 0 for a node without neighbours."""
        symbol, length = self._seen(views, nodes)
        sees = length > 0
        starts = (np.cumsum(length) - length)[sees]
        hashes = [np.zeros(len(nodes), dtype=np.uint64) for _ in range(2)]
        for word, values in enumerate(hashes):
            values[sees] = np.add.reduceat(_mix(symbol, 2 * self.seed + word), starts) if len(starts) else 0
        return hashes

    def _seen(self, views: Views, nodes: Array) -> tuple[Array, Array]:
        """The (colour, relation) numbers of the nodes' neighbours, concatenated, and the number for each node."""
        at, length = views.rows(nodes)
        return self.colour[views.seen[at]] * views.num_relations + views.relation[at], length

    def is_stable(self, views: Views) -> bool:
        """Whether all nodes of a class have exactly the same multiset of neighbours, by comparing the multisets."""
        nodes = np.flatnonzero(self.size[self.colour] > 1)
        symbol, length = self._seen(views, nodes)
        row = np.repeat(np.arange(len(nodes)), length)
        symbol = symbol[np.lexsort((symbol, row))]
        _, example, owner = np.unique(self.colour[nodes], return_index=True, return_inverse=True)
        example = example[owner]  # a representative of each node's class
        if not np.array_equal(length, length[example]):
            return False
        start = np.cumsum(length) - length
        return np.array_equal(symbol, symbol[ranges(start[example], length)])


def _differs(values: Array) -> Array:
    """Where an entry of a sorted array differs from the previous one; true for the first."""
    differs = np.ones(len(values), dtype=bool)
    np.not_equal(values[1:], values[:-1], out=differs[1:])
    return differs


def _mix(values: Array, word: int) -> Array:
    """A fixed pseudo-random 64-bit function of the values, another for each word (the finaliser of SplitMix64)."""
    offset = (word + 1) * 0x9E3779B97F4A7C15 % 2**64
    x = values.astype(np.uint64) * np.uint64(0xD1342543DE82EF95) + np.uint64(offset)
    x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return x ^ (x >> np.uint64(31))


def _unbalanced(colours: Array, is_first: Array) -> bool:
    """Whether some colour occurs more often in one graph than in the other."""
    if not len(colours):
        return False
    weights = np.where(is_first, 1.0, -1.0)
    return bool(np.bincount(colours - colours.min(), weights=weights).any())
