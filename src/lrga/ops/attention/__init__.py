"""The functional interface of the attention, and the choice between its implementations.

Three backends compute the same function: ``"dense"`` (the O(N²) definition), ``"segmented"`` (PyTorch, linear, any
device and dtype) and ``"triton"`` (fused kernels for GPUs). ``"auto"`` uses Triton if supported; otherwise
the logger ``lrga.ops`` (level INFO, once per reason) reports why not.
"""

import logging
from collections.abc import Callable

import torch
from torch import Tensor

from lrga.checks import autocast_is_on, check_choice, check_dense, check_features, check_same_device, without_autocast
from lrga.errors import OptionError, ShapeError, UnsupportedError
from lrga.ops._triton import allows_tf32, runs_on_gpu, shared_memory, why_not_triton
from lrga.ops.attention.reference import (
    NORMALIZATIONS,
    dense_attention,
    gated,
    rms_normalized,
    segmented_attention,
    with_ones,
)
from lrga.ops.attention.segments import Segments, Tiles

MAX_RANK = 64  # larger K × K do not fit a program's memory, except for one large graph in TF32 or half precision
MAX_STREAMED_RANK = 128
STREAMED = f" ({MAX_STREAMED_RANK} for a module on one large graph, in TF32 or half precision)"
MAX_EXACT_RANK = 32  # float32 without TF32, if a program has less shared memory than
MIN_EXACT_MEMORY = 163_840  # bytes
MAX_TILED_NODES = 1 << 20  # nodes of one graph with given u, v and z; sums over more tiles take long
MAX_FUSED_CHANNELS = 128  # channels up to which small graphs are projected inside the kernel
MIN_STREAMED_NODES = 16_384  # minimum nodes of one graph for the kernels of large graphs
KERNEL_NORMALIZATIONS = ("graph", "rms")  # "rms" is computed by PyTorch after the kernels

logger = logging.getLogger("lrga.ops")
_said: set[str] = set()


def triton_attention(
    u: Tensor, v: Tensor, z: Tensor, segments: Segments, normalize: str | None = "graph", eps: float = 1e-6
) -> Tensor:
    """The attention by Triton kernels; :func:`choose_implementation` has checked that they support the input."""
    from lrga.ops.attention.batched import tiled_attention

    assert normalize in KERNEL_NORMALIZATIONS
    attended = tiled_attention(u, v, z, tiles_of(segments, u.device), eps=eps)
    return rms_normalized(attended, eps) if normalize == "rms" else attended


IMPLEMENTATIONS: dict[str, Callable[[Tensor, Tensor, Tensor, Segments, str | None, float], Tensor]] = {
    "segmented": segmented_attention,
    "dense": dense_attention,
    "triton": triton_attention,
}
BACKENDS = ("auto", *IMPLEMENTATIONS)


