"""Linear maps by :mod:`lrga.ops.linear`, and a check whether a module can be replaced by its parameters."""

from collections.abc import Iterable
from typing import Any, TypeGuard, TypeVar

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.nn.modules import module as torch_module
from torch_geometric.nn.dense.linear import Linear as PyGLinear

from lrga.ops.linear import linear, mixed_linear

HOOKS = ("_forward_hooks", "_forward_pre_hooks", "_backward_hooks", "_backward_pre_hooks")
M = TypeVar("M", bound=nn.Module)


def apply_linear(lin: nn.Module, x: Tensor) -> Tensor:
    """``lin(x)``. A module with hooks, or of another class, is called as usual.

    Example:
        >>> import torch
        >>> apply_linear(nn.Linear(2, 4), torch.randn(3, 2)).shape
        torch.Size([3, 4])
    """
    if is_linear(lin):
        return linear(x, lin.weight, lin.bias)
    out: Tensor = lin(x)
    return out


def apply_chain(lins: Iterable[nn.Module], x: Tensor) -> Tensor:
    """Applies the modules in sequence with ReLU between them.

    Example:
        >>> import torch
        >>> apply_chain([nn.Linear(2, 4), nn.Linear(4, 1)], torch.randn(3, 2)).shape
        torch.Size([3, 1])
    """
    for i, lin in enumerate(lins):
        x = apply_linear(lin, F.relu(x) if i else x)
    return x


def mix(parts: list[Tensor], m5: nn.Module) -> Tensor:
    """The paper's m5: ``m5(cat(parts, -1))``; large matrices are not concatenated.

    A module with hooks is called as usual.

    Example:
        >>> import torch
        >>> mix([torch.randn(3, 2), torch.randn(3, 5)], nn.Linear(7, 4)).shape
        torch.Size([3, 4])
    """
    if not is_linear(m5):
        return m5(torch.cat(parts, dim=-1))
    return mixed_linear(parts, m5.weight, m5.bias)


def is_linear(module: nn.Module | None) -> TypeGuard[nn.Linear | PyGLinear]:
    """Whether a call of the module computes only the linear map of its parameters."""
    return is_plain(module, nn.Linear, PyGLinear)


def is_plain(module: Any, *kinds: type[M]) -> TypeGuard[M]:
    """Whether a call of the module does only what its class does, so its parameters may be used without a call.

    Not plain are modules of another class than ``kinds`` (including subclasses, parametrised and quantised modules,
    adapters), modules with hooks (own or global) or a replaced ``forward``, and modules whose weight is uninitialised
    or a tensor subclass.

    Example:
        >>> lin = nn.Linear(2, 4)
        >>> is_plain(lin, nn.Linear), is_plain(lin, nn.Bilinear)
        (True, False)
        >>> handle = lin.register_forward_hook(print)
        >>> is_plain(lin, nn.Linear)
        False
    """
    if type(module) not in kinds or "forward" in vars(module) or module._compiled_call_impl is not None:
        return False
    for name in HOOKS:
        if getattr(module, name) or getattr(torch_module, "_global" + name):
            return False
    return type(getattr(module, "weight", None)) in (nn.Parameter, Tensor, type(None))


def weight_of(module: nn.Module | None) -> Tensor | None:
    """The floating-point tensor that determines dtype and device of the input: the weight, or another parameter
    if there is no weight (adapters, quantised modules); ``None`` if there is neither."""
    if module is None or is_linear(module):
        return None if module is None else module.weight
    candidates = (getattr(module, "weight", None), *module.parameters())
    return next((t for t in candidates if isinstance(t, Tensor) and t.is_floating_point()), None)
