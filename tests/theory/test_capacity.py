"""Whether a test fits into memory."""

import pytest

from lrga.errors import OptionError
from lrga.theory import distinguishes
from lrga.theory.capacity import available_memory, check_fits


def test_some_memory_is_available():
    assert available_memory() > 2**20


def test_the_largest_size_that_fits_is_named():
    with pytest.raises(OptionError, match=r"up to 100 nodes.*101 nodes"):
        check_fits(101, lambda n: n * n, what="a test", memory_limit=10_000)
    check_fits(100, lambda n: n * n, what="a test", memory_limit=10_000)


@pytest.mark.parametrize("test", ["1-wl", "2-wl", "2-fwl", "3-fwl"])
def test_a_graph_too_large_for_memory_is_refused_before_anything_is_allocated(test):
    edges = [(0, 1), (1, 2)]
    with pytest.raises(OptionError, match=r"up to \d+ nodes"):
        distinguishes(edges, edges, test, num_nodes=5_000_000, memory_limit=2**28)


def test_a_limit_that_suffices_lets_the_test_run():
    edges = [(0, 1), (1, 2)]
    assert not distinguishes(edges, edges, "2-fwl", memory_limit=2**28)
