"""Products of all edges with a weight in a GatedGCN layer on a GPU: by our kernel, or by the vendor's library.

Our kernel (:mod:`lrga.kernels.triton_edge_map`) does what comes before or after the product too, and keeps the whole
weight on the chip: it takes narrow weights only, and no float32 without TF32, for which registers would not suffice.
The library multiplies the rest, and always the edges with their gradients: the gradient of the weight.

Letters: N nodes, E edges, I channels in, O channels out.
"""

from dataclasses import dataclass, replace
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from lrga.kernels.support import dot_precision, launch, shared_memory

WIDEST = 96  # padded channels
ROOM = 150_000  # bytes of shared memory that hold the tiles of a program for the widest weight


@dataclass(frozen=True)
class Tiles:
    """How the kernel divides the edges."""

    rows: int = 64  # edges of a tile
    warps: int = 4
    programs: int = 264  # that share the tiles, two for each processor of the largest GPUs
    stages: int = 2  # tiles under way at once


tiles = Tiles()  # of all calls; benchmarks/gated.py tries others


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


def tiles_on(device: torch.device, wanted: Tiles) -> Tiles:
    """The division, with half the rows where a program has less memory than on the GPUs of data centres.

    Example:
        >>> tiles_on(torch.device("cpu"), Tiles(rows=64)).rows
        64
    """
    return wanted if shared_memory(device) >= ROOM else replace(wanted, rows=max(wanted.rows // 2, 16))


def takes(weight: Tensor) -> bool:
    """Whether our kernel can multiply with this weight, and fast."""
    fast = weight.dtype != torch.float32 or dot_precision(weight.dtype) == "tf32"
    return fast and all(width > 0 and sum(blocks_of(width)) <= WIDEST for width in weight.shape)


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
) -> None:
    """``ê = C e + bias + d_source + t_target`` of every edge in ``out`` ``[E, O]``, zero in padding, by our kernel."""
    ends = (bias.contiguous(), from_source, from_target, source, target)
    _launch(edge_attr, weight, ends, None, in_ptr, out)


def gradient(grad: Tensor, weight: Tensor, added: Tensor | None, in_ptr: Tensor, *, out: Tensor) -> None:
    """``grad C + added`` in ``out`` ``[E, I]``, zero in padding, by our kernel."""
    _launch(grad, weight.t(), None, added, in_ptr, out)


def vendor_product(edge_attr: Tensor, weight: Tensor, bias: Tensor, *, out: Tensor) -> Tensor:
    """``C e + bias`` by the library, in ``out`` where that has the type of the weight."""
    with torch.autocast(edge_attr.device.type, enabled=False):
        x = edge_attr.to(weight.dtype)
        if out.dtype == weight.dtype:
            return torch.addmm(bias, x, weight.t(), out=out)
        return F.linear(x, weight, bias)


def vendor_gradient(grad: Tensor, weight: Tensor, *, added: bool, out: Tensor) -> None:
    """``grad C`` by the library, in ``out`` or, if ``added``, added to what lies there."""
    with torch.autocast(grad.device.type, enabled=False):
        grad, turned = grad.to(weight.dtype), across(weight)
        if out.dtype != weight.dtype:
            found = grad @ turned
            out.add_(found) if added else out.copy_(found)
        elif added:
            out.addmm_(grad, turned)
        else:
            torch.mm(grad, turned, out=out)


def across(weight: Tensor) -> Tensor:
    """The weight, its columns contiguous where the product of a very long matrix with it is faster then: in TF32.

    Example:
        >>> weight = torch.ones(5, 3, dtype=torch.bfloat16)
        >>> across(weight) is weight
        True
    """
    if weight.dtype == torch.float32 and dot_precision(weight.dtype) == "tf32":
        return weight.t().contiguous().t()
    return weight


def weight_gradient(grad: Tensor, edge_attr: Tensor, weight: Tensor, grad_source: Tensor) -> tuple[Tensor, Tensor]:
    """``gradᵀ e``, like the weight, and the sum of ``grad``, which is zero in padding.

    ``grad_source`` ``[N, O]`` has the sums of ``grad`` over the edges of each source.
    """
    from lrga.kernels.triton_columns import launch_column_sum

    of_bias = launch_column_sum(grad_source.unsqueeze(0)).squeeze(0).to(weight.dtype)
    with torch.autocast(grad.device.type, enabled=False):
        return torch.mm(grad.to(weight.dtype).t(), edge_attr.to(weight.dtype)), of_bias


def _arithmetic(weight: Tensor) -> dict[str, Any]:
    """In which type the kernel multiplies, and how exactly."""
    from lrga.kernels.launch import compute_type

    precision = "tf32" if weight.dtype != torch.float32 else dot_precision(weight.dtype)
    return {"COMPUTE": compute_type(weight.dtype), "PRECISION": precision}


def _launch(
    x: Tensor,
    weight: Tensor,
    ends: tuple[Tensor, Tensor, Tensor, Tensor, Tensor] | None,
    added: Tensor | None,
    in_ptr: Tensor,
    out: Tensor,
) -> None:
    """Forward with the bias, rows of nodes and nodes of edges in ``ends``; backward without."""
    from lrga.kernels.triton_edge_map import map_edges

    num_edges = x.size(0)
    if num_edges == 0:
        return
    how = tiles_on(x.device, tiles)
    (inner0, inner1), (outer0, outer1) = blocks_of(weight.size(1)), blocks_of(weight.size(0))
    x = x.contiguous()
    bias, from_source, from_target, source, target = ends or (out, out, out, in_ptr, in_ptr)  # not read then
    launch(
        map_edges, (min(how.programs, -(-num_edges // how.rows)),),
        x, weight, bias, from_source, from_target, source, target, out if added is None else added.contiguous(),
        in_ptr, out, in_ptr.size(0) - 1, num_edges, from_source.stride(0), from_target.stride(0),
        INNER=weight.size(1), OUTER=weight.size(0), STRIDE_I=weight.stride(1), STRIDE_O=weight.stride(0),
        FORWARD=ends is not None, ADDED=added is not None, STAGES=how.stages, BM=how.rows, I0=inner0, I1=inner1,
        O0=outer0, O1=outer1, num_warps=how.warps, num_stages=how.stages, **_arithmetic(weight),
    )  # fmt: skip
