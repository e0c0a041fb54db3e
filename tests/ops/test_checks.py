import pytest
import torch

import lrga
from lrga import checks
from lrga.errors import BatchError, DTypeError, NonFiniteError, OptionError, ShapeError


def test_checking_finds_non_finite_features_only_while_switched_on():
    x = torch.ones(4, 2)
    x[1, 1] = float("inf")
    x[2, 0] = float("nan")
    lrga.low_rank_attention(x, x, x)
    with lrga.checking(), pytest.raises(NonFiniteError, match="1 NaN and 1 infinite of 8"):
        lrga.low_rank_attention(x, x, x)
    lrga.low_rank_attention(x, x, x)


def test_checking_can_be_switched_for_good_nested_and_used_twice():
    lrga.checking(True)
    try:
        with pytest.raises(NonFiniteError):
            checks.check_features("x", torch.full((1, 1), float("nan")))
    finally:
        lrga.checking(False)
    checks.check_features("x", torch.full((1, 1), float("nan")))
    bad = torch.full((1, 1), float("nan"))
    with lrga.checking():
        with lrga.checking(False):
            checks.check_features("x", bad)
        with pytest.raises(NonFiniteError):
            checks.check_features("x", bad)
    checked = lrga.checking()
    for _ in range(2):
        with checked, pytest.raises(NonFiniteError):
            checks.check_features("x", torch.full((1, 1), float("nan")))


@pytest.mark.parametrize(
    ("x", "error", "words"),
    [
        ([[1.0]], DTypeError, "list"),
        (torch.ones(3), ShapeError, r"\[N, 2\].*\[3\]"),
        (torch.ones(3, 4), ShapeError, r"\[N, 2\].*\[3, 4\]"),
        (torch.ones(3, 2, dtype=torch.int64), DTypeError, "int64.*float"),
        (torch.ones(3, 2, dtype=torch.bool), DTypeError, "bool"),
        (torch.ones(3, 2).to_sparse(), DTypeError, r"dense.*sparse_coo.*x\.to_dense"),
        (torch.ones(3, 2).to_sparse_csr(), DTypeError, "sparse_csr"),
        (torch.ones(3, 2).to_sparse_csc(), DTypeError, "sparse_csc"),
        (torch.nested.nested_tensor([torch.ones(3, 2)], layout=torch.jagged), DTypeError, "nested.*cat"),
    ],
)
def test_features_of_another_kind_are_refused(x, error, words):
    with pytest.raises(error, match=words):
        checks.check_features("x", x, 2)


@pytest.mark.parametrize(
    ("batch", "num_graphs", "error", "words"),
    [
        (torch.tensor([0.0, 1.0, 1.0]), None, DTypeError, "float32.*long"),
        (torch.tensor([True, False, True]), None, DTypeError, "bool"),
        (torch.tensor([0, 0]), None, BatchError, r"\[3\].*\[2\]"),
        (torch.tensor([[0, 0, 0]]), None, BatchError, r"\[1, 3\]"),
        (torch.tensor([0, -1, 0]), None, BatchError, "at least 0.*-1"),
        (torch.tensor([0, 2, 1]), 2, BatchError, "num_graphs=2.*id 2.*num_graphs=3"),
        (torch.tensor([0, 0, 0]), -1, OptionError, "num_graphs"),
        (torch.tensor([0, 0, 0]), 1.5, DTypeError, "num_graphs"),
        ([0, 0, 0], None, DTypeError, "list"),
        (torch.tensor([0, 0, 1]).to_sparse(), None, DTypeError, "sparse_coo.*to_dense"),
    ],
)
def test_a_batch_vector_that_does_not_fit_is_refused(batch, num_graphs, error, words):
    with pytest.raises(error, match=words):
        checks.check_batch(batch, 3, num_graphs)


def test_values_are_not_read_where_there_are_none():
    assert not checks.may_read_values(torch.empty(3, device="meta"))
    assert checks.may_read_values(torch.empty(3))


@pytest.mark.parametrize("value", [-0.1, 1.5, 50, "a", True])
def test_a_fraction_outside_its_range_is_refused(value):
    with pytest.raises(OptionError, match="between 0 and 1"):
        checks.check_fraction("dropout", value)


def test_an_unknown_choice_is_answered_with_the_choices():
    with pytest.raises(OptionError, match="'a', 'b'.*'c'"):
        checks.check_choice("letter", "c", ("a", "b"))
