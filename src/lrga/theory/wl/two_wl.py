"""Oblivious 2-WL: pairs refined by the multisets of each coordinate's replacements.

A pair's new colour names its old one, the multiset of colours of (k, j) over all k, and that of (i, k) over all k. The
two multisets belong to a column and a row of the colour matrix, so a round costs O(n² log n). On graphs this test tells
apart exactly what 1-WL does (the paper calls vertex colouring "2-WL"); it is here to show that, and the difference to
2-FWL, which keeps the two colours seen at k together.

Letters: G graphs of n nodes each.
"""

from collections.abc import Sequence

import numpy as np

from lrga.theory.capacity import check_fits
from lrga.theory.labelled import Array, LabelledGraph
from lrga.theory.wl.colouring import Refinement, histograms_differ
from lrga.theory.wl.joint import join
from lrga.theory.wl.pairs import check_no_self_loops, pair_types

_BYTES_PER_PAIR = 144  # tests/theory/test_two_wl.py measures it


def refine_pairs_obliviously(
    graphs: Sequence[LabelledGraph],
    *,
    rounds: int | None = None,
    until_apart: bool = False,
    memory_limit: int | None = None,
) -> Refinement:
    """Refines the pairs of graphs of one size together; options as of :func:`lrga.theory.wl.refinement.refine_nodes`.

    Exact without any hash: rows and columns are sorted and compared in full.
    """
    check_no_self_loops(graphs, "2-wl")
    size, count = graphs[0].num_nodes, len(graphs)
    check_fits(size, lambda n: _BYTES_PER_PAIR * count * n * n, what="2-WL", memory_limit=memory_limit)
    colours, num_colours = pair_types(join(graphs))
    apart = until_apart and histograms_differ(colours, num_colours)
    done, stable = 0, size == 0
    while not (apart or stable) and (rounds is None or done < rounds):
        row, column, num_multisets = _multisets(colours)
        frame = row[:, :, None] * num_multisets + column[:, None, :]
        different, frame = np.unique(frame, return_inverse=True)
        different, colours = np.unique(colours * len(different) + frame.reshape(colours.shape), return_inverse=True)
        colours = colours.reshape(count, size, size)
        stable = len(different) == num_colours
        done, num_colours = done + (not stable), len(different)
        apart = until_apart and histograms_differ(colours, num_colours)
    return Refinement(list(colours), done, stable, done if apart else None)


def _multisets(colours: Array) -> tuple[Array, Array, int]:
    """Numbers of the multisets of colours in each row and in each column, ``[G, n]``, and how many there are."""
    both = np.concatenate([colours, colours.transpose(0, 2, 1)])
    rows = np.sort(both, axis=2).reshape(-1, colours.shape[2])
    different, number = np.unique(rows, axis=0, return_inverse=True)
    row, column = number.reshape(2, *colours.shape[:2])
    return row, column, len(different)