def low_rank_attention(
    u: Tensor,
    v: Tensor,
    z: Tensor,
    batch: Tensor | None = None,
    num_graphs: int | None = None,
    *,
    cu_seqlens: Tensor | None = None,
    eps: float = 1e-6,
    backend: str = "auto",
) -> Tensor:
    r"""Low-rank global attention of the paper, for one graph or a batch of graphs of any sizes.

    As a function of tensors it is non-causal linear attention of variable-length sequences, packed
    without padding; it needs neither PyG nor graphs.

    .. math::
        \frac{1}{\eta_g} \, u_g (v_g^\top z_g), \qquad \eta_g = \frac{(\sum_i u_i) \cdot (\sum_i v_i)}{n_g}

    for each graph :math:`g`, in O(NK) memory and O(NK²) time. The result of a graph never depends on the other graphs
    of the batch. Half-precision input is accumulated in float32, also under autocast.

    Args:
        u: The paper's :math:`m_1(X)`; the queries of linear attention, after their feature map.
        v: The paper's :math:`m_2(X)`; the keys, after their feature map.
        z: The paper's :math:`m_3(X)`; the values.
        batch: Graph of each node as in PyG, in any order; ``None`` is one graph.
        num_graphs: Number of graphs. Needed for empty graphs at the end; avoids a GPU synchronisation. Without it,
            graph ids far above the number of nodes raise an error, since memory grows with the highest id.
        cu_seqlens: Instead of ``batch``: start of each graph (sequence), followed by N, int32 or int64, as in
            FlashAttention's variable-length functions. Does not synchronise a GPU, unless :func:`lrga.checking` is on.
        eps: Added to η (subtracted if signed inputs make η negative).
        backend: ``"auto"``, ``"segmented"`` (PyTorch, linear), ``"triton"`` (fused kernels, on a GPU) or ``"dense"``
            (the O(N²) definition, for comparison).

    Shapes:
        - u, v: ``[N, K]``; z: ``[N, Z]``; batch: ``[N]``; cu_seqlens: ``[G + 1]``
        - result: ``[N, Z]``
        - with H heads: u, v: ``[N, H, K]``; z and the result: ``[N, H, Z]``; each head has its own η

    Example:
        >>> import torch, lrga
        >>> u, v, z = torch.rand(5, 2), torch.rand(5, 2), torch.rand(5, 3)
        >>> lrga.low_rank_attention(u, v, z, batch=torch.tensor([0, 0, 1, 1, 1])).shape
        torch.Size([5, 3])
        >>> u, v, z = (torch.rand(5, 4, 2) for _ in range(3))  # 4 heads
        >>> lrga.low_rank_attention(u, v, z, cu_seqlens=torch.tensor([0, 2, 5])).shape
        torch.Size([5, 4, 2])
    """
    for name, tensor in (("u", u), ("v", v), ("z", z)):
        check_dense(name, tensor)
        check_features(name, tensor.flatten(1) if tensor.dim() == 3 else tensor)
    of_graphs = {"batch": batch, "cu_seqlens": cu_seqlens}
    check_same_device(u=u, v=v, z=z, **{name: t for name, t in of_graphs.items() if isinstance(t, Tensor)})
    if u.shape != v.shape or u.dim() != z.dim() or u.shape[:-1] != z.shape[:-1]:
        raise ShapeError(
            "u and v of shape [N, K] and z of shape [N, Z], or [N, H, K] and [N, H, Z] with H heads",
            f"u {list(u.shape)}, v {list(v.shape)}, z {list(z.shape)}",
            "give all three one row per node, and u and v the same number of columns",
        )
    if cu_seqlens is None:
        segments = Segments.from_batch(batch, u.size(0), num_graphs)
    elif batch is not None:
        raise OptionError("either batch or cu_seqlens", "both", "leave one of them out")
    else:
        segments = Segments.from_offsets(cu_seqlens, u.size(0))
        if num_graphs not in (None, segments.num_graphs):
            got = f"num_graphs={num_graphs} and cu_seqlens of {segments.num_graphs} graphs"
            raise OptionError("num_graphs equal to the number of graphs in cu_seqlens", got, "leave num_graphs out")
    if u.dim() == 3:
        return attend(u, v, z, segments, eps=eps, backend=backend)
    return attend(u[:, None], v[:, None], z[:, None], segments, eps=eps, backend=backend).squeeze(1)


def attend(
    u: Tensor,
    v: Tensor,
    z: Tensor,
    segments: Segments,
    *,
    normalize: str | None = "graph",
    qk_norm: bool = False,
    gate: Tensor | None = None,
    eps: float = 1e-6,
    backend: str = "auto",
    chosen: str | None = None,
) -> Tensor:
    """The attention of H heads on checked input: ``u, v: [N, H, K]``, ``z: [N, H, Z]`` to ``[N, H, Z]``.

    ``gate`` is ``[H]``; :mod:`~lrga.ops.attention.reference` has the formulas of the options. ``chosen`` is the result
    of :func:`choose_implementation` if it has been called already.
    """
    check_normalization(normalize, eps, qk_norm=qk_norm, gate=gate is not None)
    dtype = torch.promote_types(torch.promote_types(u.dtype, v.dtype), z.dtype)
    u, v, z = u.to(dtype), v.to(dtype), z.to(dtype)
    attended = z if gate is None else with_ones(z)
    if chosen is None:
        width = max(u.size(-1), attended.size(-1))
        chosen = choose_implementation(backend, segments, normalize, width, dtype, (u, v, z))
    with without_autocast(u.device.type):  # autocast would round the sums over nodes to half precision
        if qk_norm:
            u, v = rms_normalized(u, eps), rms_normalized(v, eps)
        attended = IMPLEMENTATIONS[chosen](u, v, attended, segments, normalize, eps)
        return attended if gate is None else gated(attended, z, gate, eps)


