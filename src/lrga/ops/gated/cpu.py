"""The edges of a GatedGCN layer on a CPU, chunk by chunk (see :mod:`lrga.ops.gated.definition` for the formula).

Every chunk holds whole targets and some ten thousand edges; the next one is computed in the same memory, near the core.
Only the gate's argument and the new edge features are written out in full; the backward pass computes the rest again.

Letters: N nodes, E edges, D channels.
"""

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.autograd import Function

from lrga.ops.neighbors.cpu import WORTH_A_THREAD, combine_rows
from lrga.ops.neighbors.edges import EdgeLayout
from lrga.ops.norm.definition import follow

EPS = 1e-6


class Chunk(NamedTuple):
    """Some consecutive edges, all those of their targets."""

    nodes: slice
    edges: slice
    source: Tensor
    target: Tensor
    sums: Tensor  # sparse matrix that adds the edges up into their targets
    row: Tensor  # ones [1, edges]: multiplied with a matrix it sums the rows, faster than torch.sum

    def sum_into_nodes(self, values: Tensor) -> Tensor:
        """Values of the edges ``[edges, D]``, summed at their targets."""
        if values.numel() < WORTH_A_THREAD:
            return combine_rows(values, self.target - self.nodes.start, self.nodes.stop - self.nodes.start)
        return torch.sparse.mm(self.sums, values, "sum")


class GatedEdges(Function):
    """``(edge_attr, weight, bias, gated, from_source, from_target, norm weight, norm bias)`` → ``(mean, new edges)``.

    Further arguments: the layout, the normalisation, whether it trains, the scale, whether there is a residual, whether
    the new edges are needed, and the plain form of the function, which is differentiated where a differentiable
    gradient is asked for.
    """

    @staticmethod
    def forward(ctx: Any, *args: Any) -> tuple[Tensor, Tensor]:
        *inputs, layout, norm, training, scale, residual, need_edges, reference = args
        edge_attr, weight, bias, gated, from_source, from_target, norm_weight, norm_bias = inputs
        num_nodes, channels = from_target.shape
        e = edge_attr.new_empty(layout.num_edges, channels)
        total, gate_sum = gated.new_zeros(num_nodes, channels), gated.new_zeros(num_nodes, channels)
        room = e.new_empty(2, layout.longest_chunk, channels)
        from_source = from_source + bias  # once per node, not per edge
        statistics = _Statistics(channels, e)
        for chunk in _chunks_of(layout, e):
            here, (a, b) = e[chunk.edges], room[:, : chunk.source.size(0)]
            torch.mm(edge_attr[chunk.edges], weight.t(), out=here)
            here += torch.index_select(from_source, 0, chunk.source, out=a)
            here += torch.index_select(from_target, 0, chunk.target, out=a)
            gates = torch.sigmoid(here, out=a)
            gate_sum[chunk.nodes] = chunk.sum_into_nodes(gates)
            gates *= torch.index_select(gated, 0, chunk.source, out=b)
            total[chunk.nodes] = chunk.sum_into_nodes(gates)
            if scale is not None:
                here *= scale[chunk.edges]
            if training:
                statistics.add(here, chunk.row, room=a)
        mean, variance = statistics.finish() if training else (norm.mean, norm.var)
        if training:
            unbiased = variance * (layout.num_edges / max(layout.num_edges - 1, 1))
            follow(norm, mean, unbiased, layout.num_edges)
        rstd = (variance + norm.eps).rsqrt()
        out = torch.empty_like(e) if need_edges else e.new_empty(0, channels)
        if need_edges:
            slope = norm_weight * rstd
            shift = norm_bias - mean * slope
            for _, _, first, end in layout.chunks:
                here = torch.addcmul(shift, e[first:end], slope, out=out[first:end]).relu_()
                if residual:
                    here += edge_attr[first:end]
        gate_sum += EPS
        total /= gate_sum
        ctx.save_for_backward(*inputs, e, total, gate_sum, mean, rstd, scale)
        ctx.layout, ctx.training, ctx.residual, ctx.reference = layout, training, residual, reference
        ctx.set_materialize_grads(False)
        return total, out

    @staticmethod
    def backward(ctx: Any, *grads: Tensor | None) -> tuple[Tensor | None, ...]:
        saved = ctx.saved_tensors  # asked for once: under activation checkpointing a second look is refused
        inputs = saved[:8]
        if torch.is_grad_enabled():
            return *_differentiable(ctx.reference, inputs, grads), *(None,) * 7
        grad_mean, grad_out = grads
        edge_attr, weight, _, gated, _, from_target, norm_weight, norm_bias = inputs
        e, total, gate_sum, mean, rstd, scale = saved[8:]
        layout: EdgeLayout = ctx.layout
        room = e.new_empty(4, layout.longest_chunk, gated.size(1))
        norm = None
        if grad_out is not None:
            norm = _NormBackward(e, grad_out, norm_weight, norm_bias, mean, rstd, training=ctx.training)
            norm.reduce(layout, room)
        if grad_mean is not None:
            grad_total = grad_mean / gate_sum
            grad_gates = -grad_total * total
        grad_gated, grad_source, grad_target = (torch.zeros_like(t) for t in (gated, gated, from_target))
        grad_weight = torch.zeros_like(weight)
        grad_attr = torch.empty_like(edge_attr) if ctx.needs_input_grad[0] else None
        for chunk in _chunks_of(layout, e):
            here, (grad, a, b, c) = e[chunk.edges], room[:, : chunk.source.size(0)]
            if norm is None:
                grad.zero_()
            else:
                norm.apply(chunk.edges, out=grad, room=a)
                if scale is not None:
                    grad *= scale[chunk.edges]
            if grad_mean is not None:
                gates = torch.sigmoid(here if scale is None else torch.div(here, scale[chunk.edges], out=a), out=a)
                at_target = torch.index_select(grad_total, 0, chunk.target, out=b)
                grad_gated.index_add_(0, chunk.source, torch.mul(at_target, gates, out=c))
                at_target *= torch.index_select(gated, 0, chunk.source, out=c)
                at_target += torch.index_select(grad_gates, 0, chunk.target, out=c)
                at_target *= gates
                grad += at_target
                grad.addcmul_(at_target, gates, value=-1)
            grad_source.index_add_(0, chunk.source, grad)
            grad_target[chunk.nodes] = chunk.sum_into_nodes(grad)
            grad_weight.addmm_(grad.t(), edge_attr[chunk.edges])
            if grad_attr is not None and ctx.residual and grad_out is not None:
                torch.addmm(grad_out[chunk.edges], grad, weight, out=grad_attr[chunk.edges])
            elif grad_attr is not None:
                torch.mm(grad, weight, out=grad_attr[chunk.edges])
        grad_norm = (None, None) if norm is None else (norm.grad_weight, norm.grad_bias)
        linear = (grad_attr, grad_weight, grad_source.sum(0))
        return *linear, grad_gated, grad_source, grad_target, *grad_norm, *(None,) * 7


