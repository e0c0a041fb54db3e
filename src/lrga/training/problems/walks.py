"""The first stage of Node2Vec and DeepWalk: node vectors from random walks, by skip-gram with negative sampling."""

import math
from collections.abc import Iterator

import torch
from torch import Tensor, nn

from lrga.data.links.data import LinkData
from lrga.data.links.walks import Walker
from lrga.errors import OptionError
from lrga.io.limits import check_memory
from lrga.models.embeddings import DeepWalk, Node2Vec
from lrga.training.config import LinkConfig, OptimizerConfig
from lrga.training.determinism import stream_generator
from lrga.training.problems.problem import Problem, StepLoss

ORDER, BATCH = 11, 12  # streams of random numbers
Batch = tuple[Tensor, Tensor]


class WalkProblem(Problem):
    """Trains the vectors of a model; each epoch starts some walks from every node.

    Args:
        model: The model with the vectors.
        data: The graph, on the model's device.
        link: Options of walks: length, number, learning rate.
        seed: Seed of order, walks and negative samples.
    """

    name, unit, is_evaluated = "walks", "nodes", False
    remedy = "lower the learning rate of the walks (walk_lr)"

    def __init__(self, model: Node2Vec, data: LinkData, link: LinkConfig, *, seed: int) -> None:
        walks = min(data.num_nodes, link.walk_batch_size) * link.walks_per_node
        need = 2 * 8 * walks * (link.walk_length + 1)  # nodes of the walks and of the negative samples
        check_memory(need, "the walks of a batch", remedy="use shorter or fewer walks", error=OptionError)
        self.model: Node2Vec = model
        self.link, self.seed, self.task = link, seed, None
        self.device, self.num_nodes = data.device, data.num_nodes
        self.options = OptimizerConfig(
            lr=link.walk_lr, batch_size=link.walk_batch_size, max_epochs=max(link.walk_epochs, 1), schedule="constant"
        )
        # DeepWalk's walks are uniform by definition
        p, q = (1.0, 1.0) if isinstance(model, DeepWalk) else (link.walk_p, link.walk_q)
        self.walker = Walker(data.graph(weighted=False).layout, p=p, q=q)
        self.batches = math.ceil(self.num_nodes / link.walk_batch_size)

    def parameter_groups(self) -> list[list[nn.Parameter]]:
        tables = [self.model.embedding, *([self.model.context] if isinstance(self.model, DeepWalk) else [])]
        return [[parameter for table in tables for parameter in table.parameters()]]

    def epoch_batches(self, epoch: int, first: int) -> Iterator[Batch]:
        """Walks, and random nodes after the same first node, both ``[B, walk_length + 1]``."""
        link, size = self.link, self.link.walk_batch_size
        generator = stream_generator(self.seed, ORDER, epoch, device=self.device)
        order = torch.randperm(self.num_nodes, generator=generator, device=self.device)
        for number in range(first, self.batches):
            nodes = order[number * size : (number + 1) * size].repeat(link.walks_per_node)
            generator = stream_generator(self.seed, BATCH, epoch, number, device=self.device)
            walks = self.walker.walk(nodes, link.walk_length, generator=generator)
            shape = (walks.size(0), link.walk_length)
            others = torch.randint(self.num_nodes, shape, generator=generator, device=self.device)
            yield walks, torch.cat([nodes.unsqueeze(1), others], dim=1)

    def step_loss(self, batch: Batch, epoch: int, number: int) -> StepLoss:
        loss = self.model.walk_loss(*batch, window=self.link.walk_context, pull=self.link.walk_pull)
        return StepLoss(loss, loss.detach())

    def why_not_captured(self) -> str | None:
        return "walks are sampled during training"
