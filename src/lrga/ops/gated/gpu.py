"""The edges of a GatedGCN layer on a GPU (see :mod:`lrga.ops.gated.definition` for the formula), as PyTorch operators.

The forward pass has three steps. A product gives the gate's argument ê; with wide weights the library computes it, and
the next step adds the node rows. One pass over the edges by target computes the means and the statistics of the norm.
The last pass writes the new edge features. Of the E × D tensors only ê and the input edge features are stored; the
backward pass computes the others again.

Products of all edges with a weight use our kernel or the vendor's library. Ours is fused with the operations before
and after the product and keeps the whole weight on the chip: it supports narrow weights only, and float32 only in TF32,
because of registers. The weight gradient is always computed by the library.

Letters: N nodes, E edges, D channels, I channels in, O channels out, P programs that share the nodes (or edges) in
consecutive runs.
"""

from collections.abc import Sequence
from itertools import islice
from typing import Any, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor

from lrga.ops._operator import operator
from lrga.ops._triton import compute_type, dense, dot_precision, interpreted, launch, shared_memory
from lrga.ops.linear import launch_column_sum
from lrga.ops.streams import current_streams, in_parallel, parallel_streams

MIN_CHANNELS = 16  # minimum channels of a program
MAX_PRODUCT_WIDTH = 96  # padded channels
MIN_SHARED_MEMORY = 150_000  # bytes of shared memory for a program's product_tiles with the widest weight


class Tiling(NamedTuple):
    """How the kernels split the work."""

    numbers: int = 256  # per tile: 96 to 128 registers per thread, so about twenty warps run on a multiprocessor
    warps: int = 1  # per program
    programs: int = 2048  # programs that share the nodes
    flat: int = 1024  # numbers per program of the edge output
    sum_numbers: int = 1024  # per tile of the normalisation's sums
    sum_warps: int = 4
    sum_programs: int = 192  # all run on the GPU at the same time


tiling = Tiling()  # used by all calls


class ProductTiles(NamedTuple):
    """How the product kernel splits the edges."""

    rows: int = 64  # edges per tile
    warps: int = 4
    programs: int = 264  # programs that share the tiles, two per multiprocessor of the largest GPUs
    stages: int = 2  # tiles in flight


product_tiles = ProductTiles()  # used by all calls


