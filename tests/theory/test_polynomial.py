"""Feature maps of polynomial kernels."""

import math

import pytest
import torch

from lrga.errors import OptionError, ShapeError
from lrga.theory import PolynomialFeatures, ProductFeatures, feature_size
from lrga.theory.monomials import multi_indices


@pytest.mark.parametrize("degree", range(6))
@pytest.mark.parametrize("width", [1, 2, 5])
def test_products_of_features_are_powers_of_products(degree, width):
    x, y = torch.randn(2, 7, width, dtype=torch.float64)
    phi = PolynomialFeatures(degree, width)
    assert torch.allclose(phi(x) @ phi(y).T, (x @ y.T) ** degree, rtol=1e-12, atol=1e-10)
    assert phi(x).shape == (7, math.comb(degree + width - 1, width - 1))


def test_every_coordinate_is_a_weighted_monomial():
    x = torch.tensor([[2.0, 3.0]], dtype=torch.float64)
    assert PolynomialFeatures(2, 2)(x)[0].tolist() == pytest.approx([4, math.sqrt(2) * 6, 9])


@pytest.mark.parametrize("degrees", multi_indices(3, 3))
def test_several_blocks_give_the_product_kernel(degrees):
    blocks, widths = (slice(0, 2), slice(2, 5), slice(5, 6)), (2, 3, 1)
    x, y = torch.randn(2, 4, 6, dtype=torch.float64)
    phi = ProductFeatures(degrees, blocks)
    kernel = torch.stack([(x[:, b] @ y[:, b].T) ** e for b, e in zip(blocks, degrees, strict=True)]).prod(dim=0)
    assert torch.allclose(phi(x) @ phi(y).T, kernel, rtol=1e-12, atol=1e-10)
    assert phi(x).size(1) == phi.out_channels == feature_size(degrees, widths)


@pytest.mark.parametrize("degrees", multi_indices(2, 4))
def test_sizes_are_within_the_papers_bound(degrees):
    """Π C(β_l + D_l − 1, D_l − 1) ≤ C(n + D, D) with D = Σ 2 D_l and n ≥ |β|."""
    widths = (3, 2)
    assert feature_size(degrees, widths) <= math.comb(4 + 2 * sum(widths), 2 * sum(widths))


def test_blocks_used_by_several_channels_can_pass_the_bound_of_the_plain_width():
    """Where channels share blocks, X is narrower than Σ 2 D_l, and C(n + D, D) of its width is no bound."""
    shared = [slice(0, 2)] * 4
    assert ProductFeatures((1, 1, 1, 1), shared).out_channels == 16 > math.comb(4 + 2, 2)


def test_degree_zero_is_the_constant_one():
    assert torch.equal(PolynomialFeatures(0, 3)(torch.randn(4, 3)), torch.ones(4, 1))
    assert torch.equal(ProductFeatures((0, 0), (slice(0, 1), slice(1, 3)))(torch.randn(4, 3)), torch.ones(4, 1))


def test_a_block_without_columns_has_only_the_constant():
    assert feature_size([0], [0]) == 1
    assert feature_size([2], [0]) == 0
    assert PolynomialFeatures(2, 0)(torch.randn(3, 0)).shape == (3, 0)


def test_gradients_pass_through():
    x = torch.randn(3, 4, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(PolynomialFeatures(3, 4), (x,))


def test_there_is_nothing_to_learn_or_save():
    phi = ProductFeatures((1, 2), (slice(0, 2), slice(2, 4)))
    assert not list(phi.parameters())
    assert not phi.state_dict()


def test_impossible_arguments_are_refused():
    with pytest.raises(OptionError, match="degrees"):
        PolynomialFeatures(-1, 2)
    with pytest.raises(OptionError, match="coordinates"):
        PolynomialFeatures(8, 60)
    with pytest.raises(ShapeError, match=r"\[N, 3\]"):
        PolynomialFeatures(2, 3)(torch.randn(4, 2))
    with pytest.raises(ShapeError, match="2 degrees"):
        ProductFeatures((1,), (slice(0, 1), slice(1, 2)))
