"""Alternatives to :class:`lrga.LowRankGlobalAttention`, for comparison.

The same function with padding, the authors' arithmetic, PyG's linear attentions and softmax attention. All are called
with node features ``[N, D]`` and PyG's batch vector ``[N]``.
"""

import torch
from torch import Tensor, nn
from torch_geometric.nn.attention import PerformerAttention, SGFormerAttention
from torch_geometric.utils import to_dense_batch


class Padded(nn.Module):
    """The same attention with every graph padded to the largest, by ``to_dense_batch``.

    Example:
        >>> Padded(8, 3)(torch.randn(5, 8), torch.tensor([0, 0, 1, 1, 1])).shape
        torch.Size([5, 6])
    """

    def __init__(self, width: int, rank: int) -> None:
        super().__init__()
        self.rank, self.project = rank, nn.Linear(width, 4 * rank)

    def forward(self, x: Tensor, batch: Tensor) -> Tensor:
        dense, mask = to_dense_batch(torch.relu(self.project(x)), batch)
        u, v, z, m4 = dense.split(self.rank, dim=-1)
        eta = (u.sum(1) * v.sum(1)).sum(-1) / mask.sum(1) + 1e-6
        attended = u @ (v.transpose(1, 2) @ z) / eta[:, None, None]
        return torch.cat([attended, m4], dim=-1)[mask]


class Authors(nn.Module):
    """The arithmetic of the authors' release, which supports one graph only."""

    def __init__(self, width: int, rank: int) -> None:
        super().__init__()
        self.rank, self.project = rank, nn.Linear(width, 4 * rank)

    def forward(self, x: Tensor, batch: Tensor | None = None) -> Tensor:
        del batch
        u, v, z, m4 = torch.relu(self.project(x)).split(self.rank, dim=-1)
        ones = torch.ones(len(x), 1, device=x.device, dtype=v.dtype)
        eta = (u @ (v.t() @ ones)).sum() / len(x) + 1e-6
        return torch.cat([(u @ (v.t() @ z)) * (1 / eta), m4], dim=-1)


class PyG(nn.Module):
    """A linear attention of PyG, called as in GPSConv: padded, with a mask."""

    def __init__(self, attention: nn.Module) -> None:
        super().__init__()
        self.attention = attention

    def forward(self, x: Tensor, batch: Tensor) -> Tensor:
        dense, mask = to_dense_batch(x, batch)
        out: Tensor = self.attention(dense, mask)
        return out[mask]


class Softmax(nn.Module):
    """nn.MultiheadAttention, padded with a mask."""

    def __init__(self, width: int, heads: int = 4) -> None:
        super().__init__()
        self.attention = nn.MultiheadAttention(width, heads, batch_first=True)

    def forward(self, x: Tensor, batch: Tensor) -> Tensor:
        dense, mask = to_dense_batch(x, batch)
        out: Tensor = self.attention(dense, dense, dense, key_padding_mask=~mask, need_weights=False)[0]
        return out[mask]


def performer(width: int, heads: int = 4, head_channels: int = 32) -> PyG:
    """PyG's PerformerAttention."""
    return PyG(PerformerAttention(width, heads, head_channels=head_channels))


def sgformer(width: int, head_channels: int = 128) -> PyG:
    """PyG's SGFormerAttention."""
    return PyG(SGFormerAttention(width, head_channels=head_channels))
