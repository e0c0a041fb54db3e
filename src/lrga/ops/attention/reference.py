r"""The attention of the paper, twice: as its definition and in linear time.

.. math::
    \frac{1}{\eta_g} \, U_g (V_g^\top Z_g), \qquad
    \eta_g = \frac{1}{n_g} (\mathbf 1^\top U_g)(V_g^\top \mathbf 1)

with :math:`U, V, Z` the paper's :math:`m_1(X), m_2(X), m_3(X)`, for each graph :math:`g` of a batch.
:func:`dense_attention` builds the :math:`n \times n` matrix :math:`U V^\top`; :func:`segmented_attention` never does
and is used by the layers. Both are differentiable to any order.

Options beyond the paper are transformations around the operator, so every backend supports them:

- ``normalize="rms"`` divides each row :math:`a_i` by its root mean square, :func:`rms_normalized`. As η is
  common to the rows of a graph, it cancels except for eps.
- ``qk_norm`` divides each row of U and of V by its root mean square first, :func:`rms_normalized`.
- a gate scales the attention down, :func:`gated`.

Letters: N nodes, G graphs, H heads, K rank, Z columns of z, C rows of a chunk, M chunks.
"""

from collections.abc import Sequence

import torch
import torch.nn.functional as F
from torch import Tensor

from lrga.ops.attention.segments import Segments
from lrga.ops.cached import is_capturing

NORMALIZATIONS = ("graph", "row", "rms", None)


def dense_attention(
    u: Tensor, v: Tensor, z: Tensor, segments: Segments, normalize: str | None = "graph", eps: float = 1e-6
) -> Tensor:
    """The definition, graph by graph, in O(n²) memory. ``u, v: [N, H, K]``, ``z: [N, H, Z]``, result ``[N, H, Z]``."""
    batch, counts = segments.batch, segments.counts
    if batch is None or counts is None:
        return _dense_graph(u, v, z, torch.sym_max(segments.num_nodes, 1), normalize, eps)
    # If values cannot be read, graphs keep all N rows, because only the values tell which rows are their own.
    if torch.compiler.is_compiling() or batch.is_meta or is_capturing():
        out = torch.zeros_like(z)
        for graph in range(segments.num_graphs):
            own = (batch == graph)[:, None, None]
            u_g, v_g, z_g = (torch.where(own, t, 0) for t in (u, v, z))
            out = torch.where(own, _dense_graph(u_g, v_g, z_g, counts[graph].clamp(min=1), normalize, eps), out)
        return out
    order = torch.argsort(batch, stable=True)
    graphs = [_dense_graph(u[i], v[i], z[i], i.size(0), normalize, eps) for i in order.split(counts.tolist()) if len(i)]
    return torch.zeros_like(z).index_copy(0, order, torch.cat(graphs)) if graphs else torch.zeros_like(z)


def _dense_graph(u: Tensor, v: Tensor, z: Tensor, nodes: int | Tensor, normalize: str | None, eps: float) -> Tensor:
    """:func:`dense_attention` of one graph with ``nodes`` nodes; additional rows of zeros change nothing."""
    dtype = u.dtype
    u, v, z = (_accumulable(t).transpose(0, 1) for t in (u, v, z))  # [H, N, K]
    scores = u @ v.transpose(1, 2)  # [H, N, N]
    row_sums, attended = scores.sum(-1), scores @ z  # [H, N], [H, N, Z]
    if normalize in ("graph", "rms"):
        eta = row_sums.sum(-1) / nodes  # [H], the mean row sum
        attended = inverse(eta, eps, dtype)[:, None, None] * attended
    elif normalize == "row":
        attended = guarded_inverse(row_sums, eps).unsqueeze(-1) * attended
    if normalize == "rms":
        attended = rms_normalized(attended, eps)
    return attended.transpose(0, 1).to(dtype)


