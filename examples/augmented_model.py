"""Augments a PyG model in one line, trains it, and writes a page that explains it.

    python examples/augmented_model.py [page.html]

In every generated graph one node is the key; the other nodes must predict whether their colour equals the key's. A
graph consists of unconnected chains, so no convolution can carry the colour of the key to another chain. The plain
model therefore learns only how frequent equal colours are, while the augmented model attends to the key. The page shows
this: click on any node.
"""

import sys

import torch
from torch import nn
from torch_geometric.data import Data
from torch_geometric.loader import DataLoader
from torch_geometric.nn import GCNConv

import lrga

COLOURS = 4


class Network(nn.Module):
    """A model as in a PyG tutorial, without any LRGA code."""

    def __init__(self, hidden: int = 32) -> None:
        super().__init__()
        self.conv1 = GCNConv(COLOURS + 1, hidden)
        self.conv2 = GCNConv(hidden, hidden)
        self.head = nn.Linear(hidden, 2)

    def forward(self, data: Data) -> torch.Tensor:
        x = self.conv1(data.x, data.edge_index).relu()
        x = self.conv2(x, data.edge_index).relu()
        return self.head(x)


def chains(generator: torch.Generator) -> Data:
    """Six to twelve chains of three nodes; node 0 is the key."""
    count = int(torch.randint(6, 13, (), generator=generator))
    nodes = torch.arange(3 * count)
    left = nodes[nodes % 3 != 2]
    colour = torch.randint(COLOURS, (3 * count,), generator=generator)
    is_key = (nodes == 0).float().unsqueeze(1)
    return Data(
        x=torch.cat([nn.functional.one_hot(colour, COLOURS).float(), is_key], dim=1),
        edge_index=torch.cat([torch.stack([left, left + 1]), torch.stack([left + 1, left])], dim=1),
        y=(colour == colour[0]).long(),
    )


def train(model: nn.Module, graphs: list[Data], epochs: int = 10) -> nn.Module:
    optimizer = torch.optim.Adam(model.parameters(), lr=5e-3)
    for _ in range(epochs):
        for data in DataLoader(graphs, batch_size=32, shuffle=True):
            loss = nn.functional.cross_entropy(model(data), data.y)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
    return model.eval()


@torch.no_grad()
def accuracy(model: nn.Module, graphs: list[Data]) -> float:
    (data,) = DataLoader(graphs, batch_size=len(graphs))
    return (model(data).argmax(dim=1) == data.y).float().mean().item()


def main() -> None:
    page = sys.argv[1] if len(sys.argv) > 1 else "augmented_model.html"
    torch.manual_seed(0)
    generator = torch.Generator().manual_seed(0)
    graphs, unseen = [chains(generator) for _ in range(600)], [chains(generator) for _ in range(200)]
    plain = Network()
    augmented = lrga.augment(plain, rank=16)  # a copy: plain is not changed
    print(f"plain      {accuracy(train(plain, graphs), unseen):.1%} of the nodes of unseen graphs correct")
    print(f"augmented  {accuracy(train(augmented, graphs), unseen):.1%}")

    found = lrga.explain.explain_model(
        augmented, unseen[0], name="the augmented model", classes=("other", "as the key")
    )
    for layer in found.layers:
        matrix = layer.matrix()  # all entries are nonnegative
        share = matrix[:, 0].sum() / max(matrix.sum(), 1e-12)
        print(f"{layer.name}: {share:.0%} of the attention is on the key, one node of {found.num_nodes}")
    lrga.explain.write_explorer(found, page)
    print(f"the attention of every node: {page}")


if __name__ == "__main__":
    main()
