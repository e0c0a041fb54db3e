"""k-FWL for any k on small graphs, exact and plain: the definition beside the fast tests.

The new colour of a k-tuple names its old one and the multiset over w of the k colours got by putting w in each place.
Time O(k n^{k+1} log n) and memory O(n^{k+1}) per round: for graphs of a few dozen nodes.

Letters: G graphs of n nodes each.
"""

from collections.abc import Sequence

import numpy as np

from lrga.errors import OptionError
from lrga.theory.capacity import check_fits
from lrga.theory.labelled import Array, LabelledGraph
from lrga.theory.wl.colouring import Refinement, histograms_differ
from lrga.theory.wl.joint import join
from lrga.theory.wl.pairs import check_no_self_loops, pair_types

_BYTES_PER_ENTRY = 80  # per entry of the n^{k+1} multisets; tests/theory/test_kfwl.py measures it


def refine_tuples(
    graphs: Sequence[LabelledGraph],
    k: int,
    *,
    rounds: int | None = None,
    until_apart: bool = False,
    memory_limit: int | None = None,
) -> Refinement:
    """Refines the k-tuples (k ≥ 2) of graphs of one size together; options as in :mod:`lrga.theory.wl.refinement`."""
    if not isinstance(k, int) or isinstance(k, bool) or k < 2:
        raise OptionError("k as an integer, 2 or more", repr(k), "use test='1-wl' for k = 1")
    check_no_self_loops(graphs, f"{k}-fwl")
    size, count = graphs[0].num_nodes, len(graphs)
    check_fits(size, lambda n: _BYTES_PER_ENTRY * count * n ** (k + 1), what=f"{k}-FWL", memory_limit=memory_limit)
    colours, num_colours = _tuple_types(graphs, k)
    apart = until_apart and histograms_differ(colours, num_colours)
    done, stable = 0, size == 0
    while not (apart or stable) and (rounds is None or done < rounds):
        different, colours = np.unique(_seen(colours, num_colours), axis=0, return_inverse=True)
        colours = colours.reshape(count, *[size] * k)
        stable = len(different) == num_colours
        done, num_colours = done + (not stable), len(different)
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


def _seen(colours: Array, num_colours: int) -> Array:
    """One row per tuple: its colour, then its sorted multiset; equal rows are equal colours."""
    k, size = colours.ndim - 1, colours.shape[1]
    joint = np.zeros((*colours.shape, size), dtype=np.int64)
    for place in range(k):
        # Colour of the tuple with w in this place, at index [graph, tuple, w].
        replaced = np.expand_dims(np.moveaxis(colours, place + 1, -1), place + 1)
        joint = joint * num_colours + replaced
        if num_colours ** (place + 2) >= 2**63:
            joint = np.unique(joint, return_inverse=True)[1].reshape(joint.shape)
    joint = np.sort(joint, axis=-1)
    return np.concatenate([colours.reshape(-1, 1), joint.reshape(-1, size)], axis=1)
