import pytest

from lrga.data.datasets.place import BuildPlace, check_seed, check_sizes, default_workers, parse_sizes
from lrga.errors import OptionError

FULL = {"train": 10, "val": 2, "test": 3}


def test_a_place_needs_only_its_folders(tmp_path):
    place = BuildPlace(tmp_path / "raw", tmp_path / "work")
    place.progress("step", 1, None)
    assert (place.source, place.workers, place.download) == (None, 1, True)


def test_there_is_at_least_one_core():
    assert default_workers() >= 1


@pytest.mark.parametrize("seed", [0, 41, 2**62])
def test_seeds(seed):
    assert check_seed(seed) == seed


@pytest.mark.parametrize("seed", [-1, 1.5, "41", None, True, 2**63])
def test_what_is_no_seed_is_refused(seed):
    with pytest.raises(OptionError, match="seed"):
        check_seed(seed)


def test_sizes_have_defaults_in_the_order_of_the_splits():
    assert check_sizes(None, FULL) == [10, 2, 3]
    assert check_sizes((4, 5, 6), FULL) == [4, 5, 6]


@pytest.mark.parametrize("sizes", [(1, 2), (1, 2, 3, 4), (0, 1, 1), (1, -1, 1), (1.0, 1, 1), "123", 5, (True, 1, 1)])
def test_what_is_no_size_is_refused(sizes):
    with pytest.raises(OptionError, match="three numbers of graphs"):
        check_sizes(sizes, FULL)


def test_sizes_are_read_from_text():
    assert parse_sizes("1500,250,250") == (1500, 250, 250)


@pytest.mark.parametrize("text", ["a,b,c", "1;2;3", "", "1,,2"])
def test_text_that_is_no_size_is_refused(text):
    with pytest.raises(OptionError, match="1500,250,250"):
        parse_sizes(text)
