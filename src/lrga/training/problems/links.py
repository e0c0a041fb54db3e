"""Link prediction: every step uses the whole graph, a batch of edges and a batch of negative pairs."""

import copy
import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from lrga.data.links.data import LinkData, LinkGraph
from lrga.data.links.negatives import NoEdgePairs, uniform_pairs
from lrga.distributed.collectives import gather_ragged, rank_of, world_size
from lrga.distributed.partition.graph import GraphPart, partition_graph
from lrga.distributed.partition.links import ShardedEmbedding, clip_gradients, score_links
from lrga.distributed.partition.model import partition_model
from lrga.distributed.partition.step import global_mean, reduce_gradients, total_over_ranks
from lrga.errors import DataError, UnsupportedError
from lrga.models.embeddings import MatrixFactorization
from lrga.models.link import LinkModel
from lrga.nn.layers.pyg import is_adjacency
from lrga.nn.recompute import recomputed
from lrga.ops.neighbors.edges import EdgeLayout
from lrga.tasks.task import LinkTask
from lrga.training.callbacks.guard import first_non_finite
from lrga.training.capture.links import LinkEngine
from lrga.training.config import LinkConfig, OptimizerConfig
from lrga.training.determinism import step_seed, stream_generator
from lrga.training.evaluate import autocast, in_mode
from lrga.training.problems.graphs import share_of
from lrga.training.problems.problem import Problem, StepLoss

if TYPE_CHECKING:
    from lrga.training.trainer import Trainer

LinkNetwork = LinkModel | MatrixFactorization
Pairs = tuple[Tensor, Tensor]  # edges and negative pairs, both [2, B]
ORDER, NEGATIVES, SAMPLE = 1, 2, 3  # streams of random numbers
# On a GPU GCN uses a dense matrix product if the graph has at least one edge per PAIRS_PER_EDGE pairs of nodes, and the
# matrix has at most MATRIX_BYTES.
PAIRS_PER_EDGE, MATRIX_BYTES = 25, 1 << 30


@dataclass(frozen=True, eq=False)
class Messages:
    """The inputs of a network: node features and edges, with weights if its convolution supports them.

    ``edges`` is a layout; an edge index ``[2, E]`` if PyG must sum; or a dense adjacency matrix ``[N, N]``.
    """

    x: Tensor | None
    edges: EdgeLayout | Tensor
    weight: Tensor | None

    @classmethod
    def of(
        cls, data: LinkData, *, conv: str, weighted: bool, with_validation: bool = False, dense: bool | None = None
    ) -> "Messages":
        """Creates the inputs from ``data``. GCN adds self-loops of weight 1 to nodes without one: unweighted loops are
        removed here, weighted ones are left to PyG. ``dense`` says whether GCN gets a matrix; by default if that
        is faster (``PAIRS_PER_EDGE``)."""
        graph: LinkGraph = data.graph(with_validation=with_validation, weighted=weighted and conv == "gcn")
        edges: EdgeLayout | Tensor = graph.layout
        if conv == "gcn" and graph.has_loops:
            edges = graph.layout.edge_index
            if graph.weight is None:
                edges, _ = EdgeLayout.from_edge_index(edges[:, edges[0] != edges[1]], graph.layout.num_nodes)
        if dense is None and isinstance(edges, EdgeLayout):
            pairs = edges.num_nodes**2
            is_small = pairs <= PAIRS_PER_EDGE * edges.num_edges and 4 * pairs <= MATRIX_BYTES
            dense = edges.source.is_cuda and is_small
        if conv == "gcn" and isinstance(edges, EdgeLayout) and dense:
            weights = torch.ones(edges.num_edges, device=edges.device) if graph.weight is None else graph.weight
            matrix = weights.new_zeros(edges.num_nodes, edges.num_nodes)
            return cls(data.x, matrix.index_put_((edges.target, edges.source), weights, accumulate=True), None)
        return cls(data.x, edges, graph.weight)

    def without(self, pairs: Tensor) -> "Messages":
        """The same without the edges from ``pairs[0]`` to ``pairs[1]``, ``[2, P]``."""
        source, target = pairs
        if isinstance(self.edges, Tensor):
            n = self.edges.size(0)
            return replace(self, edges=self.edges.flatten().index_fill(0, target * n + source, 0.0).view(n, n))
        if self.edges.num_edges == 0:  # a graph of loops alone
            return self
        keys, key_of_edge = self._edge_keys
        wanted = source * self.edges.num_nodes + target
        at = torch.searchsorted(keys, wanted).clamp(max=keys.numel() - 1)
        missing = (keys.index_select(0, at) != wanted).float()  # pairs that are not edges remove nothing
        kept = missing.new_ones(keys.numel()).scatter_reduce(0, at, missing, "amin").index_select(0, key_of_edge)
        return replace(self, weight=kept if self.weight is None else kept * self.weight)

    @cached_property
    def _edge_keys(self) -> tuple[Tensor, Tensor]:
        """The sorted keys of all linked pairs, and the index of each edge's key, ``[E]``."""
        assert isinstance(self.edges, EdgeLayout)
        keys = self.edges.source * self.edges.num_nodes + self.edges.target
        return keys.unique(return_inverse=True)

    def encode(self, model: LinkNetwork) -> Tensor:
        """Node features ``[N, D]``."""
        return model.encode(self.x, self.edges, self.weight)


