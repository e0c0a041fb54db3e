import numpy as np
import pytest
import torch

from lrga.data.packed.positions import positions
from lrga.errors import BatchError, DTypeError


@pytest.mark.parametrize(
    ("index", "expected"),
    [(slice(2, 4), slice(2, 4)), (slice(None), slice(0, 9)), (slice(5, 2), slice(5, 5)), (slice(-3, 99), slice(6, 9))],
)
def test_slices_are_cut_to_what_is_there(index, expected):
    assert positions(index, 9) == expected


@pytest.mark.parametrize(
    ("index", "expected"),
    [
        (slice(None, None, -4), [8, 4, 0]),
        ([0, -1, 3], [0, 8, 3]),
        (range(2, 5), [2, 3, 4]),
        (np.array([1, 2], dtype=np.uint8), [1, 2]),
        (torch.tensor([8], dtype=torch.int16), [8]),
        (torch.arange(9) > 6, [7, 8]),
        ([], []),
        (torch.empty(0), []),
    ],
)
def test_everything_else_becomes_positions(index, expected):
    found = positions(index, 9)
    assert found.dtype == torch.int64
    assert found.tolist() == expected


@pytest.mark.parametrize("index", [[9], [-10], [0, 100]])
def test_what_is_not_there_is_refused(index):
    with pytest.raises(BatchError, match="from -9 to 8"):
        positions(index, 9)


@pytest.mark.parametrize("index", ["one", [0.5], [[1]], None, [[1], [2, 3]], 3])
def test_what_is_no_list_of_positions_is_refused(index):
    with pytest.raises(DTypeError, match="positions of graphs"):
        positions(index, 9)


def test_a_mask_of_another_length_is_refused():
    with pytest.raises(BatchError, match="each of 9 graphs"):
        positions(torch.ones(8, dtype=torch.bool), 9)
