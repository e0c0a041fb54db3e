"""LRGA as the global attention of PyG's GPSConv, compared with PyG's own linear attention.

Trains a two-layer network with each attention. In graphs of isolated pairs, it predicts which nodes are above the mean
of their graph; the edges do not contain this information. Both networks learn it, but only with LRGA is the result for
a graph independent of the other graphs in its batch. Run it with `python examples/gps.py`.
"""

import torch
from torch import nn
from torch_geometric.data import Batch, Data
from torch_geometric.nn import GCNConv, GPSConv

from lrga.nn.gps import GPSAttention

CHANNELS = 32


class Network(nn.Module):
    def __init__(self, *, low_rank: bool) -> None:
        super().__init__()
        self.encoder = nn.Linear(1, CHANNELS)
        self.layers = nn.ModuleList(
            GPSConv(CHANNELS, GCNConv(CHANNELS, CHANNELS), attn_type="performer") for _ in range(2)
        )
        if low_rank:
            for layer in self.layers:
                layer.attn = GPSAttention(CHANNELS, rank=8)
        self.head = nn.Linear(CHANNELS, 1)

    def forward(self, data: Batch) -> torch.Tensor:
        x = self.encoder(data.x)
        for layer in self.layers:
            x = layer(x, data.edge_index, batch=data.batch)
        return self.head(x).squeeze(-1)


def random_graph() -> Data:
    pairs = int(torch.randint(2, 30, ()))
    x = torch.randn(2 * pairs, 1) + 3 * torch.randn(())
    left, right = torch.arange(0, 2 * pairs, 2), torch.arange(1, 2 * pairs, 2)
    edge_index = torch.cat([torch.stack([left, right]), torch.stack([right, left])], dim=1)
    return Data(x=x, edge_index=edge_index, y=(x > x.mean()).float().squeeze(-1))


def train(*, low_rank: bool, steps: int = 100) -> Network:
    torch.manual_seed(0)
    model = Network(low_rank=low_rank)
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
    for _ in range(steps):
        data = Batch.from_data_list([random_graph() for _ in range(16)])
        loss = nn.functional.binary_cross_entropy_with_logits(model(data), data.y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    return model.eval()


@torch.no_grad()
def report(name: str, model: Network) -> None:
    torch.manual_seed(1)
    graphs = [random_graph() for _ in range(100)]
    data = Batch.from_data_list(graphs)
    together = model(data)
    alone = torch.cat([model(Batch.from_data_list([graph])) for graph in graphs])
    accuracy = ((together > 0) == data.y.bool()).float().mean().item()
    leak = ((together - alone).norm() / alone.norm()).item()
    print(f"{name:<28} {accuracy:.1%} of nodes correct; difference of a batch from its graphs alone: {leak:.1e}")


if __name__ == "__main__":
    report("GPSConv with PyG's Performer", train(low_rank=False))
    report("GPSConv with LRGA", train(low_rank=True))
