"""Calls of the attention's Triton kernels: which blocks, which precision.

Imports Triton: used by :mod:`lrga.ops.attention.batched` and its neighbours, which are imported only if it is there.
"""

from dataclasses import dataclass

import torch
import triton
import triton.language as tl
from torch import Tensor

from lrga.ops._triton import dot_precision, interpreted, launch
from lrga.ops.attention import batched_kernels as kernels
from lrga.ops.attention.tiles import Tiles

COMPUTE = {torch.float32: tl.float32, torch.bfloat16: tl.bfloat16, torch.float16: tl.float16}


@dataclass(frozen=True)
class Blocks:
    """Sizes of blocks, all powers of two, and how products are computed."""

    rank: int
    columns: int
    dtype: torch.dtype
    rows: int = 64
    width: int = 16
    warps: int = 4
    stages: int = 1

    def options(self) -> dict[str, object]:
        half = self.dtype != torch.float32
        return {
            "K": self.rank,
            "KZ": self.columns,
            "PRECISION": "tf32" if half else dot_precision(self.dtype),
            "BM": self.rows,
            "BK": block(self.rank),
            "BZ": block(self.columns),
            "num_warps": self.warps,
            "num_stages": self.stages,
        }

    @property
    def compute(self) -> tl.dtype:
        return compute_type(self.dtype)


def compute_type(dtype: torch.dtype) -> tl.dtype:
    """In which type kernels multiply. Triton's interpreter does not multiply bfloat16; float32 holds it exactly.

    Example:
        >>> print(compute_type(torch.float16))
        fp16
    """
    return tl.float32 if interpreted() and dtype == torch.bfloat16 else COMPUTE[dtype]


def block(size: int) -> int:
    """The power of two that holds ``size`` columns; Triton's products need 16."""
    return max(16, 1 << (size - 1).bit_length())


def reduce(
    tiles: Tiles,
    blocks: Blocks,
    heads: int,
    parts: Tensor,
    *,
    x: Tensor | None = None,
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    out: Tensor | None = None,
    u: Tensor | None = None,
    v: Tensor | None = None,
    z: Tensor | None = None,
) -> None:
    """:func:`~lrga.ops.attention.batched_kernels.reduce_tiles`; u, v, z are ``[N, H, K]`` views."""
    launch(
        kernels.reduce_tiles, (tiles.number, heads),
        x, weight, bias, u, v, z, out, parts,
        D=0 if x is None else x.size(1), stride_x=0 if x is None else x.stride(0),
        stride_u=_row(u), stride_v=_row(v), stride_z=_row(z), head_u=_head(u), head_v=_head(v), head_z=_head(z),
        stride_out=_row(out), PROJECT=x is not None, COMPUTE=blocks.compute, BD=blocks.width,
        **_where(tiles), **blocks.options(),
    )  # fmt: skip


def total(tiles: Tiles, heads: int, parts: Tensor) -> Tensor:
    """``[H, M, F]`` summed over the tiles of each graph, ``[H, G, F]``."""
    totals = parts.new_empty(heads, tiles.counts.size(0), parts.size(2))
    grid = (tiles.counts.size(0), heads, triton.cdiv(parts.size(2), 128))
    launch(kernels.sum_tiles, grid, parts, totals, tiles.ptr, parts.size(2), parts.size(1), ROWS=8, BF=128, num_warps=4)
    return totals


def apply(tiles: Tiles, blocks: Blocks, heads: int, u: Tensor, out: Tensor, totals: Tensor, eps: float) -> None:
    """:func:`~lrga.ops.attention.batched_kernels.apply_tiles`; u and out are ``[N, H, …]`` views."""
    launch(
        kernels.apply_tiles, (tiles.number, heads),
        u, out, totals, graph=tiles.graph, counts=tiles.counts,
        stride_u=_row(u), head_u=_head(u), stride_out=_row(out), head_out=_head(out), eps=eps,
        num_graphs=tiles.counts.size(0), HALF=blocks.dtype == torch.float16, **_where(tiles), **blocks.options(),
    )  # fmt: skip


def reduce_gradient(
    tiles: Tiles,
    blocks: Blocks,
    heads: int,
    parts: Tensor,
    grad: Tensor,
    *,
    x: Tensor | None = None,
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    u: Tensor | None = None,
) -> None:
    """:func:`~lrga.ops.attention.batched_kernels.reduce_gradient`; u and grad are ``[N, H, …]`` views."""
    launch(
        kernels.reduce_gradient, (tiles.number, heads),
        x, weight, bias, u, grad, parts,
        D=0 if x is None else x.size(1), stride_x=0 if x is None else x.stride(0),
        stride_u=_row(u), head_u=_head(u), stride_grad=_row(grad), head_grad=_head(grad),
        PROJECT=x is not None, COMPUTE=blocks.compute, BD=blocks.width,
        **_where(tiles), **blocks.options(),
    )  # fmt: skip


def gradient(
    tiles: Tiles,
    blocks: Blocks,
    heads: int,
    grad: Tensor,
    totals: Tensor,
    t_totals: Tensor,
    gradients: tuple[Tensor, Tensor, Tensor],
    eps: float,
    *,
    x: Tensor | None = None,
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    maps: tuple[Tensor, Tensor, Tensor] | None = None,
    out: Tensor | None = None,
    dm4: Tensor | None = None,
    bias_parts: Tensor | None = None,
) -> None:
    """:func:`~.batched_kernels.gradient_tiles`; from x also ``dm4`` and ``bias_parts`` (else ``None``)."""
    u, v, z = maps if maps is not None else (None, None, None)
    du, dv, dz = gradients
    launch(
        kernels.gradient_tiles, (tiles.number, heads),
        x, weight, bias, u, v, z, out, grad, totals, t_totals, du, dv, dz, dm4, bias_parts,
        graph=tiles.graph, counts=tiles.counts,
        D=0 if x is None else x.size(1), stride_x=0 if x is None else x.stride(0),
        stride_u=_row(u), stride_v=_row(v), stride_z=_row(z), head_u=_head(u), head_v=_head(v), head_z=_head(z),
        stride_out=_row(out), stride_grad=_row(grad), head_grad=_head(grad),
        stride_du=_row(du), stride_dv=_row(dv), stride_dz=_row(dz),
        head_du=_head(du), head_dv=_head(dv), head_dz=_head(dz),
        eps=eps, num_graphs=tiles.counts.size(0), PROJECT=x is not None,
        HALF=blocks.dtype == torch.float16, COMPUTE=blocks.compute, BD=blocks.width,
        **_where(tiles), **blocks.options(),
    )  # fmt: skip


def _where(tiles: Tiles) -> dict[str, object]:
    order = tiles.counts if tiles.order is None else tiles.order
    return {"order": order, "start": tiles.start, "end": tiles.end, "ORDERED": tiles.order is None}


def _row(t: Tensor | None) -> int:
    return 0 if t is None else t.stride(0)


def _head(t: Tensor | None) -> int:
    return 0 if t is None else t.stride(1)
