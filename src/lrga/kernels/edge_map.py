"""Products of all edges with a weight in a GatedGCN layer on a GPU: by our kernel, or by the vendor's library.

Our kernel (:mod:`lrga.kernels.triton_edge_map`) does what comes before or after the product too, and keeps the whole
weight on the chip: it takes narrow weights only.

Letters: N nodes, E edges, I channels in, O channels out.
"""

from dataclasses import dataclass
from functools import cache
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from lrga.kernels.linear import across
from lrga.kernels.support import dot_precision, interpreted

WIDEST = 96  # padded channels
LIMITED = 80  # padded channels up to which registers are limited
ROOM = 150_000  # bytes of shared memory of a program that hold three tiles of these, and what is added to them


@dataclass(frozen=True)
class Tiles:
    """How the kernel of a product divides the edges."""

    rows: int = 32  # edges of a tile
    warps: int = 4
    programs: int = 396  # that share the tiles, three for each processor of the largest GPUs; 0: one for each tile
    stages: int = 3
    everything: bool = True  # what is added to the product, too, is asked for ahead
    registers: int | None = None  # at most, of a thread


@dataclass(frozen=True)
class Plan:
    """Which products are our own kernels', and how these divide the work."""

    own_forward: bool = True
    joined: bool = False  # forward the rows of the ends are added by the walk that follows, not by our product
    own_backward: bool = True
    own_weight: bool = False  # the gradient of the weight
    exact: bool = False  # float32 without TF32 too: as three products, for which the registers do not suffice
    turned: bool = True  # backward from the last edge: what the kernel before wrote last is still in the cache
    across: bool = True  # the library's product backward: with the weight's columns contiguous
    forward: Tiles = Tiles(64, programs=264, stages=2)
    backward: Tiles = Tiles(64, programs=264, stages=2)
    weight: Tiles = Tiles(registers=168)  # of its gradient


plan = Plan()  # of all calls


def blocks_of(width: int) -> tuple[int, int]:
    """Two powers of two, 16 at least, that hold the columns; the second is zero where one block does as well.

    Example:
        >>> [blocks_of(d) for d in (1, 45, 64, 80, 100)]
        [(16, 0), (32, 16), (64, 0), (64, 16), (128, 0)]
    """
    whole = max(16, 1 << (width - 1).bit_length())
    half = whole // 2
    rest = max(16, 1 << max(width - half - 1, 0).bit_length())
    return (half, rest) if half >= 16 and half + rest < whole else (whole, 0)


@cache
def stages_on(device: torch.device, wanted: int) -> int:
    """Tiles under way at once: no more than two where a program has less memory than on the GPUs of data centres.

    Example:
        >>> stages_on(torch.device("cpu"), 3)
        3
    """
    if device.type != "cuda":
        return wanted
    room = getattr(torch.cuda.get_device_properties(device), "shared_memory_per_block_optin", 0)
    return wanted if room >= ROOM else min(wanted, 2)


def takes(weight: Tensor) -> bool:
    """Whether our kernels can multiply with this weight, and fast."""
    fast = plan.exact or weight.dtype != torch.float32 or dot_precision(weight.dtype) == "tf32"
    return fast and all(width > 0 and sum(blocks_of(width)) <= WIDEST for width in weight.shape)


def product(edge_attr: Tensor, weight: Tensor, bias: Tensor, in_ptr: Tensor, *, out: Tensor) -> Tensor:
    """``C e + bias``, in ``out`` where our kernel computes it or ``out`` has the type of the weight."""
    if plan.own_forward and takes(weight):
        _launch(plan.forward, edge_attr, weight, bias, None, None, None, None, None, in_ptr, out)
        return out
    with torch.autocast(edge_attr.device.type, enabled=False):
        x = edge_attr.to(weight.dtype)
        if out.dtype == weight.dtype:
            return torch.addmm(bias, x, weight.t(), out=out)
        return F.linear(x, weight, bias)


def joins(weight: Tensor) -> bool:
    """Whether the walk after the product adds the rows of the ends."""
    return plan.joined or not (plan.own_forward and takes(weight))


def adds(weight: Tensor) -> bool:
    """Whether the product backward adds the residual's share itself; for the library's it must lie there before."""
    return plan.own_backward and takes(weight)


def vendor_gradient(grad: Tensor, weight: Tensor, *, added: bool, out: Tensor) -> None:
    """``grad C`` by the library, in ``out`` or, if ``added``, added to what lies there."""
    with torch.autocast(grad.device.type, enabled=False):
        grad, turned = grad.to(weight.dtype), across(weight) if plan.across else weight
        if out.dtype != weight.dtype:
            found = grad @ turned
            out.add_(found) if added else out.copy_(found)
        elif added:
            out.addmm_(grad, turned)
        else:
            torch.mm(grad, turned, out=out)


def gate_arguments(
    edge_attr: Tensor,
    weight: Tensor,
    bias: Tensor,
    from_source: Tensor,
    from_target: Tensor,
    source: Tensor,
    target: Tensor,
    in_ptr: Tensor,
    *,
    out: Tensor,
) -> Tensor:
    """``ê = C e + bias + d_source + t_target`` of every edge in ``out`` ``[E, O]``; of real edges at least."""
    _launch(plan.forward, edge_attr, weight, bias, from_source, from_target, source, target, None, in_ptr, out)
    return out


