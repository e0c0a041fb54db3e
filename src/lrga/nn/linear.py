"""Linear modules on many rows, by :mod:`lrga.kernels.linear` where nothing but their parameters matters."""

from collections.abc import Iterable
from typing import TypeGuard

from torch import Tensor, nn
from torch.nn import functional as F
from torch_geometric.nn.dense.linear import Linear as PyGLinear

from lrga.kernels.linear import linear
from lrga.nn.norm import is_hooked


def apply_linear(lin: nn.Module, x: Tensor) -> Tensor:
    """``lin(x)``. A module with hooks, or of another kind, is called as any module is.

    Example:
        >>> import torch
        >>> apply_linear(nn.Linear(2, 4), torch.randn(3, 2)).shape
        torch.Size([3, 4])
    """
    if is_plain(lin):
        return linear(x, lin.weight, lin.bias)
    out: Tensor = lin(x)
    return out


def apply_chain(lins: Iterable[nn.Module], x: Tensor) -> Tensor:
    """The modules one after the other with ReLU between them.

    Example:
        >>> import torch
        >>> apply_chain([nn.Linear(2, 4), nn.Linear(4, 1)], torch.randn(3, 2)).shape
        torch.Size([3, 1])
    """
    for i, lin in enumerate(lins):
        x = apply_linear(lin, F.relu(x) if i else x)
    return x


def is_plain(lin: nn.Module) -> TypeGuard[nn.Linear | PyGLinear]:
    """Whether a call of the module is the linear map of its parameters and nothing else."""
    return type(lin) in (nn.Linear, PyGLinear) and "forward" not in vars(lin) and not is_hooked(lin)