class LinkProblem(Problem):
    """Trains a network to distinguish edges from other pairs of nodes.

    An epoch uses every training edge once. Each batch runs the network on the whole graph, scores its edges and the
    same number of negative pairs, and clips the gradients of network, predictor and embedding separately. Steps do not
    synchronise a GPU. The training metric compares a sample of the training edges with the negative pairs of
    validation, as in OGB's examples.

    Args:
        model: The network, on the device of the data.
        task: Metric and kind of negatives.
        data: Graph and splits.
        options: Learning rate, schedule, batches, precision.
        link: Options of link prediction.
        conv: Name of the network's convolution.
        seed: Seed of the order of the edges and of the negative pairs.
        recompute: Whether the backward pass recomputes scores (activation checkpointing).
    """

    name, unit, engine = "links", "edges", LinkEngine
    remedy = "lower the learning rate, clip gradients (--clip-gradient 1), or check the node features"

    def __init__(
        self,
        model: LinkNetwork,
        task: LinkTask,
        data: LinkData,
        options: OptimizerConfig,
        link: LinkConfig,
        *,
        conv: str = "gcn",
        seed: int = 41,
        recompute: bool = False,
    ) -> None:
        self.model: LinkNetwork = model
        self.task, self.data, self.options, self.seed, self.device = task, data, options, seed, data.device
        self.recompute, self.weighted, self.mask = recompute, link.edge_weights, link.mask_batch
        self.messages = self._messages(conv)
        if self.mask:
            self._check_mask(conv)
        self.test_messages: Messages | None = None
        if link.validation_edges and not isinstance(model, MatrixFactorization):
            self.test_messages = self._messages(conv, with_validation=True)
        self.draw: Callable[..., Tensor] = partial(uniform_pairs, num_nodes=data.num_nodes)
        if task.negatives == "no_edge":
            self.draw = NoEdgePairs(data.edge, data.num_nodes, undirected=data.undirected).draw
        self.edges = data.splits["train"].edge
        self.batches = math.ceil(self.edges.size(0) / options.batch_size)
        self.block = options.eval_batch_size or options.batch_size  # pairs that evaluation scores at a time
        count = min(self.edges.size(0), data.splits["val"].edge.size(0))
        picked = torch.randperm(self.edges.size(0), generator=self._generator(SAMPLE), device=self.device)[:count]
        self.sample = self.edges.index_select(0, picked)

    def _messages(self, conv: str, *, with_validation: bool = False) -> Messages:
        return Messages.of(self.data, conv=conv, weighted=self.weighted, with_validation=with_validation)

    def _check_mask(self, conv: str) -> None:
        if conv != "gcn" or isinstance(self.model, MatrixFactorization):
            got = f"the model {conv!r}" if conv != "gcn" else "an embedding model"
            raise UnsupportedError("GCN for mask_batch, which needs edge weights", got, "set mask_batch=false")
        if isinstance(self.messages.edges, Tensor) and not is_adjacency(self.messages.edges):
            raise UnsupportedError("a graph without weighted self-loops, for mask_batch", "some", "remove them")

    def parameter_groups(self) -> list[list[nn.Parameter]]:
        return self.model.parameter_groups()

    def epoch_batches(self, epoch: int, first: int) -> Iterator[Pairs]:
        order = torch.randperm(self.edges.size(0), generator=self._generator(ORDER, epoch), device=self.device)
        size = self.options.batch_size
        for number in range(first, self.batches):
            chosen = order[number * size : (number + 1) * size]
            negative = self.draw(chosen.numel(), generator=self._generator(NEGATIVES, epoch, number))
            yield self.edges.index_select(0, chosen).t(), negative

    def step_loss(self, batch: Pairs, epoch: int, number: int) -> StepLoss:
        h = self.encode(batch[0])
        score = (
            partial(recomputed, self.model.score, norms=self.model.predictor) if self.recompute else self.model.score
        )
        true, false = (score(h, pairs).float() for pairs in batch)
        loss = self.task.loss_of(true, false)
        return StepLoss(loss, loss.detach(), weight=float(batch[0].size(1)))

    def encode(self, batch: Tensor) -> Tensor:
        """Features of all nodes, ``[N, D]``, for a step on the edges ``batch`` ``[2, B]``."""
        if not self.mask:
            return self.messages.encode(self.model)
        both = torch.cat([batch, batch.flip(0)], dim=1) if self.data.undirected else batch
        return self.messages.without(both).encode(self.model)

    def evaluate(self, trainer: "Trainer") -> dict[str, tuple[float, float]]:
        engine: Any = trainer.engine
        scores: dict[str, Pairs] = self.scores() if engine is None else engine.scores()
        found, self.numbers = {}, {}
        for split, pairs in scores.items():
            found[split] = float(self.task.loss_of(*pairs)), math.nan
            if math.isfinite(found[split][0]):  # other scores cannot be ranked; the guard reports the problem
                found[split] = found[split][0], float(self.task.score(*pairs))
                for name, metric in self.task.logged().items():
                    self.numbers[f"{name}/{split}"] = metric.function(*pairs)
        return found | {"train": (self.sums.means()[0], found["train"][1])}

    @torch.no_grad()
    def scores(self) -> dict[str, Pairs]:
        """Scores of the positive and negative pairs of each split, in evaluation mode."""
        result = {}
        with in_mode(self.model, training=False), autocast(self.device, self.options.precision):
            h = self.messages.encode(self.model)
            for split in ("train", "val", "test"):
                if split == "test" and self.test_messages is not None:
                    h = self.test_messages.encode(self.model)
                true = self.sample if split == "train" else self.data.splits[split].edge
                false = self.data.splits["val" if split == "train" else split].edge_neg
                if false is None:
                    raise DataError(f"negative pairs of {split!r}", "none", "provide pairs that are not edges")
                result[split] = self._scores_of(h, true), self._scores_of(h, false)
        return result

    def _scores_of(self, h: Tensor, pairs: Tensor) -> Tensor:
        return scores_of(self.model, h, pairs, batch_size=self.block)

    def why_not_captured(self) -> str | None:
        if self.recompute:
            return "a captured step cannot save random states for activation checkpointing"
        if not isinstance(self.messages.edges, EdgeLayout) and not is_adjacency(self.messages.edges):
            return "the graph has weighted loops, for which PyG is used"
        return None

    def diagnose(self, batch: Pairs) -> str | None:
        found = first_non_finite(self.model, lambda: None, {"x of the nodes": self.data.x})
        return found or super().diagnose(batch)

    def diagnose_split(self, split: str) -> str | None:
        pairs = self.data.splits[split].edge.t()
        with in_mode(self.model, training=False):
            return self.diagnose((pairs, pairs))

    def _generator(self, *path: int) -> torch.Generator:
        return stream_generator(self.seed, *path, device=self.device)


