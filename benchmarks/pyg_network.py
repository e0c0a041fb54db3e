"""The networks of the paper on PATTERN as usual PyG code: GCNConv or a gated convolution of gathers and
scatters, LRGA on graphs padded by to_dense_batch, PyTorch's BatchNorm1d; and the weights of our networks."""

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch_geometric.data import Data
from torch_geometric.nn import GCNConv
from torch_geometric.utils import scatter

from lrga import GNN
from lrga.speed.peers import Padded


class PeerGCN(nn.Module):
    """GCN → BatchNorm → ReLU → residual."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.conv, self.norm = GCNConv(width, width, add_self_loops=False), nn.BatchNorm1d(width)

    def forward(self, x: Tensor, edge_index: Tensor, e: Tensor) -> tuple[Tensor, Tensor]:
        return x + F.relu(self.norm(self.conv(x, edge_index))), e


class PeerGatedGCN(nn.Module):
    """Gated convolution → BatchNorm → ReLU → residual, on nodes and edges."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.lin_a, self.lin_b, self.lin_c, self.lin_d, self.lin_e = (nn.Linear(width, width) for _ in range(5))
        self.norm, self.edge_norm = nn.BatchNorm1d(width), nn.BatchNorm1d(width)

    def forward(self, x: Tensor, edge_index: Tensor, e: Tensor) -> tuple[Tensor, Tensor]:
        source, target = edge_index
        e_hat = self.lin_c(e) + self.lin_d(x)[source] + self.lin_e(x)[target]
        gate = torch.sigmoid(e_hat)
        total = scatter(gate * self.lin_b(x)[source], target, dim=0, dim_size=x.size(0), reduce="sum")
        weight = scatter(gate, target, dim=0, dim_size=x.size(0), reduce="sum")
        h = self.lin_a(x) + total / (weight + 1e-6)
        return x + F.relu(self.norm(h)), e + F.relu(self.edge_norm(e_hat))


class Peer(nn.Module):
    """The complete network."""

    def __init__(self, conv: str, width: int, layers: int, rank: int, classes: int = 2) -> None:
        super().__init__()
        self.conv, self.layers = conv, layers
        self.encoder = nn.Embedding(3, width)
        self.edge_encoder = nn.Linear(1, width) if conv == "gatedgcn" else None
        local = PeerGatedGCN if conv == "gatedgcn" else PeerGCN
        self.local = nn.ModuleList(local(width) for _ in range(layers))
        self.attention = nn.ModuleList(Padded(width, rank) for _ in range(layers))
        self.mix = nn.ModuleList(nn.Linear(2 * width + 2 * rank, width) for _ in range(layers))
        self.norms = nn.ModuleList(nn.BatchNorm1d(width) for _ in range(layers))
        self.head = nn.Sequential(
            nn.Linear(width, width // 2), nn.ReLU(), nn.Linear(width // 2, width // 4), nn.ReLU(),
            nn.Linear(width // 4, classes),
        )  # fmt: skip

    def forward(self, data: Data) -> Tensor:
        x = self.encoder(data.x.view(-1))
        e = x if self.edge_encoder is None else self.edge_encoder(x.new_ones(data.edge_index.size(1), 1))
        for local, attention, mix, norm in zip(self.local, self.attention, self.mix, self.norms, strict=True):
            h, e = local(x, data.edge_index, e)
            x = norm(F.relu(mix(torch.cat([x, attention(x, data.batch), h], dim=-1))))
        return self.head(x)


def peer_loss(scores: Tensor, labels: Tensor, classes: int = 2) -> Tensor:
    """The benchmark's cross entropy weighted by class."""
    count = torch.bincount(labels, minlength=classes)
    weight = (len(labels) - count).float() / len(labels) * (count > 0)
    return F.cross_entropy(scores, labels, weight=weight)


def copy_weights(ours: GNN, peer: Peer) -> None:
    """Copies our weights to the PyG network; all must match."""
    conv, names = peer.conv, {"encoder.weight": "encoder.embedding.weight"}
    if conv == "gatedgcn":
        names |= {f"edge_encoder.{k}": f"edge_encoder.lin.{k}" for k in ("weight", "bias")}
    for i in range(peer.layers):
        for k in ("weight", "bias"):
            names[f"mix.{i}.{k}"], names[f"norms.{i}.{k}"] = f"layers.{i}.mix.{k}", f"layers.{i}.norm.{k}"
            names[f"attention.{i}.project.{k}"] = f"layers.{i}.attention.project.{k}"
            names[f"local.{i}.norm.{k}"] = f"layers.{i}.base.norm.{k}"
            if conv == "gatedgcn":
                names |= {f"local.{i}.lin_{a}.{k}": f"layers.{i}.base.lin_{a}.{k}" for a in "abcde"}
                names[f"local.{i}.edge_norm.{k}"] = f"layers.{i}.base.edge_norm.{k}"
        if conv == "gcn":
            names[f"local.{i}.conv.lin.weight"] = f"layers.{i}.base.lin.weight"
            names[f"local.{i}.conv.bias"] = f"layers.{i}.base.lin.bias"
    for j in range(3):
        names |= {f"head.{2 * j}.{k}": f"head.mlp.lins.{j}.{k}" for k in ("weight", "bias")}
    source, target = dict(ours.named_parameters()), dict(peer.named_parameters())
    if set(names) != set(target) or set(names.values()) != set(source):
        raise SystemExit("the two models have different parameters; no timing")
    with torch.no_grad():
        for theirs, mine in names.items():
            target[theirs].copy_(source[mine])
