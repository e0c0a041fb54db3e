"""Linear modules by the kernels, or called as they are."""

import pytest
import torch
from torch import nn

from lrga.nn.linear import apply_chain, apply_linear, is_linear, mix


class Doubled(nn.Linear):
    def forward(self, input):
        return 2 * super().forward(input)


def test_a_plain_module_gives_what_its_call_gives():
    lin, x = nn.Linear(3, 2), torch.randn(5, 3)
    assert is_linear(lin)
    assert torch.equal(apply_linear(lin, x), lin(x))
    torch.testing.assert_close(mix([x[:, :1], x[:, 1:]], lin), lin(x))


def test_modules_in_a_row_have_relu_between_them():
    a, b, x = nn.Linear(3, 4), nn.Linear(4, 2), torch.randn(5, 3)
    assert torch.equal(apply_chain([a, b], x), b(a(x).relu()))
    assert torch.equal(apply_chain([a], x), a(x))


def changed_by_hook():
    lin = nn.Linear(3, 3)
    lin.register_forward_hook(lambda module, args, out: out + 1)
    return lin


def changed_by_forward():
    lin = nn.Linear(3, 3)
    lin.forward = lambda x: x * 7
    return lin


@pytest.mark.parametrize(
    "make", [lambda: Doubled(3, 3), changed_by_hook, changed_by_forward,
             lambda: nn.utils.parametrizations.weight_norm(nn.Linear(3, 3)), lambda: nn.Sequential(nn.Linear(3, 3))]
)  # fmt: skip
def test_a_module_that_does_more_is_called_as_it_is(make):
    lin, last, x = make(), nn.Linear(3, 2), torch.randn(5, 3)
    assert torch.equal(apply_linear(lin, x), lin(x))
    assert torch.equal(mix([x[:, :1], x[:, 1:]], lin), lin(x))
    assert torch.equal(apply_chain([lin, last], x), last(lin(x).relu()))