def attend_projected(
    x: Tensor,
    weight: Tensor,
    bias: Tensor | None,
    segments: Segments,
    *,
    project: Callable[[Tensor], Tensor],
    heads: int,
    rank: int,
    normalize: str | None = "graph",
    qk_norm: bool = False,
    gate: Tensor | None = None,
    eps: float = 1e-6,
    backend: str = "auto",
) -> Tensor:
    """``[attended, m4]`` of each head from the node features, ``[N, H * 2K]``.

    ``project(x)`` is called if no kernel includes the projection; it returns u, v, z and m4, ``[N, H, 4, K]``.
    """
    dtype, width = _product_dtype(x), rank + (gate is not None)
    between = "qk_norm" if qk_norm else "" if gate is None else "gate"
    why_not = _why_not_fused(x, bias, segments, rank, normalize, between)
    chosen = choose_implementation(backend, segments, normalize, width, dtype, (x, weight, bias), why_not)
    if chosen != "fused":
        u, v, z, m4 = project(x).unbind(2)
        attended = attend(u, v, z, segments, normalize=normalize, qk_norm=qk_norm, gate=gate, eps=eps, chosen=chosen)
        return torch.cat([attended, m4.to(attended.dtype)], dim=-1).flatten(1)
    assert bias is not None
    if _is_large(segments):
        from lrga.ops.attention.streaming import streaming_attention

        out = streaming_attention(x, weight, bias, heads=heads, rank=rank, eps=eps, dtype=dtype)
    else:
        from lrga.ops.attention.batched import fused_attention

        tiles = tiles_of(segments, x.device)
        out = fused_attention(x, weight, bias, tiles, heads=heads, rank=rank, eps=eps, dtype=dtype)
    if normalize != "rms":
        return out
    attended, m4 = out.view(-1, heads, 2, rank).unbind(2)
    with without_autocast(x.device.type):
        return torch.cat([rms_normalized(attended, eps), m4], dim=-1).flatten(1)


def choose_implementation(
    backend: str,
    segments: Segments,
    normalize: str | None,
    width: int,
    dtype: torch.dtype,
    tensors: tuple[Tensor, *tuple[Tensor | None, ...]],
    why_not_fused: str | None = "",
) -> str:
    """The implementation of one call: ``"fused"`` (kernels that include the projection) or one of ``IMPLEMENTATIONS``.

    ``width`` is the largest number of columns of u, v and z, ``dtype`` that of their products. ``why_not_fused`` is the
    reason against ``"fused"``, ``""`` if there is no projection. On a GPU the log reports the reason for the choice.
    """
    check_choice("backend", backend, BACKENDS)
    if backend not in ("auto", "triton"):
        return backend
    on_gpu, device = runs_on_gpu(*tensors), tensors[0].device
    if backend == "auto" and not on_gpu and device.type != "cuda":
        return "segmented"
    unsupported = None if on_gpu else why_not_triton(*tensors)
    wanted = on_gpu or backend == "triton"
    if wanted and unsupported is None and why_not_fused is None:
        return "fused"
    why_not = _why_not_kernels(normalize, width, dtype, device) or unsupported
    most = MAX_TILED_NODES * max(segments.num_graphs, 1)
    if why_not is None and not torch.compiler.is_compiling() and segments.num_nodes > most:
        why_not = "products of u, v and z of a graph of this size are computed by PyTorch"
    if backend == "triton" and why_not is not None:
        got = f"one that they do not support: {why_not}"
        raise UnsupportedError("an attention that the Triton kernels support", got, "pass backend='auto'")
    if device.type == "cuda" and why_not is not None:
        also = f"; not fused with the projection: {why_not_fused}" if why_not_fused not in (None, "", why_not) else ""
        _say_once(f"attention by PyTorch, not by Triton kernels: {why_not}{also}")
    elif device.type == "cuda" and why_not_fused:
        _say_once(f"projection by PyTorch, before the attention: {why_not_fused}")
    return "triton" if wanted and why_not is None else "segmented"


