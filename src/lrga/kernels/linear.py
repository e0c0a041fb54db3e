r"""Linear maps of many rows, with the gradient of the bias in a kernel of its own.

.. math::
    y = x W^\top + b, \qquad
    \bar x = \bar y \, W, \quad \bar W = \bar y^\top x, \quad \bar b = \sum_r \bar y_r

The values are those of :func:`torch.nn.functional.linear`. b̄ costs as much there as a product: a step of a network has
some thirty such sums over a few thousand rows. Forward, a single column is not taken for a product. (Filling up rows
to 16 bytes, and turning W round so that tensor cores find both factors contiguous along the summed index, were measured
too: at these sizes the copies cost what they gain.)

Everywhere else (CPU, float64, few rows, inside a compiler, which makes its own plans) this is torch's own function.

Letters: R rows, D columns.
"""

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.autograd import Function

from lrga.kernels.checks import autocast_is_on
from lrga.kernels.support import runs_on_gpu

FEWEST_ROWS = 1024  # below, launches cost more than the products


def linear(x: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """``x Wᵀ + b``, ``[R, in]`` to ``[R, out]``; the weight is ``[out, in]``, the bias ``[out]`` or ``None``.

    Example:
        >>> import torch
        >>> linear(torch.ones(2, 3), torch.ones(1, 3), torch.ones(1)).tolist()
        [[4.0], [4.0]]
    """
    if not takes(x, weight, bias):
        return F.linear(x, weight, bias)
    device = x.device.type
    if not autocast_is_on(device):
        return Linear.apply(x, weight, bias)
    dtype = torch.get_autocast_dtype(device)
    with torch.autocast(device, enabled=False):
        return Linear.apply(x.to(dtype), weight.to(dtype), None if bias is None else bias.to(dtype))


def takes(x: Tensor, *parameters: Tensor | None) -> bool:
    """Whether :func:`linear` has its own way with these: many rows, on a GPU, all of one dtype or under autocast."""
    if torch.compiler.is_compiling() or x.dim() != 2 or x.size(0) < FEWEST_ROWS:
        return False
    same = all(t is None or t.dtype == x.dtype for t in parameters)
    return runs_on_gpu(x, *parameters) and (same or autocast_is_on(x.device.type))


class Linear(Function):
    """``x Wᵀ + b`` with derivatives that can be differentiated again."""

    @staticmethod
    def forward(x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
        if x.size(1) == weight.size(1) == 1:  # no product at all, which the library takes it for
            row = weight.view(1, -1)
            return x * row if bias is None else torch.addcmul(bias, x, row)
        return F.linear(x, weight, bias)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:  # noqa: ARG004
        x, weight, _ = inputs
        need_x, need_weight, _ = ctx.needs_input_grad
        ctx.save_for_backward(x if need_weight else None, weight if need_x else None)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, Tensor | None, Tensor | None]:
        (grad,) = grads
        x, weight = ctx.saved_tensors
        return (
            None if weight is None else torch.mm(grad, weight),
            None if x is None else torch.mm(grad.t(), x),
            column_sum(grad) if ctx.needs_input_grad[2] else None,
        )


def column_sum(x: Tensor) -> Tensor:
    """The sum over the rows, ``[R, D]`` to ``[D]`` or, of several matrices, ``[B, R, D]`` to ``[B, D]``.

    Summed in float32 whatever the dtype is, and always in the same order.

    Example:
        >>> import torch
        >>> column_sum(torch.ones(5, 2)).tolist()
        [5.0, 5.0]
    """
    if not runs_on_gpu(x):
        return x.sum(-2)
    return column_sum_op(x) if x.dim() == 3 else column_sum_op(x.unsqueeze(0)).squeeze(0)


@torch.library.custom_op("lrga::column_sum", mutates_args=())
def column_sum_op(x: Tensor) -> Tensor:
    """``[B, R, D]`` to ``[B, D]``."""
    from lrga.kernels.triton_columns import launch_column_sum

    return launch_column_sum(x)


@column_sum_op.register_fake
def _(x: Tensor) -> Tensor:
    return x.new_empty(x.size(0), x.size(2))


def _remember_rows(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:  # noqa: ARG001
    ctx.rows = inputs[0].size(1)


def _spread(ctx: Any, grad: Tensor) -> Tensor:
    return grad.unsqueeze(1).expand(-1, ctx.rows, -1)


column_sum_op.register_autograd(_spread, setup_context=_remember_rows)
