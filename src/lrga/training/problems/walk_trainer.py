"""The first half of Node2Vec and DeepWalk: node vectors from random walks, by skip-gram with negative samples."""

import math
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from lrga.data.links.walks import Walker
from lrga.errors import NonFiniteError, OptionError
from lrga.io.limits import check_memory
from lrga.models.embeddings import DeepWalk, Node2Vec
from lrga.training.determinism import stream_generator
from lrga.training.problems.link_config import LinkConfig

if TYPE_CHECKING:
    from lrga.data.links.data import LinkData

ORDER, BATCH = 11, 12  # streams of random numbers


class WalkTrainer:
    """Trains the vectors of a model; each epoch begins some walks in every node.

    Args:
        model: Whose vectors are trained.
        data: The graph, on the model's device.
        options: Lengths, numbers and rates.
        seed: Of order, walks and negative samples.
    """

    def __init__(self, model: Node2Vec, data: "LinkData", options: LinkConfig, *, seed: int) -> None:
        walks = min(data.num_nodes, options.walk_batch_size) * options.walks_per_node
        need = 2 * 8 * walks * (options.walk_length + 1)  # nodes of the walks and of the negative samples
        check_memory(need, "the walks of a batch", remedy="take shorter or fewer walks", error=OptionError)
        self.model, self.options, self.seed = model, options, seed
        self.device, self.num_nodes = data.device, data.num_nodes
        # DeepWalk's walks are uniform by definition
        p, q = (1.0, 1.0) if isinstance(model, DeepWalk) else (options.walk_p, options.walk_q)
        self.walker = Walker(data.graph(weighted=False).layout, p=p, q=q)
        tables = [model.embedding.weight, *([model.context.weight] if isinstance(model, DeepWalk) else [])]
        self.optimizer = torch.optim.Adam(tables, lr=options.walk_lr, fused=True)
        self.batches = math.ceil(self.num_nodes / options.walk_batch_size)
        self.epoch, self.batch = 0, 0
        self._order: tuple[int, Tensor] | None = None

    @property
    def finished(self) -> bool:
        """Whether all epochs are done."""
        return self.epoch >= self.options.walk_epochs

    def step(self) -> Tensor:
        """One batch of walks; returns its loss."""
        walks, negatives = self.sample()
        loss = self.model.walk_loss(walks, negatives, window=self.options.walk_context, pull=self.options.walk_pull)
        if self.device.type == "cpu" and not math.isfinite(loss.item()):
            where = f"a finite loss in epoch {self.epoch + 1} of the walks, batch {self.batch + 1}"
            raise NonFiniteError(where, "NaN or infinity", "lower the learning rate of the walks (walk_lr)")
        self.optimizer.zero_grad()
        loss.backward()
        self.optimizer.step()
        self.batch += 1
        if self.batch == self.batches:
            self.epoch, self.batch = self.epoch + 1, 0
        return loss.detach()

    def sample(self) -> tuple[Tensor, Tensor]:
        """Walks and random nodes that begin alike, both ``[B, walk_length + 1]``."""
        options, size = self.options, self.options.walk_batch_size
        if self._order is None or self._order[0] != self.epoch:
            generator = stream_generator(self.seed, ORDER, self.epoch, device=self.device)
            self._order = self.epoch, torch.randperm(self.num_nodes, generator=generator, device=self.device)
        nodes = self._order[1][self.batch * size : (self.batch + 1) * size].repeat(options.walks_per_node)
        generator = stream_generator(self.seed, BATCH, self.epoch, self.batch, device=self.device)
        walks = self.walker.walk(nodes, options.walk_length, generator=generator)
        shape = (walks.size(0), options.walk_length)
        others = torch.randint(self.num_nodes, shape, generator=generator, device=self.device)
        return walks, torch.cat([nodes.unsqueeze(1), others], dim=1)