def tiles_of(segments: Segments, device: torch.device) -> Tiles:
    """The tiles of ``segments``, computed once for all layers if there are several graphs."""
    if segments.counts is None or torch.compiler.is_compiling():  # compilers do not trace cached values
        return Tiles.of(segments, device)
    return segments.tiles


def _why_not_kernels(
    normalize: str | None, rank: int, dtype: torch.dtype, device: torch.device, largest: int = MAX_RANK
) -> str | None:
    if normalize not in KERNEL_NORMALIZATIONS:
        return f"normalize={normalize!r} is computed by PyTorch"
    if rank > MAX_EXACT_RANK:
        scarce = shared_memory(device) < MIN_EXACT_MEMORY
        if rank > (limit := min(largest, MAX_RANK) if scarce else largest):
            where = "" if scarce or limit > MAX_RANK else STREAMED
            return f"rank {rank}, but the kernels support at most {limit}{where}"
        # Exact products store each factor as two numbers. A compiler does not trace the check of the switch.
        limit = MAX_EXACT_RANK if scarce else MAX_RANK
        if dtype == torch.float32 and rank > limit and (torch.compiler.is_compiling() or not allows_tf32()):
            return f"rank {rank} in float32 without TF32, but on this GPU the kernels support at most {limit}"
    return None


def _why_not_fused(
    x: Tensor, bias: Tensor | None, segments: Segments, rank: int, normalize: str | None, between: str
) -> str | None:
    """``between`` is the name of an option that needs the projections before the attention, if there is one."""
    if between:
        return f"{between}=True is computed between projection and attention"
    if bias is None:
        return "the projection has no bias"
    if x.size(1) == 0:
        return "x has no columns"
    large = _is_large(segments)
    largest = MAX_STREAMED_RANK if large else MAX_RANK
    if (why_not := _why_not_kernels(normalize, rank, _product_dtype(x), x.device, largest)) is not None:
        return why_not
    if not large and x.size(1) > MAX_FUSED_CHANNELS:
        return f"{x.size(1)} channels, but at most {MAX_FUSED_CHANNELS} are fused"
    return None


def _product_dtype(x: Tensor) -> torch.dtype:
    return torch.get_autocast_dtype(x.device.type) if autocast_is_on(x.device.type) else x.dtype


def _is_large(segments: Segments) -> bool:
    """Whether there is one graph of many nodes, for the kernels of large graphs (never while compiling)."""
    if torch.compiler.is_compiling() or segments.counts is not None:
        return False
    return segments.num_nodes >= MIN_STREAMED_NODES


def _say_once(message: str) -> None:
    if not torch.compiler.is_compiling() and message not in _said:
        _said.add(message)
        logger.info(message)


def check_normalization(normalize: str | None, eps: float = 1e-6, *, qk_norm: bool = False, gate: bool = False) -> None:
    """Raises an error for an unknown normalisation, options that exclude each other, or an eps that does not keep
    divisions finite."""
    check_choice("normalize", normalize, NORMALIZATIONS)
    if isinstance(eps, bool) or not isinstance(eps, int | float) or not eps >= 0:
        raise OptionError("eps to be a number of at least 0", repr(eps), "leave it at 1e-6")
    if eps == 0 and (qk_norm or normalize == "rms"):
        option = "qk_norm=True" if qk_norm else "normalize='rms'"
        raise OptionError(f"eps above 0 with {option}, which divides rows of zeros by eps", "0", "leave it at 1e-6")
    if gate and normalize not in ("graph", "row"):
        remedy = "leave normalize at 'graph': a gated result is already bounded"
        raise OptionError("a gate with normalize 'graph' or 'row'", repr(normalize), remedy)