@torch.no_grad()
def scores_of(model: LinkNetwork, h: Tensor, pairs: Tensor, *, batch_size: int) -> Tensor:
    """Logits ``[P]`` of ``pairs`` ``[P, 2]`` of nodes with features ``h``, computed in batches to save memory."""
    result = torch.empty(pairs.size(0), device=pairs.device)
    for first in range(0, pairs.size(0), batch_size):
        part = pairs[first : first + batch_size]
        result[first : first + part.size(0)] = model.score(h, part.t())
    return result


class PartitionedLinkProblem(LinkProblem):
    """:class:`LinkProblem` for all processes of the group: graph and pairs of every batch are partitioned between them.

    Steps equal those of one process up to rounding (:mod:`lrga.distributed`).
    """

    part: GraphPart

    def __init__(self, model: LinkNetwork, task: LinkTask, data: LinkData, *args: Any, **kwargs: Any) -> None:
        if isinstance(model, MatrixFactorization):
            got, remedy = "an embedding model, which has no graph to partition", "train it in one process"
            raise UnsupportedError("a GNN, for several processes", got, remedy)
        self.whole = model
        super().__init__(model, task, data, *args, **kwargs)
        divided: Any = partition_model(model, self.part)
        self.model = divided
        self._own = {id(p) for m in self.model.modules() if isinstance(m, ShardedEmbedding) for p in m.parameters()}

    def _messages(self, conv: str, *, with_validation: bool = False) -> Messages:
        found = Messages.of(self.data, conv=conv, weighted=self.weighted, with_validation=with_validation, dense=False)
        index = found.edges.edge_index if isinstance(found.edges, EdgeLayout) else found.edges
        part = partition_graph(index, self.data.num_nodes, device=self.device)
        if not with_validation:
            self.part = part
        x = None if found.x is None else part.take_nodes(found.x)
        return Messages(x, part.edges, None if found.weight is None else part.take_edges(found.weight))

    def step_loss(self, batch: Pairs, epoch: int, number: int) -> StepLoss:
        torch.manual_seed(step_seed(self.seed, epoch, number, rank_of()))
        own = [share_of(pairs.t(), rank_of(), world_size()).t() for pairs in batch]
        scores = score_links(self.model, self.part, self.encode(batch[0]), torch.cat(own, dim=1)).float()
        true, false = scores.split([pairs.size(1) for pairs in own])
        counts = [pairs.size(1) for pairs in batch]
        share = global_mean(F.softplus(-true), rows=counts[0]) + global_mean(F.softplus(false), rows=counts[1])
        return StepLoss(share, total_over_ranks(share), weight=float(batch[0].size(1)))

    def _scores_of(self, h: Tensor, pairs: Tensor) -> Tensor:
        own = share_of(pairs, rank_of(), world_size())
        longest = -(-pairs.size(0) // world_size())
        blocks = range(0, max(longest, 1), self.block)  # the same number of calls on every rank
        parts = [score_links(self.model, self.part, h, own[first : first + self.block].t()) for first in blocks]
        return gather_ragged(torch.cat(parts).float(), "scores")

    def reduce_gradients(self) -> None:
        reduce_gradients(self.model, self.part.group)

    def clip_gradients(self, limit: float) -> None:
        clip_gradients(self.model, self.part, limit)

    def gather(self, parameter: nn.Parameter, value: Tensor) -> Tensor:
        return self.part.gather_nodes(value) if id(parameter) in self._own and value.dim() > 0 else value

    def take(self, parameter: nn.Parameter, value: Tensor) -> Tensor:
        return self.part.take_nodes(value) if id(parameter) in self._own and value.dim() > 0 else value

    def whole_model(self, weights: dict[str, Tensor]) -> nn.Module:
        whole = copy.deepcopy(self.whole)
        whole.load_state_dict(weights)
        return whole

    def _check_mask(self, conv: str) -> None:
        raise UnsupportedError("the whole graph for mask_batch", f"{world_size()} parts of it", "start one process")

    def diagnose_split(self, split: str) -> str | None:
        return None