def _chunks_of(layout: EdgeLayout, like: Tensor) -> Iterator[Chunk]:
    ones = like.new_ones(1, layout.longest_chunk)
    for (first_node, end_node, first, end), sums in zip(layout.chunks, layout.chunk_sums, strict=True):
        nodes, edges = slice(first_node, end_node), slice(first, end)
        row = ones[:, : end - first]
        yield Chunk(nodes, edges, layout.source[edges], layout.target[edges], sums.to(like.dtype), row)


class _Statistics:
    """Mean and biased variance of rows seen chunk by chunk, about the first chunk's mean lest digits cancel."""

    def __init__(self, channels: int, like: Tensor) -> None:
        self.origin: Tensor | None = None
        self.sum, self.square_sum = (like.new_zeros(1, channels, dtype=torch.float64) for _ in range(2))
        self.count = 0

    def add(self, rows: Tensor, ones: Tensor, *, room: Tensor) -> None:
        if self.origin is None:
            self.origin = rows.mean(0)
        torch.sub(rows, self.origin, out=room)
        self.sum += ones @ room
        room *= room
        self.square_sum += ones @ room
        self.count += rows.size(0)

    def finish(self) -> tuple[Tensor, Tensor]:
        assert self.origin is not None
        offset = self.sum.squeeze(0) / self.count
        variance = (self.square_sum.squeeze(0) / self.count - offset**2).clamp(min=0)
        return (self.origin + offset).to(self.origin.dtype), variance.to(self.origin.dtype)


class _NormBackward:
    """Gradient of ReLU(normalise(e)) with respect to e, in two walks: its sums over all edges, then each chunk."""

    def __init__(
        self, e: Tensor, grad: Tensor, weight: Tensor, bias: Tensor, mean: Tensor, rstd: Tensor, *, training: bool
    ) -> None:
        self.e, self.grad, self.mean, self.rstd, self.training = e, grad, mean, rstd, training
        self.slope = weight * rstd
        self.shift = bias - mean * self.slope

    def _through_relu(self, edges: slice, out: Tensor) -> Tensor:
        """The incoming gradient where the ReLU was open."""
        torch.addcmul(self.shift, self.e[edges], self.slope, out=out)
        return out.relu_().sign_().mul_(self.grad[edges])

    def reduce(self, layout: EdgeLayout, room: Tensor) -> None:
        grad_bias, grad_weight = torch.zeros_like(self.mean).unsqueeze(0), torch.zeros_like(self.mean).unsqueeze(0)
        for chunk in _chunks_of(layout, self.e):
            a, b = room[:2, : chunk.source.size(0)]
            self._through_relu(chunk.edges, out=a)
            grad_bias.addmm_(chunk.row, a)
            torch.sub(self.e[chunk.edges], self.mean, out=b).mul_(a)
            grad_weight.addmm_(chunk.row, b)
        self.grad_bias, self.grad_weight = grad_bias.squeeze(0), grad_weight.squeeze(0) * self.rstd
        count = layout.num_edges
        self.mean_grad, self.mean_slope = self.grad_bias / count, self.grad_weight * self.rstd / count

    def apply(self, edges: slice, *, out: Tensor, room: Tensor) -> None:
        self._through_relu(edges, out=out)
        if self.training:
            out -= self.mean_grad
            torch.sub(self.e[edges], self.mean, out=room)
            out.addcmul_(room, self.mean_slope, value=-1)
        out *= self.slope


def _differentiable(
    reference: Callable[..., tuple[Tensor, Tensor]], inputs: tuple[Tensor, ...], grads: tuple[Tensor | None, ...]
) -> tuple[Tensor | None, ...]:
    """The gradients by the plain form, so that they can be differentiated in turn."""
    outputs = reference(*inputs)
    pairs = [(out, grad) for out, grad in zip(outputs, grads, strict=True) if grad is not None]
    wanted = [tensor for tensor in inputs if tensor.requires_grad]
    found = iter(
        torch.autograd.grad([o for o, _ in pairs], wanted, [g for _, g in pairs], create_graph=True, allow_unused=True)
    )
    return tuple(next(found) if tensor.requires_grad else None for tensor in inputs)
