"""Activation checkpointing: layers store only their input and are recomputed in the backward pass."""

import functools
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any

import torch
from torch import nn
from torch.nn.modules.batchnorm import _BatchNorm
from torch.utils.checkpoint import checkpoint

from lrga.errors import OptionError
from lrga.nn.layers.base import BenchmarkLayer
from lrga.nn.layers.lrga import LRGALayer
from lrga.nn.layers.residual import ResidualLayer
from lrga.nn.lrga_conv import LRGAConv

LAYERS = (LRGALayer, ResidualLayer, BenchmarkLayer, LRGAConv)


class Stack(nn.Module):
    """A network whose layers are not modules; it calls :meth:`recomputed` for each layer."""

    recompute = False

    def recomputed(self, layer: Callable[..., Any], *args: Any, norms: nn.Module) -> Any:
        """``layer(*args)``; recomputed in the backward pass if :func:`recompute_layers` was called on this network.

        Args:
            layer: One layer as a function.
            *args: Its arguments.
            norms: A module that contains all modules of the layer with running statistics.
        """
        return recomputed(layer, *args, norms=norms) if self.recompute else layer(*args)


def recomputed(function: Callable[..., Any], *args: Any, norms: nn.Module, **kwargs: Any) -> Any:
    """``function(*args, **kwargs)``; only the arguments are stored, and the backward pass recomputes the rest.

    Args:
        function: A function; random numbers must come from PyTorch's own generators.
        *args: Its arguments.
        norms: A module that contains all modules of the function with running statistics, which are updated once.
        **kwargs: Its keyword arguments.

    Example:
        >>> x = torch.ones(2, requires_grad=True)
        >>> recomputed(torch.exp, x, norms=nn.Identity()).sum().backward()
        >>> x.grad
        tensor([2.7183, 2.7183])
    """
    if not torch.is_grad_enabled():
        return function(*args, **kwargs)
    # Non-reentrant: supports keyword arguments, inputs without gradient, and parameters used twice.
    return checkpoint(function, *args, use_reentrant=False, context_fn=functools.partial(_contexts, norms), **kwargs)


def recompute_layers(model: nn.Module) -> nn.Module:
    """Turns on activation checkpointing: the backward pass recomputes every layer instead of storing its activations.

    A layer then stores one feature matrix; a step takes about a third more time. Values, gradients, dropout, the
    running statistics of BatchNorm and the state dict do not change. The model is changed in place and returned.

    Args:
        model: Any model with layers of the benchmark (:class:`lrga.GNN`) or :class:`lrga.LRGAConv` in it, or a network
            for link prediction.

    Example:
        >>> import lrga
        >>> model = recompute_layers(lrga.GNN(3, 8, 2, 4, conv="gcn", rank=2))
        >>> model(torch.randn(4, 3), torch.tensor([[0, 1], [1, 2]])).shape
        torch.Size([4, 2])
    """
    found = list(_outermost(model))
    if not found:
        names = ", ".join(kind.__name__ for kind in LAYERS)
        raise OptionError(f"a model with layers to recompute ({names})", type(model).__name__, "use lrga.GNN")
    for layer in found:
        if isinstance(layer, Stack):
            layer.recompute = True
        elif "forward" not in vars(layer):
            layer.forward = functools.partial(_layer_recomputed, layer)
    return model


def _outermost(module: nn.Module) -> Iterator[nn.Module]:
    if isinstance(module, (*LAYERS, Stack)):
        yield module
        return
    for child in module.children():
        yield from _outermost(child)


def _layer_recomputed(layer: nn.Module, *args: Any, **kwargs: Any) -> Any:
    return recomputed(functools.partial(type(layer).forward, layer), *args, norms=layer, **kwargs)


def _contexts(layer: nn.Module) -> tuple[AbstractContextManager[Any], AbstractContextManager[Any]]:
    return nullcontext(), _statistics_kept(layer)


@contextmanager
def _statistics_kept(layer: nn.Module) -> Iterator[None]:
    """Running statistics are not updated during recomputation: they have already seen this batch."""
    norms = [module for module in layer.modules() if isinstance(module, _BatchNorm)]
    kept = [(norm, norm.momentum, norm.num_batches_tracked) for norm in norms]
    counts = [None if tracked is None else tracked.clone() for _, _, tracked in kept]
    for norm in norms:
        norm.momentum = 0.0
    try:
        yield
    finally:
        for (norm, momentum, tracked), count in zip(kept, counts, strict=True):
            norm.momentum = momentum
            if tracked is not None and count is not None:
                tracked.copy_(count)
