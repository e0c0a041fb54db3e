"""m5 over several matrices."""

import torch
from torch import nn

from lrga.nn.linear import mix


def test_the_result_is_that_of_the_concatenation():
    parts, m5 = [torch.randn(3, 2), torch.randn(3, 5)], nn.Linear(7, 4)
    torch.testing.assert_close(mix(parts, m5), m5(torch.cat(parts, dim=-1)))


def test_hooks_see_the_call():
    seen = []
    m5 = nn.Linear(7, 4)
    m5.register_forward_hook(lambda module, inputs, output: seen.append(inputs[0].shape))
    mix([torch.randn(3, 2), torch.randn(3, 5)], m5)
    assert seen == [(3, 7)]


def test_another_linear_layer_is_called_as_it_is():
    class Doubled(nn.Linear):
        def forward(self, x):
            return 2 * super().forward(x)

    parts, m5 = [torch.randn(3, 2)], Doubled(2, 4)
    torch.testing.assert_close(mix(parts, m5), 2 * nn.functional.linear(parts[0], m5.weight, m5.bias))
