r"""Low-rank attention over more nodes than fit: inference in two passes over blocks of nodes.

The first pass adds up the κ×κ matrix :math:`V^\top Z` and the sums of U and V; the second applies them. Only
one block of b nodes is in memory at a time: O(b d + κ²), in addition to the storage of x and of the result.

Letters: N nodes, b rows of a block, H heads, K rank, Z columns of z.
"""

from collections.abc import Callable, Iterable, Iterator
from typing import Any

import torch
from torch import Tensor

from lrga.checks import check_count, check_dense, check_features, check_same_dtype
from lrga.errors import OptionError, ShapeError
from lrga.nn.attention import LowRankGlobalAttention
from lrga.nn.linear import weight_of
from lrga.ops.attention.reference import gated, scale_of_rows, with_ones

Blocks = Callable[[], Iterable[Tensor]]


@torch.no_grad()
def attend_in_blocks(
    attention: LowRankGlobalAttention, x: Tensor, *, block: int = 65_536, out: Tensor | None = None
) -> Tensor:
    """Computes ``attention(x)`` of one graph in evaluation mode, block by block. Results are equal up to rounding.

    Args:
        attention: The module, on any device. x may be elsewhere, in main memory or a memory-mapped file; blocks are
            copied to the device.
        x: ``[N, D]``.
        block: b, the number of rows of a block.
        out: ``[N, heads * 2 * rank]`` to write into; by default a new tensor on the device of x.

    Example:
        >>> attention = LowRankGlobalAttention(16, rank=4).eval()
        >>> x = torch.randn(1000, 16)
        >>> torch.allclose(attend_in_blocks(attention, x, block=128), attention(x), atol=1e-5)
        True
    """
    check_count("block", block, minimum=1)
    check_dense("x", x)
    if x.dim() != 2:
        raise ShapeError("x of shape [N, D]", f"shape {list(x.shape)}", "pass one row per node")
    begin = 0
    for part in attention_of_blocks(attention, lambda: (x[i : i + block] for i in range(0, max(len(x), 1), block))):
        if out is None:
            out = torch.empty(x.size(0), part.size(1), dtype=part.dtype, device=x.device)
        if out.shape != (x.size(0), part.size(1)):
            wanted = [x.size(0), part.size(1)]
            raise ShapeError(f"out of shape {wanted}", f"shape {list(out.shape)}", "omit it, or change its shape")
        out[begin : begin + part.size(0)] = part
        begin += part.size(0)
    assert out is not None
    return out


@torch.no_grad()
def attention_of_blocks(attention: LowRankGlobalAttention, blocks: Blocks) -> Iterator[Tensor]:
    """The same for blocks of nodes from any source: yields the result of each block.

    Args:
        attention: The module, in evaluation mode or without dropout.
        blocks: A function that returns the blocks ``[b, D]``. It is called twice and must return the same blocks in
            the same order.

    Example:
        >>> attention = LowRankGlobalAttention(16, rank=4).eval()
        >>> parts = [torch.randn(10, 16), torch.randn(7, 16)]
        >>> [part.shape[0] for part in attention_of_blocks(attention, lambda: parts)]
        [10, 7]
    """
    if attention.training and attention.dropout:
        raise OptionError("attention in evaluation mode", "training mode with dropout", "call attention.eval()")
    sums: list[list[Tensor]] = []
    nodes = 0
    width, weight = attention.in_channels, weight_of(attention.project)
    for x in blocks():
        check_features("x", x, width if width >= 0 else None)
        check_same_dtype(x, weight)
        nodes += x.size(0)
        for head, (u, v, z, _) in enumerate(_maps(attention, x)):
            given = z if attention.gate is None else with_ones(z)
            pieces = [v.t() @ given, u.sum(0), v.sum(0)]
            if head == len(sums):
                sums.append(pieces)
            else:
                sums[head] = [total.add_(piece) for total, piece in zip(sums[head], pieces, strict=True)]
    again = 0
    for x in blocks():
        again += x.size(0)
        parts = []
        for (u, _, z, m4), (context, u_sum, v_sum), gate in zip(
            _maps(attention, x), sums, attention._gates()[: len(sums)], strict=True
        ):
            options: dict[str, Any] = {"normalize": attention.normalize, "eps": attention.eps, "dtype": x.dtype}
            attended = scale_of_rows(u, (context, u_sum, v_sum), nodes, **options) * (u @ context)
            if gate is not None:
                attended = gated(attended, z, gate, attention.eps)
            parts += [attended.to(x.dtype), m4.to(x.dtype)]
        yield torch.cat(parts, dim=-1) if parts else x.new_zeros(x.size(0), 0)
    if again != nodes:  # an iterator, for example, is empty the second time
        remedy = "let blocks() restart at each call, for example lambda: iter(parts)"
        raise ShapeError(f"the same {nodes} nodes in both passes", f"{again} in the second", remedy)


def _maps(attention: LowRankGlobalAttention, x: Tensor) -> Iterator[tuple[Tensor, Tensor, Tensor, Tensor]]:
    """m1 to m4 of each head for a block, at least in float32."""
    like = next(attention.parameters(), x)
    x = x.to(like.device)
    if attention.maps is not None:
        rows = [[m(x) for m in head] for head in attention._heads()]
    elif attention.project is None:
        rows = []
    else:
        rows = [list(h.unbind(1)) for h in attention._project(x).unbind(1)]  # H times [b, 4, K]
    for row in rows:
        u, v, z, m4 = (t.float() if t.dtype in (torch.float16, torch.bfloat16) else t for t in row)
        yield *attention._normalized(u, v), z, m4
