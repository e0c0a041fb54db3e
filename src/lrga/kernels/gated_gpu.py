"""The edges of a GatedGCN layer on a GPU (see :mod:`lrga.kernels.gated` for the formula), as PyTorch operators.

The product C e is the vendor library's; everything else of the forward pass is one walk through the edges by target,
which also takes the statistics of the normalisation, and one that writes the new edge features. Of E × D numbers only
the gate's argument ê and the given edge features are kept for the backward pass, which computes the rest again.

Letters: N nodes, E edges, D channels, P programs that share the nodes (or edges) in consecutive runs.
"""

from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from lrga.kernels.refusal import refuse_derivative

NARROWEST = 16  # channels of a program


@dataclass(frozen=True)
class Tiling:
    """How the kernels divide the work."""

    numbers: int = 256  # of a tile: 96 to 128 registers of a thread, so that some twenty warps share a processor
    warps: int = 1  # of a program
    programs: int = 2048  # that share the nodes
    flat: int = 1024  # numbers of a program of the edge output
    channels: int = 0  # of a program; 0: as their number suggests


tiling = Tiling()  # of all calls; benchmarks/gated.py tries others


def channel_block(channels: int) -> int:
    """Channels of a program, a power of two: many at once, unless too many of them were past the end.

    Example:
        >>> [channel_block(d) for d in (1, 45, 50, 64, 80, 100)]
        [16, 16, 64, 64, 16, 16]
    """
    if tiling.channels:
        return tiling.channels
    widths = {block: -(-channels // block) * block for block in (128, 64, 32, 16)}
    return next(block for block, width in widths.items() if width <= 1.1 * min(widths.values()))


@torch.library.custom_op("lrga::gated_forward", mutates_args=())
def gated_forward(
    edge_attr: Tensor,
    weight: Tensor,
    bias: Tensor,
    gated: Tensor,
    from_source: Tensor,
    from_target: Tensor,
    norm_weight: Tensor | None,
    norm_bias: Tensor | None,
    running_mean: Tensor | None,
    running_var: Tensor | None,
    momentum: Tensor | None,
    scale: Tensor | None,
    source: Tensor,
    target: Tensor,
    in_ptr: Tensor,
    out_order: Tensor,
    out_ptr: Tensor,
    momentum_value: float,
    eps: float,
    training: bool,
    residual: bool,
    need_edges: bool,
) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor, Tensor]:
    """Means [N, D], new edges [E, D] (or [0, D]), ê [E, D], denominators [N, D], and of the normalisation the
    statistics [3, D] and new running statistics [2, D]."""
    from lrga.kernels import triton_gated

    del target, out_order, out_ptr  # of the backward pass
    with torch.autocast(edge_attr.device.type, enabled=False):
        product = F.linear(edge_attr.to(weight.dtype), weight, bias)
    gated, from_source, from_target = gated.contiguous(), from_source.contiguous(), from_target.contiguous()
    results = _forward_results(
        edge_attr, product, gated, from_source, from_target, norm_weight, scale, residual, need_edges
    )
    mean, out, e_hat, denominator, statistics, new_running = results
    (num_nodes, channels), num_edges = gated.shape, edge_attr.size(0)
    if num_nodes == 0:
        return results
    block = channel_block(channels)
    chunks, programs = -(-channels // block), min(num_nodes, tiling.programs)
    follows = norm_weight is not None and training
    counts, partials = (denominator.new_empty(shape) for shape in (programs, (2, programs, channels)))
    scaled = scale is not None
    _launch(
        triton_gated.forward_by_target, (chunks, programs),
        product, gated, from_source, from_target, _or(scale, product), source, in_ptr, e_hat, mean, denominator,
        counts, partials, num_nodes, -(-num_nodes // programs), D=channels, STATISTICS=follows, SCALED=scaled,
        BLOCK_E=tiling.numbers // block, BLOCK_D=block, num_warps=tiling.warps,
    )  # fmt: skip
    if norm_weight is not None and (follows or need_edges):
        assert running_mean is not None
        assert running_var is not None
        _launch(
            triton_gated.finish_statistics, (-(-channels // NARROWEST),),
            counts, partials, running_mean, running_var, _or(momentum, counts), statistics, new_running, programs,
            momentum_value, eps, D=channels, TRAINING=training, HAS_MOMENTUM=momentum is not None, BLOCK_P=256,
            BLOCK_D=NARROWEST, num_warps=8,
        )  # fmt: skip
    if need_edges and num_edges:
        _launch(
            triton_gated.edge_output, (-(-e_hat.numel() // tiling.flat),),
            e_hat, edge_attr.contiguous(), _or(scale, product), statistics, _or(norm_weight, statistics),
            _or(norm_bias, statistics), in_ptr, out, num_nodes, out.numel(), D=channels, NORM=norm_weight is not None,
            SCALED=scaled, RESIDUAL=residual, BLOCK=tiling.flat, num_warps=4,
        )  # fmt: skip
    return results


def _forward_results(
    edge_attr: Tensor,
    product: Tensor,
    gated: Tensor,
    from_source: Tensor,
    from_target: Tensor,
    norm_weight: Tensor | None,
    scale: Tensor | None,
    residual: bool,
    need_edges: bool,
) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor, Tensor]:
    """Memory for the results, with the types that PyTorch's own operations would give them."""
    num_nodes, channels = gated.shape
    kind = torch.promote_types(torch.promote_types(product.dtype, from_source.dtype), from_target.dtype)
    new_kind = torch.promote_types(kind, edge_attr.dtype) if residual else kind
    if scale is not None:
        new_kind = torch.promote_types(new_kind, scale.dtype)
    e_hat = product if kind == product.dtype else torch.empty_like(product, dtype=kind)
    norm_channels = 0 if norm_weight is None else channels
    return (
        gated.new_empty(num_nodes, channels, dtype=torch.promote_types(kind, gated.dtype)),
        edge_attr.new_empty(edge_attr.size(0) if need_edges else 0, channels, dtype=new_kind),
        e_hat,
        gated.new_empty(num_nodes, channels, dtype=torch.float32),
        gated.new_empty(3, norm_channels, dtype=torch.float32),
        gated.new_empty(2, norm_channels, dtype=torch.float32),
    )


@gated_forward.register_fake
def _(edge_attr: Tensor, weight: Tensor, *rest: Any) -> tuple[Tensor, ...]:
    _, gated, from_source, from_target, norm_weight = rest[:5]
    product = edge_attr.new_empty(edge_attr.size(0), weight.size(0), dtype=weight.dtype)
    return _forward_results(edge_attr, product, gated, from_source, from_target, norm_weight, rest[9], *rest[-2:])


def _keep(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, ...]) -> None:
    mean, _, e_hat, denominator, statistics, new_running = output
    edge_attr, weight, _, gated, from_source, from_target, norm_weight, norm_bias = inputs[:8]
    graph = inputs[11:17]  # scale, source, target, in_ptr, out_order, out_ptr
    ctx.save_for_backward(
        edge_attr, weight, gated, from_source, from_target, norm_weight, norm_bias, *graph, e_hat, mean, denominator,
        statistics,
    )  # fmt: skip
    ctx.residual, ctx.need_edges = inputs[-2:]
    ctx.mark_non_differentiable(e_hat, denominator, statistics, new_running)
    ctx.set_materialize_grads(False)  # zeros for ê would cost as much as the edges themselves


def _differentiate(ctx: Any, *grads: Tensor | None) -> tuple[Tensor | None, ...]:
    grad_mean, grad_out = grads[:2]
    needed = ctx.needs_input_grad[:8]
    if grad_mean is None and grad_out is None:
        return (None,) * 22
    found = gated_backward(grad_mean, grad_out if ctx.need_edges else None, *ctx.saved_tensors, ctx.residual, needed[0])
    return *(grad if wanted else None for grad, wanted in zip(found, needed, strict=True)), *(None,) * 14


gated_forward.register_autograd(_differentiate, setup_context=_keep)


@torch.library.custom_op("lrga::gated_backward", mutates_args=())
def gated_backward(
    grad_mean: Tensor | None,
    grad_out: Tensor | None,
    edge_attr: Tensor,
    weight: Tensor,
    gated: Tensor,
    from_source: Tensor,
    from_target: Tensor,
    norm_weight: Tensor | None,
    norm_bias: Tensor | None,
    scale: Tensor | None,
    source: Tensor,
    target: Tensor,
    in_ptr: Tensor,
    out_order: Tensor,
    out_ptr: Tensor,
    e_hat: Tensor,
    mean: Tensor,
    denominator: Tensor,
    statistics: Tensor,
    residual: bool,
    need_attr: bool,
) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor, Tensor, Tensor, Tensor]:
    """Gradients of the eight tensors that the layer learns from; those of the normalisation are [0] without it."""
    from lrga.kernels import triton_gated

    (num_nodes, channels), num_edges = gated.shape, edge_attr.size(0)
    results = _backward_results(
        edge_attr, weight, gated, from_source, from_target, norm_weight, norm_bias, need_attr=need_attr
    )
    grad_attr, grad_weight, grad_bias, grad_gated, grad_source, grad_target, grad_norm_weight, grad_norm_bias = results
    if num_nodes == 0:
        for result in results:
            result.zero_()
        return results
    block = channel_block(channels)
    chunks, programs = -(-channels // block), min(num_nodes, tiling.programs)
    tile, nodes_each = tiling.numbers // block, -(-num_nodes // programs)
    blocks = {"BLOCK_E": tile, "BLOCK_D": block, "num_warps": tiling.warps}
    scaled, normed, has_edges = scale is not None, norm_weight is not None, grad_out is not None
    grad_mean = torch.zeros_like(mean) if grad_mean is None else grad_mean.contiguous()
    grad_e_hat, grad_total = torch.empty_like(e_hat), torch.empty_like(denominator)
    sums = statistics
    if grad_out is not None:
        grad_out = grad_out.contiguous()
        if normed:
            edges_each = -(-num_edges // tiling.programs // tile) * tile
            rows = max(-(-num_edges // max(edges_each, 1)), 1)
            sums = denominator.new_empty(rows, 2, channels)
            _launch(
                triton_gated.norm_backward_sums, (chunks, rows),
                grad_out, e_hat, _or(scale, e_hat), statistics, norm_weight, norm_bias, in_ptr, sums, num_nodes,
                edges_each, D=channels, SCALED=scaled, **blocks,
            )  # fmt: skip
            sums = sums.sum(0)
            grad_norm_bias.copy_(sums[0])
            grad_norm_weight.copy_(sums[1])
    elif normed:
        grad_norm_bias.zero_()
        grad_norm_weight.zero_()
    through = residual and has_edges and need_attr
    _launch(
        triton_gated.backward_by_target, (chunks, programs),
        grad_mean, _or(grad_out, e_hat), e_hat, gated.contiguous(), mean, denominator, _or(scale, e_hat), statistics,
        sums, _or(norm_weight, statistics), _or(norm_bias, statistics), source, in_ptr, grad_e_hat, grad_total,
        grad_target, grad_attr, num_nodes, num_edges, nodes_each, D=channels, EDGES=has_edges, NORM=normed,
        SCALED=scaled, RESIDUAL=through, **blocks,
    )  # fmt: skip
    _launch(
        triton_gated.backward_by_source, (chunks, programs),
        grad_e_hat, e_hat, grad_total, target, out_order, out_ptr, grad_gated, grad_source, num_nodes, nodes_each,
        D=channels, **blocks,
    )  # fmt: skip
    with torch.autocast(e_hat.device.type, enabled=False):
        grad = grad_e_hat.to(weight.dtype)
        torch.mm(grad.t(), edge_attr.to(weight.dtype), out=grad_weight)
        grad_bias.copy_(grad_source.sum(0, dtype=torch.float32))
        if through and grad_attr.dtype == weight.dtype:
            grad_attr.addmm_(grad, weight)  # to the residual's share, which lies there already
        elif through:
            grad_attr.add_(grad @ weight)
        elif need_attr and grad_attr.dtype == weight.dtype:
            torch.mm(grad, weight, out=grad_attr)
        elif need_attr:
            grad_attr.copy_(grad @ weight)
    return results


def _backward_results(
    edge_attr: Tensor,
    weight: Tensor,
    gated: Tensor,
    from_source: Tensor,
    from_target: Tensor,
    norm_weight: Tensor | None,
    norm_bias: Tensor | None,
    *,
    need_attr: bool,
) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor, Tensor, Tensor, Tensor]:
    return (
        edge_attr.new_empty(edge_attr.shape if need_attr else (0,)),
        weight.new_empty(weight.shape),
        weight.new_empty(weight.size(0)),
        gated.new_empty(gated.shape),
        from_source.new_empty(from_source.shape),
        from_target.new_empty(from_target.shape),
        weight.new_empty(0) if norm_weight is None else norm_weight.new_empty(norm_weight.shape),
        weight.new_empty(0) if norm_bias is None else norm_bias.new_empty(norm_bias.shape),
    )


@gated_backward.register_fake
def _(*args: Any) -> tuple[Tensor, ...]:
    return _backward_results(*args[2:9], need_attr=args[-1])


refuse_derivative(gated_backward)


def _launch(kernel: Any, grid: tuple[int, ...], first: Tensor, *rest: Any, **options: Any) -> None:
    """Triton runs a kernel on the current device, which need not be that of the tensors."""
    with torch.cuda.device_of(first):
        kernel[grid](first, *rest, **options)


def _or(tensor: Tensor | None, other: Tensor) -> Tensor:
    """The tensor, or any other where a kernel is not going to read it."""
    return other if tensor is None else tensor.contiguous()
