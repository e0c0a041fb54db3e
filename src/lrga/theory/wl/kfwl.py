"""2-WL and k-FWL by their definitions, exact and plain: rows are sorted and compared in full, without any hash.

k-FWL: the new colour of a k-tuple names its old one and the multiset over w of the k colours got by putting w in each
place. Time O(k n^{k+1} log n) and memory O(n^{k+1}) per round: for graphs of a few dozen nodes.

Oblivious 2-WL: a pair's new colour names its old one, the multiset of colours of (k, j) over all k, and that of (i, k)
over all k. The two multisets belong to a column and a row of the colour matrix, so a round costs O(n² log n). On graphs
this test tells apart exactly what 1-WL does (the paper calls vertex colouring "2-WL"); it is here to show that, and the
difference to 2-FWL, which keeps the two colours seen at k together.

Letters: G graphs of n nodes each.
"""

from collections.abc import Callable, Sequence

import numpy as np

from lrga.errors import OptionError
from lrga.theory.labelled import Array, LabelledGraph, check_fits
from lrga.theory.wl.joint import Refinement, check_no_self_loops, histograms_differ, join, pair_types

_BYTES_PER_ENTRY = 80  # per entry of the n^{k+1} multisets of k-FWL; tests/theory/test_kfwl.py measures both
_BYTES_PER_PAIR = 144  # of 2-WL


def refine_tuples(
    graphs: Sequence[LabelledGraph],
    k: int,
    *,
    rounds: int | None = None,
    until_apart: bool = False,
    memory_limit: int | None = None,
) -> Refinement:
    """k-FWL: refines the k-tuples (k ≥ 2) of graphs of one size together.

    Options are those of :func:`lrga.theory.wl.refinement.refine_nodes`.
    """
    if not isinstance(k, int) or isinstance(k, bool) or k < 2:
        raise OptionError("k as an integer, 2 or more", repr(k), "use test='1-wl' for k = 1")
    check_no_self_loops(graphs, f"{k}-fwl")
    size, count = graphs[0].num_nodes, len(graphs)
    check_fits(size, lambda n: _BYTES_PER_ENTRY * count * n ** (k + 1), what=f"{k}-FWL", memory_limit=memory_limit)
    return _refine(*_tuple_types(graphs, k), _tuples_by_what_they_see, rounds=rounds, until_apart=until_apart)


def refine_pairs_obliviously(
    graphs: Sequence[LabelledGraph],
    *,
    rounds: int | None = None,
    until_apart: bool = False,
    memory_limit: int | None = None,
) -> Refinement:
    """2-WL: refines the pairs of graphs of one size together; options as of :func:`refine_tuples`."""
    check_no_self_loops(graphs, "2-wl")
    size, count = graphs[0].num_nodes, len(graphs)
    check_fits(size, lambda n: _BYTES_PER_PAIR * count * n * n, what="2-WL", memory_limit=memory_limit)
    return _refine(*pair_types(join(graphs)), _pairs_by_row_and_column, rounds=rounds, until_apart=until_apart)


def _refine(
    colours: Array,
    num_colours: int,
    refined: Callable[[Array, int], tuple[Array, int]],
    *,
    rounds: int | None,
    until_apart: bool,
) -> Refinement:
    """Rounds of ``refined``, which returns colours of the same shape and their number, until stable."""
    apart = until_apart and histograms_differ(colours, num_colours)
    done, stable = 0, colours.size == 0
    while not (apart or stable) and (rounds is None or done < rounds):
        before = num_colours
        colours, num_colours = refined(colours, before)
        stable = num_colours == before
        done += not stable
        apart = until_apart and histograms_differ(colours, num_colours)
    return Refinement(list(colours), done, stable, done if apart else None)


def _tuple_types(graphs: Sequence[LabelledGraph], k: int) -> tuple[Array, int]:
    """A tuple's type is the list of the types of its pairs."""
    pairs, _ = pair_types(join(graphs))
    size = pairs.shape[1]
    kind = np.zeros((len(graphs), *[size] * k), dtype=np.int64)
    count = 1
    for a in range(k):
        for b in range(a + 1, k):
            shape = [len(graphs)] + [size if place in (a, b) else 1 for place in range(k)]
            kind = kind * (int(pairs.max(initial=0)) + 1) + pairs.reshape(shape)
            different, rank = np.unique(kind, return_inverse=True)
            kind, count = rank.reshape(kind.shape), len(different)
    return kind, count


def _tuples_by_what_they_see(colours: Array, num_colours: int) -> tuple[Array, int]:
    """One row per tuple, its colour and then its sorted multiset: equal rows are equal colours."""
    k, size = colours.ndim - 1, colours.shape[1]
    joint = np.zeros((*colours.shape, size), dtype=np.int64)
    for place in range(k):
        # Colour of the tuple with w in this place, at index [graph, tuple, w].
        replaced = np.expand_dims(np.moveaxis(colours, place + 1, -1), place + 1)
        joint = joint * num_colours + replaced
        if num_colours ** (place + 2) >= 2**63:
            joint = np.unique(joint, return_inverse=True)[1].reshape(joint.shape)
    joint = np.sort(joint, axis=-1)
    seen = np.concatenate([colours.reshape(-1, 1), joint.reshape(-1, size)], axis=1)
    different, refined = np.unique(seen, axis=0, return_inverse=True)
    return refined.reshape(colours.shape), len(different)


def _pairs_by_row_and_column(colours: Array, _: int) -> tuple[Array, int]:
    """A pair's colour, and the multisets of colours in the row and in the column that it stands in."""
    both = np.concatenate([colours, colours.transpose(0, 2, 1)])
    rows = np.sort(both, axis=2).reshape(-1, colours.shape[2])
    multisets, number = np.unique(rows, axis=0, return_inverse=True)
    row, column = number.reshape(2, *colours.shape[:2])
    frames, frame = np.unique(row[:, :, None] * len(multisets) + column[:, None, :], return_inverse=True)
    different, refined = np.unique(colours * len(frames) + frame.reshape(colours.shape), return_inverse=True)
    return refined.reshape(colours.shape), len(different)
