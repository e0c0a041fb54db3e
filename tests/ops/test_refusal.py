import pytest
import torch

from lrga.errors import UnsupportedError
from lrga.ops._operator import operator


@operator("lrga_test::thrice")
def thrice(x: torch.Tensor) -> torch.Tensor:
    return 3 * x


thrice.refuse_derivative()


def test_the_values_are_computed_and_the_derivative_is_refused_by_name():
    x = torch.ones(2, requires_grad=True)
    out = thrice(x)
    assert out.tolist() == [3, 3]
    with pytest.raises(UnsupportedError, match="kernel thrice.*float64"):
        out.sum().backward()


def test_nothing_is_refused_where_no_derivative_is_recorded():
    with torch.no_grad():
        assert thrice(torch.ones(1, requires_grad=True)).item() == 3