def segmented_attention(
    u: Tensor, v: Tensor, z: Tensor, segments: Segments, normalize: str | None = "graph", eps: float = 1e-6
) -> Tensor:
    """The attention in O(N K) memory and O(N K²) time. ``u, v: [N, H, K]``, ``z: [N, H, Z]``, result ``[N, H, Z]``."""
    dtype = u.dtype
    u, v, z = (segments.pack(_accumulable(t)) for t in (u, v, z))  # [H, M, C, K]
    context = segments.total(v.transpose(-1, -2) @ z)  # [H, G, K, Z]
    if normalize in ("graph", "rms"):
        scale = inverse(eta_of_graphs(u, v, segments), eps, dtype)
        context = scale[:, :, None, None] * context
    attended = u @ segments.to_chunks(context)  # [H, M, C, Z]
    if normalize == "row":
        attended = guarded_inverse(row_sums_of_chunks(u, v, segments), eps) * attended
    attended = segments.unpack(attended)
    if normalize == "rms":
        attended = rms_normalized(attended, eps)
    return attended.to(dtype)


def attention_factors(
    u: Tensor,
    v: Tensor,
    segments: Segments,
    normalize: str | None = "graph",
    eps: float = 1e-6,
    *,
    z: Tensor | None = None,
    gate: Tensor | None = None,
) -> tuple[Tensor, Tensor]:
    """``(u', v)`` with the normalisation inside u', so that the attention matrix of graph g is ``u'_g v_gᵀ``.

    ``"rms"`` needs z to scale the rows. The gate is included in u', but not the share of z that it adds.
    Half precision is returned as float32, because float16 cannot represent small factors.
    """
    dtype = u.dtype
    u, v = _accumulable(u), _accumulable(v)
    if normalize == "row":
        u = segments.unpack(guarded_inverse(row_sums_of_chunks(segments.pack(u), segments.pack(v), segments), eps)) * u
    elif normalize is not None:
        eta = eta_of_graphs(segments.pack(u), segments.pack(v), segments)
        u = segments.to_nodes(inverse(eta, eps, dtype)).unsqueeze(-1) * u
    if normalize == "rms":
        assert z is not None
        attended = segmented_attention(u, v, _accumulable(z), segments, normalize=None)
        u = (attended.square().mean(-1, keepdim=True) + eps).rsqrt() * u
    if gate is not None:
        row_sums = segments.unpack(row_sums_of_chunks(segments.pack(u), segments.pack(v), segments))
        _, share = gate_shares(row_sums, gate, eps, dtype)
        u = share * u
    return u, v


def rms_normalized(rows: Tensor, eps: float) -> Tensor:
    r"""Rows divided by their root mean square, :math:`r_i / \sqrt{\frac{1}{K} \sum_k r_{ik}^2 + \epsilon}`.

    Rows of zeros stay zero, with finite gradients. Half precision is squared and added in float32.
    """
    return F.rms_norm(rows, rows.shape[-1:], eps=eps)


def with_ones(z: Tensor) -> Tensor:
    """Appends a column of ones to z: the last column of the attention's result is then the row sums of its matrix."""
    return torch.cat([z, torch.ones_like(z[..., :1])], dim=-1)


def gated(attended: Tensor, z: Tensor, gate: Tensor, eps: float) -> Tensor:
    r"""Gated attention: a weighted mean of the node's own z and its attention.

    .. math::
        \frac{(1 - g) \, z_i + g \, a_i}{(1 - g) + g \, r_i}, \qquad g = \mathrm{sigmoid}(\text{gate})

    with :math:`a_i` the attention of node i and :math:`r_i` its row sum. With g = 1/2 and η = n this is SGFormer's
    :math:`(n z_i + u_i (V^\top Z)) / (n + u_i (V^\top \mathbf 1))`. A head closes as g goes to 0; a node closes
    itself if :math:`u_i = 0`. As for η, eps is added to the divisor.

    Args:
        attended: ``[N, H, Z + 1]``, computed with :func:`with_ones` of z.
        z: ``[N, H, Z]``.
        gate: ``[H]``, before the sigmoid.
        eps: Added to the divisor.
    """
    dtype = attended.dtype
    attended, z = _accumulable(attended), _accumulable(z)
    own, share = gate_shares(attended[..., -1:], gate, eps, dtype)
    return (own * z + share * attended[..., :-1]).to(dtype)


