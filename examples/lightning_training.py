"""An augmented PyG model trained by Lightning; only one line is specific to LRGA.

    pip install 'lrga[lightning]'
    python examples/lightning_training.py [checkpoints]

Every generated graph is a ring of nodes of two kinds, and every node must predict which kind is more frequent. The
convolutions see two steps of the ring, the attention sees the whole ring. The best checkpoint is loaded and tested on
unseen graphs.
"""

import sys
import tempfile

import lightning
import torch
from lightning.pytorch.callbacks import ModelCheckpoint
from torch import nn
from torch_geometric.data import Data
from torch_geometric.loader import DataLoader
from torch_geometric.nn import GCN

import lrga


class Network(lightning.LightningModule):
    def __init__(self, hidden: int = 32, rank: int = 8, lr: float = 1e-2) -> None:
        super().__init__()
        self.save_hyperparameters()
        self.model = lrga.augment(GCN(2, hidden, num_layers=2, out_channels=2), rank=rank)

    def forward(self, data: Data) -> torch.Tensor:
        return self.model(data.x, data.edge_index, batch=data.batch)

    def training_step(self, data: Data, _: int) -> torch.Tensor:
        loss = nn.functional.cross_entropy(self(data), data.y)
        self.log("loss", loss, batch_size=data.num_graphs)
        return loss

    def validation_step(self, data: Data, _: int) -> None:
        self.log("accuracy", (self(data).argmax(dim=1) == data.y).float().mean(), batch_size=data.num_graphs)

    test_step = validation_step

    def configure_optimizers(self) -> torch.optim.Optimizer:
        return torch.optim.Adam(self.parameters(), lr=self.hparams.lr)


def ring(generator: torch.Generator) -> Data:
    nodes = 2 * int(torch.randint(10, 20, (), generator=generator)) + 1  # odd: one kind is more frequent
    kind = torch.randint(2, (nodes,), generator=generator)
    steps = torch.stack([torch.arange(nodes), torch.arange(nodes).roll(1)])
    majority = int(2 * int(kind.sum()) > nodes)
    return Data(
        x=nn.functional.one_hot(kind, 2).float(),
        edge_index=torch.cat([steps, steps.flip(0)], dim=1),
        y=torch.full((nodes,), majority),
    )


def main() -> None:
    folder = sys.argv[1] if len(sys.argv) > 1 else tempfile.mkdtemp()
    lightning.seed_everything(0, verbose=False)
    generator = torch.Generator().manual_seed(0)
    train, val, test = ([ring(generator) for _ in range(count)] for count in (800, 100, 200))
    best = ModelCheckpoint(folder, monitor="accuracy", mode="max")
    trainer = lightning.Trainer(
        max_epochs=6,
        accelerator="auto",
        devices=1,
        callbacks=[best],
        logger=False,
        enable_progress_bar=False,
        enable_model_summary=False,
    )
    trainer.fit(Network(), DataLoader(train, batch_size=32, shuffle=True), DataLoader(val, batch_size=100))
    network = Network.load_from_checkpoint(best.best_model_path)
    (found,) = trainer.test(network, DataLoader(test, batch_size=200), verbose=False)
    print(f"{found['accuracy']:.1%} of the nodes of unseen graphs correct")


if __name__ == "__main__":
    main()
