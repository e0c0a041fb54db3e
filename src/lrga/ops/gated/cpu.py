"""The gates of a GatedGCN layer on a CPU, chunk by chunk (see :mod:`lrga.ops.gated.definition` for the formula).

Every chunk holds whole targets and about ten thousand edges; all chunks use the same memory, which stays in the cache:
allocating each tensor of E × D would take longer than the arithmetic. The backward pass computes the gates again.

Letters: S sources, T targets, E edges, D channels.
"""

from typing import Any

import torch
from torch import Tensor
from torch.autograd import Function

from lrga.ops.neighbors.edges import EdgeLayout

EPS = 1e-6


class GatedMeans(Function):
    """``(C e, b, d, t, layout)`` → the gated means ``[T, D]`` and ê ``[E, D]``, which overwrites C e."""

    @staticmethod
    def forward(ctx: Any, *args: Any) -> tuple[Tensor, Tensor]:
        e, gated, from_source, from_target, layout = args
        total, below = torch.zeros_like(from_target), torch.zeros_like(from_target)
        for edges, source, target, (a, b) in _chunks(layout, e):
            here = e[edges]
            here += torch.index_select(from_source, 0, source, out=a)
            here += torch.index_select(from_target, 0, target, out=a)
            gates = torch.sigmoid(here, out=a)
            below.index_add_(0, target, gates)
            gates *= torch.index_select(gated, 0, source, out=b)
            total.index_add_(0, target, gates)
        below += EPS
        total /= below
        ctx.layout = layout
        ctx.mark_dirty(e)
        ctx.save_for_backward(e, gated, total, below)
        ctx.set_materialize_grads(False)
        return total, e

    @staticmethod
    def backward(ctx: Any, *grads: Tensor | None) -> tuple[Tensor | None, ...]:
        (e, gated, mean, below), layout = ctx.saved_tensors, ctx.layout
        grad_mean = torch.zeros_like(mean) if grads[0] is None else grads[0]
        grad_gated, grad_source, grad_target = (torch.zeros_like(like) for like in (gated, gated, mean))
        if torch.is_grad_enabled():  # the same without chunks, for second derivatives
            source, target, gates = layout.source, layout.target, e.sigmoid()
            below = torch.zeros_like(mean).index_add(0, target, gates) + EPS
            share = (grad_mean / below).index_select(0, target) * gates
            grad = share * (gated.index_select(0, source) - mean.index_select(0, target)) * (1 - gates)
            grad = grad if grads[1] is None else grad + grads[1]
            by_source = (grad_gated.index_add(0, source, share), grad_source.index_add(0, source, grad))
            return grad, *by_source, grad_target.index_add(0, target, grad), None
        grad_total, grad = grad_mean / below, torch.empty_like(e)
        for edges, source, target, (gates, share) in _chunks(layout, e):
            here = torch.index_select(gated, 0, source, out=grad[edges])
            here -= torch.index_select(mean, 0, target, out=share)
            torch.sigmoid(e[edges], out=gates)
            torch.index_select(grad_total, 0, target, out=share).mul_(gates)
            grad_gated.index_add_(0, source, share)
            here *= share
            here *= gates.neg_().add_(1)
            if grads[1] is not None:
                here += grads[1][edges]
            grad_source.index_add_(0, source, here)
            grad_target.index_add_(0, target, here)
        return grad, grad_gated, grad_source, grad_target, None


def _chunks(layout: EdgeLayout, like: Tensor) -> list[tuple[slice, Tensor, Tensor, Tensor]]:
    """For each chunk its edges, their sources and targets, and the shared memory for two results."""
    buffer = like.new_empty(2, max((end - first for _, _, first, end in layout.chunks), default=0), like.size(1))
    return [
        (slice(first, end), layout.source[first:end], layout.target[first:end], buffer[:, : end - first])
        for _, _, first, end in layout.chunks
    ]
