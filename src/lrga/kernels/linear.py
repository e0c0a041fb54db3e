r"""Linear maps of many rows, with the derivatives in the forms that a GPU's library multiplies fastest.

.. math::
    y = x W^\top + b, \qquad
    \bar x = \bar y \, W, \quad \bar W = \bar y^\top x, \quad \bar b = \sum_r \bar y_r

The values are those of :func:`torch.nn.functional.linear`. Three things cost more there than they need to:

- The product ȳ W in TF32: the tensor cores of recent GPUs take both factors contiguous along the index that is summed
  over, and W is not. It is transposed first, which is a matter of a few thousand numbers.
- b̄, a sum over rows: one launch of a kernel of its own.
- Widths whose rows are no multiple of 16 bytes: W, b and x are filled up with zeros, and the result is cut.

Everywhere else (CPU, float64, few rows, inside a compiler, which makes its own plans) this is torch's own function.

Letters: R rows, D columns.
"""

from collections.abc import Sequence
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.autograd import Function

from lrga.kernels.checks import autocast_is_on
from lrga.kernels.support import dot_precision, runs_on_gpu

FEWEST_ROWS = 1024  # below, launches cost more than the products
ALIGNMENT = 16  # bytes
ENABLED = True  # for measurements


def linear(x: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """``x Wᵀ + b``, ``[R, in]`` to ``[R, out]``; the weight is ``[out, in]``, the bias ``[out]`` or ``None``.

    Example:
        >>> import torch
        >>> linear(torch.ones(2, 3), torch.ones(1, 3), torch.ones(1)).tolist()
        [[4.0], [4.0]]
    """
    return linear_chain(x, [(weight, bias)])


def linear_chain(x: Tensor, maps: Sequence[tuple[Tensor, Tensor | None]]) -> Tensor:
    """Linear maps with ReLU between them: weights ``[D_i, D_{i-1}]`` and biases ``[D_i]`` or ``None``.

    Between the maps the rows stay filled up, for ReLU(0) = 0.

    Example:
        >>> import torch
        >>> linear_chain(torch.ones(2, 3), [(-torch.ones(5, 3), None), (torch.ones(1, 5), torch.ones(1))]).tolist()
        [[1.0], [1.0]]
    """
    if not takes(x, *(tensor for pair in maps for tensor in pair)) or not _agree(x, maps):
        for i, (weight, bias) in enumerate(maps):
            x = F.linear(F.relu(x) if i else x, weight, bias)
        return x
    device, dtype = x.device.type, x.dtype
    if autocast_is_on(device):
        dtype = torch.get_autocast_dtype(device)
        x, maps = x.to(dtype), [(weight.to(dtype), _to(bias, dtype)) for weight, bias in maps]
        with torch.autocast(device, enabled=False):
            return _chain(x, maps)
    return _chain(x, maps)


def takes(x: Tensor, *parameters: Tensor | None) -> bool:
    """Whether :func:`linear` has its own way with these: many rows, on a GPU, all of one dtype or under autocast."""
    if not ENABLED or torch.compiler.is_compiling() or x.dim() != 2 or x.size(0) < FEWEST_ROWS:
        return False
    same = all(t is None or t.dtype == x.dtype for t in parameters)
    if not runs_on_gpu(x, *parameters) or not (same or autocast_is_on(x.device.type)):
        return False
    # What differentiates in another way than backward finds its rules at torch's own function.
    return not torch._C._are_functorch_transforms_active() and torch.autograd.forward_ad._current_level < 0


def _chain(x: Tensor, maps: Sequence[tuple[Tensor, Tensor | None]]) -> Tensor:
    h = fit(x, x.size(0), wide(x.size(1), x.dtype))
    for i, (weight, bias) in enumerate(maps):
        rows = wide(weight.size(0), x.dtype)
        filled = None if bias is None else fit(bias.unsqueeze(0), 1, rows).squeeze(0)
        h = Linear.apply(F.relu(h) if i else h, fit(weight, rows, h.size(1)), filled)
    return fit(h, h.size(0), maps[-1][0].size(0))


def wide(width: int, dtype: torch.dtype) -> int:
    """The next width whose rows are a multiple of 16 bytes, where products gain by that.

    Example:
        >>> import torch
        >>> wide(25, torch.bfloat16), wide(100, torch.bfloat16), wide(96, torch.bfloat16)
        (32, 104, 96)
    """
    if dtype == torch.float32 and dot_precision(dtype) != "tf32":
        return width
    step = ALIGNMENT // dtype.itemsize
    return -(-width // step) * step


def across(weight: Tensor) -> Tensor:
    """The weight, its columns contiguous where the product of a matrix with it is faster then: in TF32."""
    if weight.dtype == torch.float32 and dot_precision(weight.dtype) == "tf32" and runs_on_gpu(weight):
        return weight.t().contiguous().t()
    return weight


class Linear(Function):
    """``x Wᵀ + b`` with derivatives that can be differentiated again."""

    @staticmethod
    def forward(x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
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
            None if weight is None else torch.mm(grad, across(weight)),
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


def fit(x: Tensor, rows: int, width: int) -> Tensor:
    """A matrix as ``[rows, width]``: cut, or filled up with zeros below and to the right; itself where it fits.

    Example:
        >>> import torch
        >>> fit(torch.ones(1, 2), 2, 3).tolist()
        [[1.0, 1.0, 0.0], [0.0, 0.0, 0.0]]
    """
    if x.size(1) == width and rows <= x.size(0):
        return x if x.size(0) == rows else x[:rows]
    if not runs_on_gpu(x):
        return F.pad(x, (0, width - x.size(1), 0, rows - x.size(0)))
    return fit_op(x, rows, width)


@torch.library.custom_op("lrga::fit", mutates_args=())
def fit_op(x: Tensor, rows: int, width: int) -> Tensor:
    """``[r, d]`` to ``[rows, width]``."""
    from lrga.kernels.triton_columns import launch_fit

    return launch_fit(x, rows, width)


@fit_op.register_fake
def _(x: Tensor, rows: int, width: int) -> Tensor:
    return x.new_empty(rows, width)


def _remember_shape(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:  # noqa: ARG001
    ctx.shape = inputs[0].shape


def _fit_back(ctx: Any, grad: Tensor) -> tuple[Tensor, None, None]:
    return fit(grad, *ctx.shape), None, None


fit_op.register_autograd(_fit_back, setup_context=_remember_shape)


def _agree(x: Tensor, maps: Sequence[tuple[Tensor, Tensor | None]]) -> bool:
    """Whether each map takes what the one before it gives; where not, torch's own function says so."""
    width = x.size(1)
    for weight, bias in maps:
        if weight.dim() != 2 or weight.size(1) != width or (bias is not None and bias.shape != weight.shape[:1]):
            return False
        width = weight.size(0)
    return True


def _to(bias: Tensor | None, dtype: torch.dtype) -> Tensor | None:
    return None if bias is None else bias.to(dtype)
