import pytest
import torch

from lrga.errors import DataError, DTypeError, ShapeError
from lrga.nn.encoders import CategoryEncoder, LinearEncoder


def test_categories_are_embedded_with_or_without_a_second_axis():
    encoder = CategoryEncoder(5, 3)
    x = torch.tensor([0, 4, 2])
    assert torch.equal(encoder(x), encoder.embedding.weight[x])
    assert torch.equal(encoder(x[:, None].to(torch.uint8)), encoder(x))
    assert torch.equal(encoder(encoder.ones(2)), encoder.embedding.weight[[1, 1]])


@pytest.mark.parametrize(
    ("x", "error", "says"),
    [
        (torch.tensor([5]), DataError, "between 0 and 4"),
        (torch.tensor([-1]), DataError, "category -1"),
        (torch.tensor([0.5]), DTypeError, "linear encoder"),
        (torch.zeros(3, 2, dtype=torch.int64), ShapeError, r"\[3, 2\]"),
    ],
)
def test_wrong_categories_are_refused_with_a_remedy(x, error, says):
    with pytest.raises(error, match=says):
        CategoryEncoder(5, 3)(x)


def test_real_features_are_mapped_linearly():
    encoder = LinearEncoder(2, 3)
    x = torch.randn(4, 2)
    torch.testing.assert_close(encoder(x), x @ encoder.lin.weight.t() + encoder.lin.bias)
    one = LinearEncoder(1, 3)
    assert torch.equal(one(x[:, 0]), one(x[:, :1]))
    assert torch.equal(one.ones(2), torch.ones(2, 1))
    assert encoder(x.double()).dtype == torch.float32


@pytest.mark.parametrize(
    ("x", "error", "says"),
    [
        (torch.randn(3, 4), ShapeError, r"\[N, 2\]"),
        (torch.randn(3), ShapeError, "edge_attr"),
        (torch.ones(3, 2, dtype=torch.int64), DTypeError, "embedding"),
    ],
)
def test_wrong_features_are_refused_with_a_remedy(x, error, says):
    with pytest.raises(error, match=says):
        LinearEncoder(2, 3, name="edge_attr")(x)


@pytest.mark.parametrize("encoder", [CategoryEncoder(5, 3), LinearEncoder(2, 3)])
def test_reset_draws_anew(encoder):
    before = next(encoder.parameters()).clone()
    encoder.reset_parameters()
    assert not torch.equal(next(encoder.parameters()), before)
