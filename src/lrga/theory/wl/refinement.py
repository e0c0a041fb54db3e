"""1-WL, the colour refinement of nodes, in time that follows what changes.

In a round each node's new colour names its old colour and the multiset of its neighbours' colours (with the labels of
the edges). Two facts make it fast and exact:

- When a class splits, one part may keep the name: how many neighbours of that part a node has follows from the other
  parts and from the count before. So a round looks only at the neighbours of nodes that were renamed in the last one.
- Multisets are told apart by sums of two 64-bit mixing functions, 128 bits in all. A difference of hashes is a
  difference of multisets, so a collision could only hide one; hence the colouring that comes out stable is compared
  with the exact sorted multisets once, at the end. The coarsest stable colouring is unique: one that is stable and has
  come from refining is the right one, and no collision decides a verdict.

Names never depend on the order of the nodes: hashes are fixed functions of names, and new names follow their order.

Letters: G graphs, N nodes of all of them, E views (a node and one it is adjacent to, by an arc in either direction).
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from lrga.theory.labelled import Array, LabelledGraph, check_fits
from lrga.theory.wl.joint import JointGraphs, Refinement, join

_BYTES_PER_NODE, _BYTES_PER_ARC = 200, 140  # tests/theory/test_refinement.py measures them


def refine_nodes(
    graphs: Sequence[LabelledGraph],
    *,
    rounds: int | None = None,
    until_apart: bool = False,
    memory_limit: int | None = None,
) -> Refinement:
    """Refines the nodes of all graphs together.

    Args:
        graphs: Graphs with labels of the same types.
        rounds: At most so many rounds; until stable by default.
        until_apart: Stop as soon as the histograms of the first two graphs differ.
        memory_limit: Bytes that may be used; what is free by default.
    """
    _check_memory(graphs, memory_limit)
    joint = join(graphs)
    views = views_of(joint)
    partition = _Partition(joint.colour, joint.num_labels)
    apart = until_apart and _first_two_differ(joint)
    boundary = int(joint.node_ptr[1]) if until_apart else 0
    done, stable = 0, partition.is_discrete
    while not (apart or stable) and (rounds is None or done < rounds):
        if not partition.refine(views):
            stable = partition.is_stable(views)
            if not stable:  # a collision of 128 bits: look at everything again, with other mixing functions
                partition.start_afresh()
            continue
        done, stable = done + 1, partition.is_discrete
        # What kept its name is balanced between the graphs if and only if all that was renamed is.
        apart = until_apart and _unbalanced(partition.colour[partition.renamed], partition.renamed < boundary)
    ends = zip(joint.node_ptr[:-1], joint.node_ptr[1:], strict=True)
    return Refinement([partition.colour[a:b] for a, b in ends], done, stable, done if apart else None)


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
        row, other, relation = graph.source, graph.target, label
        if directed:
            row, other, relation = _both_directions(row, other, label, graph.num_nodes, joint.num_relations)
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
    source: Array, target: Array, label: Array, num_nodes: int, num_relations: int
) -> tuple[Array, Array, Array]:
    out_key, in_key = source * num_nodes + target, target * num_nodes + source
    key = np.union1d(out_key, in_key)
    relation = np.zeros(len(key), dtype=np.int64)
    relation[np.searchsorted(key, out_key)] += label * num_relations
    relation[np.searchsorted(key, in_key)] += label
    row, other = np.divmod(key, max(num_nodes, 1))
    return row, other, relation


@dataclass(eq=False, init=False)
class _Partition:
    """The classes of nodes while they are refined.

    Attributes:
        colour: ``[N]`` class of each node.
        size: ``[N]`` nodes of each class, 0 for names not yet given.
        num_classes: Names given.
        renamed: Nodes renamed in the last round, all at first.
        seed: Which mixing functions are used.
    """

    def __init__(self, colour: Array, num_classes: int) -> None:
        self.colour, self.num_classes = colour.copy(), num_classes
        self.size = np.bincount(colour, minlength=len(colour))
        self.renamed, self.seed = np.arange(len(colour)), 0

    @property
    def is_discrete(self) -> bool:
        """Every node has a colour of its own: nothing is left to split."""
        return self.num_classes == len(self.colour)

    def start_afresh(self) -> None:
        self.renamed, self.seed = np.arange(len(self.colour)), self.seed + 1

    def refine(self, views: Views) -> bool:
        """One round; whether any class was split."""
        if self.num_classes == 1 and views.relation is None:
            return self._split_by_degree(np.diff(views.ptr))
        nodes, first, second = self._signatures(views)
        nodes, part, head = _grouped(nodes, self.colour[nodes], first, second)
        classes, owner = _compact(self.colour[nodes[head]], self.num_classes)  # class of each part
        part_size = np.bincount(part, minlength=len(head))
        # Members that saw nothing new are a part of their own and keep the name; without such the largest part does.
        rest = self.size[classes] - np.bincount(owner, weights=part_size, minlength=len(classes)).astype(np.int64)
        is_renamed = (rest[owner] > 0) | (_largest_part(owner, part_size, len(classes))[owner] != np.arange(len(head)))
        name = self.num_classes - 1 + np.cumsum(is_renamed)
        moved = is_renamed[part]
        self.renamed = nodes[moved]
        self.colour[self.renamed] = name[part[moved]]
        self.size[name[is_renamed]] = part_size[is_renamed]
        np.subtract.at(self.size, classes[owner[is_renamed]], part_size[is_renamed])
        count = int(np.count_nonzero(is_renamed))
        self.num_classes += count
        return count > 0

    def _split_by_degree(self, degree: Array) -> bool:
        """The first round of unlabelled graphs, which needs no hash: new names follow the order of the degrees."""
        count = np.bincount(degree)
        keeps = int(np.argmax(count))
        others = np.flatnonzero(count)
        others = others[others != keeps]
        name = np.zeros(len(count), dtype=np.int64)
        name[others] = 1 + np.arange(len(others))
        self.colour = name[degree]
        self.renamed = np.flatnonzero(self.colour)
        self.size[0], self.size[name[others]] = count[keeps], count[others]
        self.num_classes += len(others)
        return len(others) > 0

    def _signatures(self, views: Views) -> tuple[Array, Array, Array]:
        """The nodes that may leave their class, and two hashes of the multiset of colours that each sees.

        Either those that see a renamed node, with the renamed colours only, or simply all that are not alone in their
        class, with all colours: whichever is less to look at.
        """
        many = 4 * len(self.renamed) > views.num_nodes
        nodes, starts, colours, relation = self._seen_by_all(views) if many else self._seen_of_renamed(views)
        if not len(nodes):
            return nodes, np.empty(0, dtype=np.uint64), np.empty(0, dtype=np.uint64)
        hashes = []
        for word in (2 * self.seed, 2 * self.seed + 1):
            if relation is None and self.num_classes < len(colours):  # mix each colour once
                values = _mix(np.arange(self.num_classes), word)[colours]
            else:
                values = _mix(colours if relation is None else colours * views.num_relations + relation, word)
            hashes.append(np.add.reduceat(values, starts))
        return nodes, hashes[0], hashes[1]

    def _seen_by_all(self, views: Views) -> tuple[Array, Array, Array, Array | None]:
        degree = np.diff(views.ptr)
        nodes = np.flatnonzero((self.size[self.colour] > 1) & (degree > 0))
        if 2 * len(nodes) > views.num_nodes:  # taking the rest along is cheaper than picking these
            nodes = np.flatnonzero(degree)
            return nodes, views.ptr[nodes], self.colour[views.seen], views.relation
        at, length = views.rows(nodes)
        relation = None if views.relation is None else views.relation[at]
        return nodes, np.cumsum(length) - length, self.colour[views.seen[at]], relation

    def _seen_of_renamed(self, views: Views) -> tuple[Array, Array, Array, Array | None]:
        at, length = views.rows(self.renamed)
        observer = views.seen[at]  # views are mutual: who is seen by a renamed node sees it
        order = np.argsort(observer, kind="stable")
        observer = observer[order]
        colours = np.repeat(self.colour[self.renamed], length)[order]
        relation = None if views.relation is None else views.mirrored(views.relation[at[order]])
        starts = np.flatnonzero(_differs(observer))
        return observer[starts], starts, colours, relation

    def is_stable(self, views: Views) -> bool:
        """Whether all nodes of a class see exactly the same multiset, by comparing the multisets themselves."""
        nodes = np.flatnonzero(self.size[self.colour] > 1)
        at, length = views.rows(nodes)
        symbol = self.colour[views.seen[at]]
        if views.relation is not None:
            symbol = symbol * views.num_relations + views.relation[at]
        row = np.repeat(np.arange(len(nodes)), length)
        symbol = symbol[np.lexsort((symbol, row))]
        _, example, owner = np.unique(self.colour[nodes], return_index=True, return_inverse=True)
        example = example[owner]  # a node of the same class, for each node
        if not np.array_equal(length, length[example]):
            return False
        start = np.cumsum(length) - length
        return np.array_equal(symbol, symbol[ranges(start[example], length)])


def _compact(names: Array, num_names: int) -> tuple[Array, Array]:
    """Which names there are and the position of each given one among them; all names where most are there anyway."""
    if 4 * len(names) > num_names:
        return np.arange(num_names), names
    present, position = np.unique(names, return_inverse=True)
    return present, position


def _grouped(nodes: Array, colour: Array, first: Array, second: Array) -> tuple[Array, Array, Array]:
    """The nodes ordered by (colour, hashes), the part of each, and the position of the first of each part."""
    key, order = _sorted_with_order(_mix(first + _mix(colour, 1), 0))
    differs = _differs(colour[order]) | _differs(first[order]) | _differs(second[order])
    if (differs & ~_differs(key)).any():  # unequal parts under one key: sort by the parts themselves
        order = np.lexsort((second, first, colour))
        differs = _differs(colour[order]) | _differs(first[order]) | _differs(second[order])
    return nodes[order], np.cumsum(differs) - 1, np.flatnonzero(differs)


def _sorted_with_order(key: Array) -> tuple[Array, Array]:
    """Sorts by the leading bits of 64-bit keys; the order takes the place of the trailing ones, which saves a sort."""
    mask = np.uint64((1 << len(key).bit_length()) - 1)
    packed = np.sort((key & ~mask) | np.arange(len(key), dtype=np.uint64))
    return packed & ~mask, (packed & mask).astype(np.int64)


def _differs(values: Array) -> Array:
    """Where a sorted array differs from the entry before; the first always does."""
    differs = np.ones(len(values), dtype=bool)
    np.not_equal(values[1:], values[:-1], out=differs[1:])
    return differs


def _largest_part(owner: Array, part_size: Array, num_classes: int) -> Array:
    """For each class its largest part; of equal ones the first, which is the same for any order of the nodes."""
    largest = np.zeros(num_classes, dtype=np.int64)
    np.maximum.at(largest, owner, part_size)
    candidates = np.flatnonzero(part_size == largest[owner])[::-1]
    chosen = np.empty(num_classes, dtype=np.int64)
    chosen[owner[candidates]] = candidates  # the first is written last
    return chosen


def _mix(values: Array, word: int) -> Array:
    """A fixed pseudo-random 64-bit function of the values, another for each word (the finaliser of SplitMix64)."""
    offset = (word + 1) * 0x9E3779B97F4A7C15 % 2**64
    x = values.astype(np.uint64) * np.uint64(0xD1342543DE82EF95) + np.uint64(offset)
    x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return x ^ (x >> np.uint64(31))


def _first_two_differ(joint: JointGraphs) -> bool:
    a, b, c = (int(p) for p in joint.node_ptr[:3])
    return b - a != c - b or _unbalanced(joint.colour[a:c], np.arange(c - a) < b - a)


def _unbalanced(colours: Array, is_first: Array) -> bool:
    """Whether some colour occurs more often in one graph than in the other."""
    if not len(colours):
        return False
    weights = np.where(is_first, 1.0, -1.0)
    return bool(np.bincount(colours - colours.min(), weights=weights).any())


def _check_memory(graphs: Sequence[LabelledGraph], memory_limit: int | None) -> None:
    nodes, arcs = sum(g.num_nodes for g in graphs), sum(len(g.source) for g in graphs)
    bytes_per_node = _BYTES_PER_NODE + arcs / max(nodes, 1) * _BYTES_PER_ARC
    check_fits(nodes, lambda n: int(n * bytes_per_node), what="1-WL", memory_limit=memory_limit)
