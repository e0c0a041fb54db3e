"""Weighted cross entropy and accuracy of many rows as PyTorch operators, by :mod:`lrga.kernels.triton_classes`.

As tensor operations they are some forty small launches a training step; here they are five. Their definition is
:mod:`lrga.tasks.losses` and :mod:`lrga.tasks.metrics`, which ask :func:`takes` first.

Letters: M rows, C classes.
"""

# ruff: noqa: ARG001  (the shapes and derivatives of an operator are told all of its arguments)

from typing import Any

import torch
from torch import Tensor
from torch.library import custom_op

from lrga.kernels.refusal import refuse_derivative
from lrga.kernels.support import runs_on_gpu

LARGEST = 256  # classes that a program holds side by side


def takes(scores: Tensor, labels: Tensor, counted: Tensor) -> bool:
    """Whether the kernels take these: on a GPU, not too many classes, outside a compiler (which fuses by itself).

    Example:
        >>> import torch
        >>> takes(torch.zeros(3, 2), torch.zeros(3, dtype=torch.int64), torch.ones(3, dtype=torch.bool))
        False
    """
    if torch.compiler.is_compiling() or scores.dim() != 2 or not 0 < scores.size(1) <= LARGEST:
        return False
    return runs_on_gpu(scores, labels, counted) and labels.shape == counted.shape == scores.shape[:1]


@custom_op("lrga::class_loss", mutates_args=())
def class_loss(scores: Tensor, labels: Tensor, counted: Tensor) -> tuple[Tensor, Tensor]:
    """:func:`lrga.tasks.losses.weighted_cross_entropy` in float32, and the factor of each class in its gradient."""
    from lrga.kernels.triton_classes import launch_loss

    return launch_loss(scores, labels, counted)


@class_loss.register_fake
def _(scores: Tensor, labels: Tensor, counted: Tensor) -> tuple[Tensor, Tensor]:
    return scores.new_empty((), dtype=torch.float32), scores.new_empty(scores.size(1), dtype=torch.float32)


@custom_op("lrga::class_loss_gradient", mutates_args=())
def class_loss_gradient(scores: Tensor, labels: Tensor, counted: Tensor, factor: Tensor, grad: Tensor) -> Tensor:
    """The gradient of the scores."""
    from lrga.kernels.triton_classes import launch_loss_gradient

    return launch_loss_gradient(scores, labels, counted, factor, grad)


@class_loss_gradient.register_fake
def _(scores: Tensor, labels: Tensor, counted: Tensor, factor: Tensor, grad: Tensor) -> Tensor:
    return scores.new_empty(scores.shape)


def _keep(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, Tensor]) -> None:
    ctx.mark_non_differentiable(output[1])
    ctx.set_materialize_grads(False)
    ctx.save_for_backward(*inputs, output[1])


def _backward(ctx: Any, grad: Tensor, _: Tensor | None) -> tuple[Any, ...]:
    return class_loss_gradient(*ctx.saved_tensors, grad), None, None


class_loss.register_autograd(_backward, setup_context=_keep)
refuse_derivative(class_loss_gradient)


@custom_op("lrga::class_accuracy", mutates_args=())
def class_accuracy(scores: Tensor, labels: Tensor, counted: Tensor) -> Tensor:
    """:func:`lrga.tasks.metrics.weighted_accuracy`, in percent and float64."""
    from lrga.kernels.triton_classes import launch_accuracy

    return launch_accuracy(scores, labels, counted)


@class_accuracy.register_fake
def _(scores: Tensor, labels: Tensor, counted: Tensor) -> Tensor:
    return scores.new_empty((), dtype=torch.float64)
