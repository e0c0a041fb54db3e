"""Which rows of a padded batch are real."""

import pytest
import torch

from lrga.kernels.padding import padded, real_rows


def test_without_padding_all_rows_are_real():
    assert real_rows(torch.zeros(3)) is None


def test_rows_are_looked_up_by_capacity():
    nodes, edges = torch.tensor(3), torch.tensor(9)
    with padded({4: nodes, 10: edges}):
        assert real_rows(torch.zeros(4, 2)) is nodes
        assert real_rows(torch.zeros(10)) is edges
        assert real_rows(torch.zeros(7)) is None


def test_an_error_inside_leaves_no_padding_behind():
    with pytest.raises(KeyError), padded({4: torch.tensor(3)}):
        raise KeyError
    assert real_rows(torch.zeros(4)) is None