def gate_shares(row_sums: Tensor, gate: Tensor, eps: float, dtype: torch.dtype) -> tuple[Tensor, Tensor]:
    """The factors of z and of the attention in :func:`gated`, ``[N, H, 1]`` each."""
    gate = gate.to(row_sums.dtype).unsqueeze(-1)
    opened, closed = gate.sigmoid(), (-gate).sigmoid()
    scale = inverse(closed + opened * row_sums, eps, dtype)
    return scale * closed, scale * opened


def scale_of_rows(
    u: Tensor, sums: Sequence[Tensor], nodes: int, *, normalize: str | None, eps: float, dtype: torch.dtype
) -> Tensor:
    """The factor of the normalisation for rows of ``u @ context``, for one head of one graph with ``nodes`` nodes.

    For partitioned nodes: the sums are over all nodes, u may be of some. ``u: [n, K]``; the sums are context (VᵀZ)
    ``[K, Z]``, and those of U and V ``[K]``; the result is ``[n, 1]``.
    """
    context, u_sum, v_sum = sums
    if normalize is None:
        return u.new_ones(u.size(0), 1)
    if normalize == "row":
        return guarded_inverse(u @ v_sum, eps).unsqueeze(-1)
    scale = inverse((u_sum * v_sum).sum() / max(nodes, 1), eps, dtype).expand(u.size(0), 1)
    if normalize == "graph":
        return scale
    return scale * ((scale * (u @ context)).square().mean(-1, keepdim=True) + eps).rsqrt()


def eta_of_graphs(u: Tensor, v: Tensor, segments: Segments) -> Tensor:
    """η of each head and graph, ``[H, G]``, from chunks ``[H, M, C, K]``."""
    u_sum, v_sum = segments.total(u.sum(-2)), segments.total(v.sum(-2))  # [H, G, K]
    return (u_sum * v_sum).sum(-1) / segments.sizes(u_sum)


def row_sums_of_chunks(u: Tensor, v: Tensor, segments: Segments) -> Tensor:
    """Row sums of U Vᵀ, ``[H, M, C, 1]``, from chunks ``[H, M, C, K]``."""
    v_sum = segments.to_chunks(segments.total(v.sum(-2)))  # [H, M, K]
    return u @ v_sum.unsqueeze(-1)


def inverse(divisor: Tensor, eps: float, dtype: torch.dtype) -> Tensor:
    """1 / (divisor ± eps) with the sign of the divisor, to avoid division by zero.

    With a divisor of zero nothing is attended to, and 1 / eps multiplies zeros. The exception is
    float16 as ``dtype`` of the result: it cannot represent gradients of that size, so the factor is 0 instead.
    """
    shifted = torch.where(divisor < 0, divisor - eps, divisor + eps)
    nothing = divisor == 0 if dtype == torch.float16 else shifted == 0  # shifted is 0 only with eps = 0
    return torch.where(nothing, 0.0, 1 / torch.where(nothing, 1.0, shifted))


def guarded_inverse(divisor: Tensor, eps: float) -> Tensor:
    """1 / divisor, and 0 if the divisor is closer to zero than eps: a row that attends to nothing stays zero."""
    usable = divisor.abs() > eps
    return torch.where(usable, 1 / torch.where(usable, divisor, 1.0), 0.0)


def _accumulable(t: Tensor) -> Tensor:
    """Converts half precision to float32; sums over nodes would overflow or lose digits."""
    return t.float() if t.dtype in (torch.float16, torch.bfloat16) else t
