"""Embeddings of few categories on a GPU, with a gradient that sorts nothing.

Values and gradients are those of :func:`torch.nn.functional.embedding`, which this is everywhere else.

Letters: R rows, C categories, D columns.
"""

# ruff: noqa: ARG001  (the shapes and derivatives of an operator are told all of its arguments)

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.autograd import Function

from lrga.kernels.support import runs_on_gpu

MOST_CATEGORIES = 64  # each is looked for among all rows
FEWEST_ROWS = 1024


def embed(index: Tensor, weight: Tensor) -> Tensor:
    """The row of each category, ``index [R]`` int64 and ``weight [C, D]`` to ``[R, D]``.

    Example:
        >>> import torch
        >>> embed(torch.tensor([1, 0, 1]), torch.tensor([[5.0], [7.0]])).tolist()
        [[7.0], [5.0], [7.0]]
    """
    return Embed.apply(index, weight) if takes(index, weight) else F.embedding(index, weight)


def takes(index: Tensor, weight: Tensor) -> bool:
    """Whether :func:`embed` has its own gradient for these: few categories of many rows, on a GPU."""
    if torch.compiler.is_compiling() or index.dim() != 1 or index.size(0) < FEWEST_ROWS:
        return False
    return weight.size(0) <= MOST_CATEGORIES and index.dtype == torch.int64 and runs_on_gpu(index, weight)


class Embed(Function):
    """Rows of the weight, with a derivative that can be differentiated again."""

    @staticmethod
    def forward(index: Tensor, weight: Tensor) -> Tensor:
        return F.embedding(index, weight)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:  # noqa: ARG004
        index, weight = inputs
        ctx.save_for_backward(index)
        ctx.categories = weight.size(0)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[None, Tensor]:
        (index,) = ctx.saved_tensors
        return None, category_sums(grads[0], index, ctx.categories)


@torch.library.custom_op("lrga::category_sums", mutates_args=())
def category_sums(x: Tensor, index: Tensor, categories: int) -> Tensor:
    """Rows of ``x [R, D]`` summed by category, ``[C, D]``."""
    from lrga.kernels.triton_embedding import launch_category_sums

    return launch_category_sums(x, index, categories)


@category_sums.register_fake
def _(x: Tensor, index: Tensor, categories: int) -> Tensor:
    return x.new_empty(categories, x.size(1))


def _keep(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
    ctx.save_for_backward(inputs[1])


def _spread(ctx: Any, grad: Tensor) -> tuple[Tensor, None, None]:
    return grad.index_select(0, ctx.saved_tensors[0]), None, None


category_sums.register_autograd(_spread, setup_context=_keep)
