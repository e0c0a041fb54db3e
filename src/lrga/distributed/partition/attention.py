r"""Exact low-rank global attention over nodes partitioned between ranks; the traffic does not depend on n.

.. math::
    \mathrm{LRGA}(X)_r = \left[ \frac{1}{\eta} \, U_r \Big( \sum_s V_s^\top Z_s \Big), \; m_4(X_r) \right], \qquad
    \eta = \frac{1}{n} \Big( \sum_s \mathbf 1^\top U_s \Big) \Big( \sum_s V_s^\top \mathbf 1 \Big)

The three sums over ranks s (a κ×κ matrix and two κ-vectors for each head) are computed by one all-reduce of one buffer;
so are their gradients in the backward pass. ``qk_norm``, ``normalize="rms"`` and the gate need only these sums and one
node at a time, so they are exact too.

Letters: n nodes of this rank, H heads, K rank, Z columns of z.
"""

import torch
import torch.nn.functional as F
from torch import Tensor

from lrga.checks import without_autocast
from lrga.distributed.collectives import Group, all_reduce_sum
from lrga.errors import UnsupportedError
from lrga.nn.attention import LowRankGlobalAttention
from lrga.ops.attention.reference import gate_shares, gated, scale_of_rows, with_ones
from lrga.ops.attention.segments import Segments

Factors = tuple[Tensor, Tensor, Tensor]


def partitioned_attention(
    heads: list[Factors], num_nodes: int, *, normalize: str | None = "graph", eps: float = 1e-6, group: Group = None
) -> list[Tensor]:
    """The attention of each head over the nodes of all ranks, for this rank's nodes.

    Args:
        heads: ``(u, v, z)`` of each head, ``[n, K]``, ``[n, K]``, ``[n, Z]``.
        num_nodes: Nodes of all ranks together.
        normalize: As in :class:`lrga.LowRankGlobalAttention`.
        eps: As in :class:`lrga.LowRankGlobalAttention`.
        group: Process group.

    Example:
        >>> u, v, z = torch.rand(5, 2), torch.rand(5, 2), torch.rand(5, 3)
        >>> partitioned_attention([(u, v, z)], 5)[0].shape
        torch.Size([5, 3])
    """
    wide, out = [_wide(head) for head in heads], []
    with without_autocast(heads[0][0].device.type):  # autocast would round the sums to half precision
        for (u, _, _), sums, (given, _, _) in zip(wide, _sums(wide, group), heads, strict=True):
            scale = scale_of_rows(u, sums, num_nodes, normalize=normalize, eps=eps, dtype=given.dtype)
            out.append((scale * (u @ sums[0])).to(given.dtype))
    return out


def _wide(head: Factors) -> Factors:
    """Converts half precision to float32."""
    u, v, z = (t.float() if t.dtype in (torch.float16, torch.bfloat16) else t for t in head)
    return u, v, z


def _sums(heads: list[Factors], group: Group) -> list[Factors]:
    """VᵀZ and the sums of U and V of each head over the nodes of all ranks."""
    pieces = [piece for u, v, z in heads for piece in (v.t() @ z, u.sum(0), v.sum(0))]
    packed = all_reduce_sum(torch.cat([piece.flatten() for piece in pieces]), purpose="attention", group=group)
    sums = [part.view_as(piece) for part, piece in zip(packed.split([p.numel() for p in pieces]), pieces, strict=True)]
    return [(sums[i], sums[i + 1], sums[i + 2]) for i in range(0, len(sums), 3)]


class PartitionedAttention(LowRankGlobalAttention):
    """:class:`lrga.LowRankGlobalAttention` over nodes partitioned between ranks; created by :meth:`of`.

    Parameters and state dict are unchanged. It attends over one graph, the whole partitioned graph.
    """

    is_partitioned = True
    num_nodes: int
    group: Group

    @classmethod
    def of(cls, attention: LowRankGlobalAttention, num_nodes: int, group: Group = None) -> "PartitionedAttention":
        """Converts the module in place to attend over ``num_nodes`` nodes of all ranks."""
        attention.__class__ = cls
        assert isinstance(attention, cls)
        attention.num_nodes, attention.group = num_nodes, group
        return attention

    def forward(self, x: Tensor, batch: Tensor | Segments | None = None, num_graphs: int | None = None) -> Tensor:
        """Attends over the nodes of all ranks. Every rank must call it, even a rank without nodes."""
        heads, fourth = self._factors_of(x, batch, num_graphs)
        if not heads:
            return x.new_zeros(x.size(0), 0)
        given = heads if self.gate is None else [(u, v, with_ones(z)) for u, v, z in heads]
        attended = partitioned_attention(
            given, self.num_nodes, normalize=self.normalize, eps=self.eps, group=self.group
        )
        for i, gate in enumerate(self._gates()):
            if gate is not None:
                attended[i] = gated(attended[i], heads[i][2], gate, self.eps)
        parts = [part for pair in zip(attended, fourth, strict=True) for part in pair]
        return F.dropout(torch.cat(parts, dim=-1), self.dropout, self.training)

    def factors(
        self, x: Tensor, batch: Tensor | Segments | None = None, num_graphs: int | None = None
    ) -> tuple[Tensor, Tensor]:
        """``(u, v)`` of this rank's nodes: the attention of node i to node j, on any ranks, is ``u_i · v_j``."""
        heads, _ = self._factors_of(x, batch, num_graphs)
        u = v = x.new_zeros(x.size(0), self.heads, 0)
        if heads:
            dtype, heads = heads[0][0].dtype, [_wide(head) for head in heads]
            scaled = []
            for (u, _, _), sums, gate in zip(heads, _sums(heads, self.group), self._gates(), strict=True):
                scale = scale_of_rows(u, sums, self.num_nodes, normalize=self.normalize, eps=self.eps, dtype=dtype)
                u = scale * u
                if gate is not None:
                    u = gate_shares((u @ sums[2]).unsqueeze(-1), gate, self.eps, dtype)[1] * u
                scaled.append(u)
            u, v = torch.stack(scaled, 1), torch.stack([v for _, v, _ in heads], 1)
        return (u.squeeze(1), v.squeeze(1)) if self.heads == 1 else (u, v)

    def _factors_of(
        self, x: Tensor, batch: Tensor | Segments | None, num_graphs: int | None
    ) -> tuple[list[Factors], list[Tensor]]:
        segments = self._check(x, batch, num_graphs)
        if segments.counts is not None:
            remedy = "distribute whole graphs over the ranks: torchrun … lrga train"
            raise UnsupportedError("one graph partitioned between the ranks", f"{segments.num_graphs} graphs", remedy)
        if self.maps is not None:
            mapped = [[m(x) for m in head] for head in self._heads()]
            return [(*self._normalized(u, v), z) for u, v, z, _ in mapped], [m4 for _, _, _, m4 in mapped]
        if self.project is None:
            return [], []
        split = F.relu(self.project(x)).view(-1, self.heads, 4, self.rank).unbind(1)  # H times [n, 4, K]
        return [(*self._normalized(h[:, 0], h[:, 1]), h[:, 2]) for h in split], [h[:, 3] for h in split]