def channel_block(channels: int) -> int:
    """Channels of a program, a power of two: as many as possible, unless too many would be padding.

    Example:
        >>> [channel_block(d) for d in (1, 45, 50, 64, 80, 100)]
        [16, 16, 64, 64, 16, 16]
    """
    widths = {block: -(-channels // block) * block for block in (128, 64, 32, 16)}
    return next(block for block, width in widths.items() if width <= 1.1 * min(widths.values()))


@operator(
    "lrga::gated_forward",
    lambda *args: _forward_results((*args[:2], *args[3:6]), args[6], args[10], residual=args[-2], need_edges=args[-1]),
)
def gated_forward(
    edge_attr: Tensor,
    weight: Tensor,
    bias: Tensor,
    gated: Tensor,
    from_source: Tensor,
    from_target: Tensor,
    norm_weight: Tensor | None,
    norm_bias: Tensor | None,
    running: list[Tensor],
    rate: Tensor | None,
    scale: Tensor | None,
    graph: list[Tensor],
    known_rate: float,
    eps: float,
    training: bool,
    residual: bool,
    need_edges: bool,
) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor, Tensor]:
    """Returns means [T, D], new edges [E, D] (or [0, D]), ê [E, D], denominators [T, D], and of the normalisation the
    statistics [3, D] and new running statistics [2, D].

    ``running`` are mean and variance, if there is a normalisation; ``graph`` is the result of
    :func:`lrga.ops.neighbors.gpu.graph_of`. The share of a batch in the running statistics is a tensor or a number.
    """
    from lrga.ops.gated import kernels

    source, target, in_ptr, *_ = graph
    gated, from_source, from_target = _rows(gated), _rows(from_source), _rows(from_target)
    learned = (edge_attr, weight, gated, from_source, from_target)
    results = _forward_results(learned, norm_weight, scale, residual=residual, need_edges=need_edges)
    mean, out, e_hat, denominator, statistics, new_running = results
    (num_nodes, channels), num_edges = from_target.shape, edge_attr.size(0)
    if num_nodes == 0:
        return results
    product, join = e_hat, not product_is_supported(weight)
    if join:
        product = vendor_product(edge_attr, weight, bias, out=e_hat)
    else:
        ends = (bias.contiguous(), from_source, from_target, source, target)
        map_edges(edge_attr, weight, in_ptr, ends=ends, out=e_hat)
    block = channel_block(channels)
    chunks, programs = -(-channels // block), min(num_nodes, tiling.programs)
    follows = norm_weight is not None and training
    counts, partials = (denominator.new_empty(shape) for shape in (programs, (2, programs, channels)))
    launch(
        kernels.forward_by_target, (chunks, programs),
        product, gated, from_source, from_target, dense(scale), source, in_ptr, e_hat, mean, denominator,
        counts, partials, num_nodes, -(-num_nodes // programs), gated.stride(0), from_source.stride(0),
        from_target.stride(0), D=channels, JOIN=join, STATISTICS=follows, **_walk(block),
    )  # fmt: skip
    if norm_weight is not None and (follows or need_edges):
        launch(
            kernels.finish_statistics, (-(-channels // MIN_CHANNELS),),
            counts, partials, *(t.contiguous() for t in running), rate, statistics, new_running, programs, known_rate,
            eps, D=channels, TRAINING=training, BLOCK_P=256, BLOCK_D=MIN_CHANNELS, num_warps=8,
        )  # fmt: skip
    if need_edges and num_edges:
        launch(
            kernels.edge_output, (-(-e_hat.numel() // tiling.flat),),
            e_hat, edge_attr.contiguous(), dense(scale), statistics, dense(norm_weight), dense(norm_bias), in_ptr, out,
            num_nodes, out.numel(), D=channels, RESIDUAL=residual, BLOCK=tiling.flat, num_warps=4,
        )  # fmt: skip
    return results


def _forward_results(
    learned: Sequence[Tensor], norm_weight: Tensor | None, scale: Tensor | None, *, residual: bool, need_edges: bool
) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor, Tensor]:
    """Empty results with the dtypes that PyTorch operations would return."""
    edge_attr, weight, gated, from_source, from_target = learned
    num_nodes, channels = from_target.shape
    kind = torch.promote_types(torch.promote_types(weight.dtype, from_source.dtype), from_target.dtype)
    new_kind = torch.promote_types(kind, edge_attr.dtype) if residual else kind
    if scale is not None:
        new_kind = torch.promote_types(new_kind, scale.dtype)
    norm_channels = 0 if norm_weight is None else channels
    return (
        gated.new_empty(num_nodes, channels, dtype=torch.promote_types(kind, gated.dtype)),
        edge_attr.new_empty(edge_attr.size(0) if need_edges else 0, channels, dtype=new_kind),
        edge_attr.new_empty(edge_attr.size(0), channels, dtype=kind),
        gated.new_empty(num_nodes, channels, dtype=torch.float32),
        gated.new_empty(3, norm_channels, dtype=torch.float32),
        gated.new_empty(2, norm_channels, dtype=torch.float32),
    )


def _keep(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, ...]) -> None:
    mean, _, e_hat, denominator, statistics, new_running = output
    edge_attr, weight, _, gated, from_source, from_target, norm_weight, norm_bias, _, _, scale, graph = inputs[:12]
    of_norm = [] if norm_weight is None else [norm_weight, norm_bias]
    saved = [edge_attr, weight, gated, from_source, from_target], of_norm, graph, [e_hat, mean, denominator, statistics]
    ctx.save_for_backward(scale, *(tensor for group in saved for tensor in group))
    ctx.sizes, ctx.residual, ctx.need_edges = [len(group) for group in saved], *inputs[-2:]
    ctx.mark_non_differentiable(e_hat, denominator, statistics, new_running)
    ctx.set_materialize_grads(False)  # zeros for ê would cost as much as the edge features
    ctx.streams = current_streams()


def _differentiate(ctx: Any, *grads: Tensor | None) -> tuple[Tensor | None, ...]:
    grad_mean, grad_out = grads[:2]
    needed = ctx.needs_input_grad[:8]
    scale, *saved = ctx.saved_tensors
    rest = iter(saved)
    learned, of_norm, graph, kept = ([*islice(rest, size)] for size in ctx.sizes)
    given = (grad_mean, grad_out if ctx.need_edges else None, learned, of_norm, scale, graph, kept)
    with parallel_streams(ctx.streams):
        *six, sums = gated_backward(*given, ctx.residual, needed[0])
    found: list[Tensor | None] = [*six, None, None]
    if needed[6] or needed[7]:
        found[6:] = [sums[1].to(of_norm[0].dtype), sums[0].to(of_norm[1].dtype)]
    return tuple(grad if wanted else None for grad, wanted in zip(found, needed, strict=True))


gated_forward.register_autograd(_differentiate, setup_context=_keep)


@operator("lrga::gated_backward", lambda *args: _backward_results(*args[2:4], need_attr=args[-1]), differentiable=False)
def gated_backward(
    grad_mean: Tensor | None,
    grad_out: Tensor | None,
    learned: list[Tensor],
    of_norm: list[Tensor],
    scale: Tensor | None,
    graph: list[Tensor],
    kept: list[Tensor],
    residual: bool,
    need_attr: bool,
) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor, Tensor, Tensor]:
    """Gradients of the six inputs, and of the normalisation's bias and weight [2, D], which
    is [2, 0] without normalisation.

    ``learned`` are these tensors without the bias, ``of_norm`` weight and bias of the normalisation, if any,
    ``kept`` are ê, means, denominators and statistics.
    """
    from lrga.ops.gated import kernels

    edge_attr, weight, gated, _, from_target = learned
    source, _, in_ptr, out_order, out_target, out_ptr = graph
    (num_nodes, channels), num_sources, num_edges = from_target.shape, gated.size(0), edge_attr.size(0)
    results = _backward_results(learned, of_norm, need_attr=need_attr)
    grad_attr, grad_weight, grad_bias, grad_gated, grad_source, grad_target, sums = results
    if num_nodes == 0:
        for result in results:
            result.zero_()
        return results
    gated, block = _rows(gated), channel_block(channels)
    e_hat, mean, denominator, statistics = (t.contiguous() for t in kept)
    norm_weight, norm_bias = (t.contiguous() for t in of_norm) if of_norm else (None, None)
    chunks, programs = -(-channels // block), min(num_nodes, tiling.programs)
    nodes_each = -(-num_nodes // programs)
    walk = _walk(block)
    grad_mean = torch.zeros_like(mean) if grad_mean is None else grad_mean.contiguous()
    grad_out, grad_e_hat, grad_total = dense(grad_out), torch.empty_like(e_hat), torch.empty_like(denominator)
    if grad_out is not None and norm_weight is not None:
        tile = tiling.sum_numbers // block
        edges_each = -(-num_edges // tiling.sum_programs // tile) * tile
        rows = max(-(-num_edges // max(edges_each, 1)), 1)
        parts = denominator.new_empty(1, rows, 2 * channels)
        launch(
            kernels.norm_backward_sums, (chunks, rows),
            grad_out, e_hat, dense(scale), statistics, norm_weight, norm_bias, in_ptr, parts, num_nodes,
            edges_each, D=channels, BLOCK_E=tile, BLOCK_D=block, num_warps=tiling.sum_warps,
        )  # fmt: skip
        sums = launch_column_sum(parts).view(2, channels)
    else:
        sums.zero_()
    # Our product adds the residual's share; the library needs it in the output before.
    own_product = product_is_supported(weight)
    through = residual and grad_out is not None and need_attr
    launch(
        kernels.backward_by_target, (chunks, programs),
        grad_mean, grad_out, e_hat, gated, mean, denominator, dense(scale), statistics, sums, norm_weight,
        norm_bias, source, in_ptr, grad_e_hat, grad_total, grad_target, grad_attr, num_nodes, num_edges,
        nodes_each, gated.stride(0), D=channels, RESIDUAL=through and not own_product, **walk,
    )  # fmt: skip

    def of_inputs() -> Tensor:
        programs = min(num_sources, tiling.programs)
        launch(
            kernels.backward_by_source, (chunks, programs),
            grad_e_hat, e_hat, grad_total, out_target, out_order, out_ptr, grad_gated, grad_source, num_sources,
            -(-num_sources // programs), D=channels, **walk,
        )  # fmt: skip
        if need_attr and own_product:
            map_edges(grad_e_hat, weight.t(), in_ptr, added=grad_out if through else None, out=grad_attr)
        elif need_attr:
            vendor_gradient(grad_e_hat, weight, added=through, out=grad_attr)
        # The gradient is zero in padding, so its sum over all edges is that of grad_source over all sources.
        return launch_column_sum(grad_source.unsqueeze(0)).squeeze(0).to(weight.dtype)

    def of_weight() -> Tensor:
        with torch.autocast(edge_attr.device.type, enabled=False):
            return torch.mm(grad_e_hat.to(weight.dtype).t(), edge_attr.to(weight.dtype))

    grad_bias, grad_weight = in_parallel("edges", of_inputs, of_weight)
    return grad_attr, grad_weight, grad_bias, grad_gated, grad_source, grad_target, sums


def _backward_results(
    learned: list[Tensor], of_norm: list[Tensor], *, need_attr: bool
) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor, Tensor, Tensor]:
    edge_attr, weight, *ends = learned
    grad_gated, grad_source, grad_target = (t.new_empty(t.shape) for t in ends)
    return (
        edge_attr.new_empty(edge_attr.shape if need_attr else (0,)),
        weight.new_empty(weight.shape),
        weight.new_empty(weight.size(0)),
        grad_gated,
        grad_source,
        grad_target,
        weight.new_empty(2, weight.size(0) if of_norm else 0, dtype=torch.float32),
    )


def _walk(block: int) -> dict[str, int]:
    """Constants of the kernels that iterate over the edges of nodes, ``block`` channels at a time."""
    tile = {"BLOCK_E": tiling.numbers // block, "BLOCK_D": block}
    return {"FAST": not interpreted(), **tile, "num_warps": tiling.warps}


def _rows(tensor: Tensor) -> Tensor:
    """The tensor with contiguous rows; the rows may be slices of longer ones."""
    return tensor if tensor.stride(1) == 1 or tensor.size(1) == 1 else tensor.contiguous()


def blocks_of(width: int) -> tuple[int, int]:
    """Two powers of two, at least 16, that hold the columns; the second is zero if one block is enough.

    Example:
        >>> [blocks_of(d) for d in (1, 45, 64, 80, 100)]
        [(16, 0), (32, 16), (64, 0), (64, 16), (128, 0)]
    """
    whole = max(16, 1 << (width - 1).bit_length())
    half = whole // 2
    rest = max(16, 1 << max(width - half - 1, 0).bit_length())
    return (half, rest) if half >= 16 and half + rest < whole else (whole, 0)


def tiles_on(device: torch.device, wanted: ProductTiles) -> ProductTiles:
    """The tiling, with half the rows if a program has less memory than on data centre GPUs.

    Example:
        >>> tiles_on(torch.device("cpu"), ProductTiles(rows=64)).rows
        64
    """
    return wanted if shared_memory(device) >= MIN_SHARED_MEMORY else wanted._replace(rows=max(wanted.rows // 2, 16))


def product_is_supported(weight: Tensor) -> bool:
    """Whether our kernel supports this weight and is fast with it."""
    fast = weight.dtype != torch.float32 or dot_precision(weight.dtype) == "tf32"
    return fast and all(width > 0 and sum(blocks_of(width)) <= MAX_PRODUCT_WIDTH for width in weight.shape)


def vendor_product(edge_attr: Tensor, weight: Tensor, bias: Tensor, *, out: Tensor) -> Tensor:
    """``C e + bias`` by the library, in ``out`` if that has the dtype of the weight."""
    with torch.autocast(edge_attr.device.type, enabled=False):
        x = edge_attr.to(weight.dtype)
        if out.dtype == weight.dtype:
            return torch.addmm(bias, x, weight.t(), out=out)
        return F.linear(x, weight, bias)


def vendor_gradient(grad: Tensor, weight: Tensor, *, added: bool, out: Tensor) -> None:
    """``grad C`` by the library, written to ``out`` or, with ``added``, added to it."""
    with torch.autocast(grad.device.type, enabled=False):
        grad, transposed = grad.to(weight.dtype), across(weight)
        if out.dtype != weight.dtype:
            found = grad @ transposed
            out.add_(found) if added else out.copy_(found)
        elif added:
            out.addmm_(grad, transposed)
        else:
            torch.mm(grad, transposed, out=out)


def across(weight: Tensor) -> Tensor:
    """The weight, with contiguous columns if that makes its product with a very long matrix faster: in TF32.

    Example:
        >>> weight = torch.ones(5, 3, dtype=torch.bfloat16)
        >>> across(weight) is weight
        True
    """
    if weight.dtype == torch.float32 and dot_precision(weight.dtype) == "tf32":
        return weight.t().contiguous().t()
    return weight


def map_edges(
    x: Tensor,
    weight: Tensor,
    in_ptr: Tensor,
    *,
    ends: tuple[Tensor, Tensor, Tensor, Tensor, Tensor] | None = None,
    added: Tensor | None = None,
    out: Tensor,
) -> None:
    """``x Wᵀ`` of every edge by our kernel, in ``out`` ``[E, O]``; zero in padding.

    Forward, ``ends`` are bias, d, t, source and target, and bias + d_source + t_target is added; backward, it is
    ``added``.
    """
    from lrga.ops.gated import kernels

    num_edges = x.size(0)
    if num_edges == 0:
        return
    how = tiles_on(x.device, product_tiles)
    (inner0, inner1), (outer0, outer1) = blocks_of(weight.size(1)), blocks_of(weight.size(0))
    bias, from_source, from_target, source, target = ends or (out, out, out, in_ptr, in_ptr)  # not read without ends
    launch(
        kernels.map_edges, (min(how.programs, -(-num_edges // how.rows)),),
        x.contiguous(), weight, bias, from_source, from_target, source, target,
        out if added is None else added.contiguous(), in_ptr, out, in_ptr.size(0) - 1, num_edges,
        from_source.stride(0), from_target.stride(0),
        INNER=weight.size(1), OUTER=weight.size(0), STRIDE_I=weight.stride(1), STRIDE_O=weight.stride(0),
        FORWARD=ends is not None, ADDED=added is not None, STAGES=how.stages, BM=how.rows, I0=inner0, I1=inner1,
        O0=outer0, O1=outer1, num_warps=how.warps, num_stages=how.stages, COMPUTE=compute_type(weight.dtype),
        PRECISION=dot_precision(weight.dtype),
    )  # fmt: skip
