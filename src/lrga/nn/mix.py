"""The paper's m5: a linear layer over several matrices side by side."""

import torch
from torch import Tensor, nn

from lrga.kernels.mix import mixed_linear
from lrga.nn.linear import is_linear


def mix(parts: list[Tensor], m5: nn.Module) -> Tensor:
    """``m5(cat(parts, -1))``, of large matrices without the concatenation. A module with hooks is called as it is.

    Example:
        >>> import torch
        >>> mix([torch.randn(3, 2), torch.randn(3, 5)], nn.Linear(7, 4)).shape
        torch.Size([3, 4])
    """
    if not is_linear(m5):
        return m5(torch.cat(parts, dim=-1))
    return mixed_linear(parts, m5.weight, m5.bias)