def gradient(grad: Tensor, weight: Tensor, added: Tensor | None, in_ptr: Tensor, *, out: Tensor) -> None:
    """``grad C + added`` in ``out`` ``[E, I]``, zero in padding."""
    _launch(plan.backward, grad, weight.t(), None, None, None, None, None, added, in_ptr, out)


def weight_gradient(
    grad: Tensor, edge_attr: Tensor, weight: Tensor, grad_source: Tensor, in_ptr: Tensor
) -> tuple[Tensor, Tensor]:
    """``gradᵀ e`` over the real edges, like the weight, and the sum of ``grad``; ``grad`` is zero in padding.

    ``grad_source`` ``[N, O]`` has the sums of ``grad`` over the edges of each source.
    """
    from lrga.kernels.triton_columns import launch_column_sum

    if not plan.own_weight or not takes(weight) or grad.size(0) == 0:
        of_bias = launch_column_sum(grad_source.unsqueeze(0)).squeeze(0).to(weight.dtype)
        with torch.autocast(grad.device.type, enabled=False):
            return torch.mm(grad.to(weight.dtype).t(), edge_attr.to(weight.dtype)), of_bias
    from lrga.kernels.triton_edge_map import multiply_edges

    num_edges, (outer, inner) = grad.size(0), weight.shape
    tiles, stages = plan.weight, stages_on(grad.device, plan.weight.stages)
    programs = min(tiles.programs, -(-num_edges // tiles.rows))
    parts = grad.new_empty(1, programs, outer * (inner + 1), dtype=torch.float32)
    grad, edge_attr = grad.contiguous(), edge_attr.contiguous()
    (outer0, outer1), (inner0, inner1) = blocks_of(outer), blocks_of(inner)
    with torch.cuda.device_of(grad):
        multiply_edges[(programs,)](
            grad, edge_attr, in_ptr, parts, in_ptr.size(0) - 1, num_edges, INNER=outer, OUTER=inner,
            STAGES=stages, BM=tiles.rows, I0=outer0, I1=outer1, O0=inner0, O1=inner1, num_warps=tiles.warps,
            num_stages=stages, **_arithmetic(weight), **_limit(tiles, weight),
        )  # fmt: skip
    both = launch_column_sum(parts).squeeze(0).to(weight.dtype)
    return both[: outer * inner].view(outer, inner), both[outer * inner :].clone()


def _arithmetic(weight: Tensor) -> dict[str, Any]:
    """In which type the kernels multiply, and how exactly."""
    import triton.language as tl

    kinds = {torch.float32: tl.float32, torch.bfloat16: tl.bfloat16, torch.float16: tl.float16}
    # Triton's interpreter does not multiply bfloat16; the same products in float32 are exact.
    kind = tl.float32 if interpreted() and weight.dtype == torch.bfloat16 else kinds[weight.dtype]
    return {"COMPUTE": kind, "PRECISION": "tf32" if weight.dtype != torch.float32 else dot_precision(weight.dtype)}


def _limit(tiles: Tiles, weight: Tensor) -> dict[str, Any]:
    """The registers of a thread; wider weights than the limit was found for would not fit."""
    wide = max(sum(blocks_of(width)) for width in weight.shape) > LIMITED
    return {} if tiles.registers is None or wide else {"maxnreg": tiles.registers}


def _launch(
    tiles: Tiles,
    x: Tensor,
    weight: Tensor,
    bias: Tensor | None,
    from_source: Tensor | None,
    from_target: Tensor | None,
    source: Tensor | None,
    target: Tensor | None,
    added: Tensor | None,
    in_ptr: Tensor,
    out: Tensor,
) -> None:
    from lrga.kernels.triton_edge_map import map_edges

    num_edges = x.size(0)
    if num_edges == 0:
        return
    (inner0, inner1), (outer0, outer1) = blocks_of(weight.size(1)), blocks_of(weight.size(0))
    number, stages = -(-num_edges // tiles.rows), stages_on(x.device, tiles.stages)
    x, other = x.contiguous(), out  # what is not there is not read
    with torch.cuda.device_of(x):
        map_edges[(min(tiles.programs or number, number),)](
            x, weight, other if bias is None else bias.contiguous(),
            other if from_source is None else from_source, other if from_target is None else from_target,
            in_ptr if source is None else source, in_ptr if target is None else target,
            other if added is None else added.contiguous(), in_ptr, out, in_ptr.size(0) - 1, num_edges,
            0 if from_source is None else from_source.stride(0), 0 if from_target is None else from_target.stride(0),
            INNER=weight.size(1), OUTER=weight.size(0), STRIDE_I=weight.stride(1), STRIDE_O=weight.stride(0),
            BIAS=bias is not None, ENDS=source is not None, ADDED=added is not None,
            TURNED=plan.turned and bias is None, EVERYTHING=tiles.everything, STAGES=stages, BM=tiles.rows,
            I0=inner0, I1=inner1, O0=outer0, O1=outer1, num_warps=tiles.warps, num_stages=stages,
            **_arithmetic(weight), **_limit(tiles, weight),
        )  # fmt: skip
