"""Histograms of colourings."""

import numpy as np

from lrga.theory.wl.colouring import Colouring, histograms_differ


def test_the_histogram_counts_colours():
    colouring = Colouring("2-fwl", np.array([[0, 1], [1, 0]]), rounds=1, stable=True)
    assert colouring.histogram == {0: 2, 1: 2}
    assert colouring.num_colours == 2


def test_histograms_differ_by_counts_not_by_places():
    assert not histograms_differ(np.array([[0, 1, 1], [1, 0, 1]]), 2)
    assert histograms_differ(np.array([[0, 1, 1], [1, 0, 0]]), 2)
