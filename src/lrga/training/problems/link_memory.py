"""How much memory link prediction on one graph takes, and what to do where there is less.

Steps on small random graphs with the proportions of the real one (edges and scored pairs for each node) are measured,
and the line through them is followed to the size of the real graph: memory is proportional to it but for the weights.
From that follows what the run needs, as it is or with layers and scores computed again in the backward pass, and how
many pairs evaluation may score at once.

Letters: N nodes, E directed edges, P pairs scored at once.
"""

import gc
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial

import torch
from torch import Tensor, nn

from lrga.errors import OptionError
from lrga.io.limits import show_bytes
from lrga.kernels.edges import EdgeLayout
from lrga.models.embeddings import Node2Vec
from lrga.nn.recompute import recompute_layers
from lrga.training.determinism import random_states_kept
from lrga.training.evaluate import autocast
from lrga.training.memory import MARGIN, LiveBytes, peak_of_process
from lrga.training.problems.link_architecture import LinkArchitecture, LinkNetwork
from lrga.training.problems.link_evaluate import Messages
from lrga.training.problems.link_trainer import LinkTrainer, score_again

_NODES = (1500, 4500)  # of the small graphs
_MOST_EDGES = 300_000  # of the larger one, where the graph is dense
_SMALLEST_BLOCK = 256
_WALKS, _FEW = (500, 1500), 64  # walks, nodes that they run over


@dataclass(frozen=True)
class LinkMemoryPlan:
    """What a run needs and what is done about it.

    Attributes:
        limit: Bytes there are.
        standing: Bytes of graph, weights and Adam's moments; on a CPU of the whole process.
        plain: Bytes needed by a step, ``standing`` included, as the model is.
        recomputed: The same with layers and scores computed again in the backward pass.
        walks: Bytes needed by a step of random walks, ``standing`` included; 0 without.
        evaluation: Bytes needed to evaluate, ``standing`` included, with ``block`` pairs at once.
        block: Pairs that evaluation scores at once.
        whole_block: What it would be without a limit.
        nodes: N.
        edges: E.
    """

    limit: int
    standing: int
    plain: int
    recomputed: int
    walks: int
    evaluation: int
    block: int
    whole_block: int
    nodes: int
    edges: int

    @property
    def recompute(self) -> bool:
        """Whether layers and scores are to be computed again."""
        return self.plain > self.limit

    @property
    def needed(self) -> int:
        """The greatest need, once everything is done."""
        return max(self.recomputed if self.recompute else self.plain, self.walks, self.evaluation)

    def __str__(self) -> str:
        size, graph = show_bytes(self.limit), f"{self.nodes:,} nodes and {self.edges:,} edges"
        if not self.recompute and self.block == self.whole_block:
            return f"fits into {size}: training on {graph} takes {show_bytes(self.needed)}; nothing to do"
        done = []
        if self.recompute:
            saved = f"{show_bytes(self.recomputed)} instead of {show_bytes(self.plain)}"
            done.append(f"activation checkpointing: a step takes {saved}, for about a third more time")
        if self.block < self.whole_block:
            done.append(f"evaluation scores {self.block:,} pairs at once instead of {self.whole_block:,}")
        return f"to fit into {size}, {graph}: {'; '.join(done)}"


def plan_link_memory(trainer: LinkTrainer, architecture: LinkArchitecture, *, limit: int) -> LinkMemoryPlan:
    """Whether a run fits into ``limit`` bytes, and by what; refused where nothing helps.

    Args:
        trainer: Made, not yet begun: what it holds is part of the need.
        architecture: Of its network.
        limit: Bytes.
    """
    need = _Need(trainer, architecture)
    plain = need.step(recompute=False)
    # Where it fits as it is, the other number is not needed.
    recomputed = min(plain, need.step(recompute=True)) if plain > limit else plain
    whole = block = trainer.eval_block
    while need.evaluation(block) > limit and block > _SMALLEST_BLOCK:
        block = max(block // 2, _SMALLEST_BLOCK)
    plan = LinkMemoryPlan(
        limit=limit,
        standing=need.standing,
        plain=plain,
        recomputed=recomputed,
        walks=need.walks(),
        evaluation=need.evaluation(block),
        block=block,
        whole_block=whole,
        nodes=trainer.data.num_nodes,
        edges=_edges_of(trainer.messages),
    )
    if plan.needed > limit:
        again = f", {show_bytes(recomputed)} with activation checkpointing" if recomputed < plain else ""
        got = f"{show_bytes(plain)} for a step{again}"
        if plan.walks > max(limit, plan.recomputed):
            got, remedy = f"{show_bytes(plan.walks)} for a step of walks", "take a smaller --walk-length or --hidden"
        elif need.standing > limit:
            got += f"; graph, weights and Python alone take {show_bytes(need.standing)}"
            remedy = "give more memory, or divide the graph between machines (docs/scale.md)"
        else:
            remedy = "take a smaller --batch-size or --hidden, or divide the graph between machines (docs/scale.md)"
        raise OptionError(f"link prediction that fits into {show_bytes(limit)}", got, remedy)
    return plan


def keep_to_limit(trainer: LinkTrainer, plan: LinkMemoryPlan) -> None:
    """Lets a trainer do what was planned."""
    trainer.eval_block = plan.block
    if plan.recompute:
        trainer.recompute = True
        _recompute(trainer.model)


class _Need:
    """Bytes of a run, ``standing`` included, with a margin on what is foretold."""

    def __init__(self, trainer: LinkTrainer, architecture: LinkArchitecture) -> None:
        self.trainer, self.architecture = trainer, architecture
        weights = sum(p.numel() * p.element_size() for p in trainer.model.parameters())
        # Walks first: what they compile on first use stays.
        walks = trainer.walks
        self._walks = None if walks is None or walks.finished else walks.sample()
        # Adam's moments and the best weights in validation are still to come.
        now, self.most = peak_of_process(trainer.device)
        self.standing = now + 3 * weights
        self._evaluation: tuple[float, float, float] | None = None

    def step(self, *, recompute: bool) -> int:
        """Of a training step."""
        trainer, pairs = self.trainer, min(self.trainer.options.batch_size, self.trainer.edges.size(0))

        def peak(small: "_Small", share: float) -> int:
            if recompute:
                _recompute(small.model)
            chosen = torch.randint(small.nodes, (2, max(round(pairs * share), 1)), device=trainer.device)

            def step() -> None:
                with autocast(trainer.device, trainer.options.precision):
                    h = small.messages.encode(small.model)
                    scores = [score_again(small.model, h, chosen, recompute=recompute).float() for _ in range(2)]
                    loss = trainer.task.loss_of(*scores)
                loss.backward()

            return _peak(step, trainer.device)

        return self._with_standing(self._followed(peak, training=True))

    def evaluation(self, block: int) -> int:
        """Of an evaluation that scores ``block`` pairs at once."""
        if self._evaluation is None:
            self._evaluation = self._measure_evaluation()
        encode, features, pair = self._evaluation
        splits = self.trainer.data.splits.values()
        scored = 4 * max(s.edge.size(0) + (0 if s.edge_neg is None else s.edge_neg.size(0)) for s in splits)
        return self._with_standing(max(encode, features + block * pair) + 3 * scored)  # ranking sorts them

    def walks(self) -> int:
        """Of a step of random walks; 0 without any."""
        walks = self.trainer.walks
        if walks is None or self._walks is None:
            return 0
        # Vectors of few nodes here: the gradients of all would hide what a walk takes. They are added.
        with random_states_kept(walks.device):
            few = replace(self.architecture, num_nodes=_FEW).build().to(walks.device)
        assert isinstance(few, Node2Vec)

        def step(near: Tensor, far: Tensor) -> None:
            few.walk_loss(near, far, window=walks.options.walk_context, pull=walks.options.walk_pull).backward()

        peaks = []
        for rows in _WALKS:
            pair = [part[torch.arange(rows, device=part.device) % part.size(0)] % _FEW for part in self._walks]
            peaks.append(_peak(partial(step, *pair), walks.device))
            few.zero_grad()
        table = walks.model.embedding.weight
        tables = 3 * table.numel() * table.element_size()  # of start, near and far nodes
        return self._with_standing(_follow(_WALKS, peaks, self._walks[0].size(0)) + tables)

    def _measure_evaluation(self) -> tuple[float, float, float]:
        """Bytes to encode, of the node features, and of one pair that is scored."""
        trainer, found = self.trainer, []

        def peak(small: "_Small", share: float) -> int:
            del share  # pairs are measured by themselves
            with torch.no_grad(), autocast(trainer.device, trainer.options.precision):
                bytes_ = _peak(lambda: small.messages.encode(small.model), trainer.device)
                h = small.messages.encode(small.model)
                pairs = torch.zeros(2, 1024, dtype=torch.int64, device=trainer.device)
                scoring = _peak(lambda: small.model.score(h, pairs).float(), trainer.device)
            found.append((h.size(1) * h.element_size(), scoring / 1024))
            return bytes_

        encode = self._followed(peak, training=False)
        width, pair = found[-1]
        return encode, width * trainer.data.num_nodes, pair

    def _followed(self, peak: Callable[["_Small", float], int], *, training: bool) -> float:
        """The peak on graphs of two sizes, followed to the real one; a small graph is measured as it is."""
        trainer = self.trainer
        messages = trainer.messages if training else trainer.test_messages or trainer.messages
        nodes, edges = trainer.data.num_nodes, _edges_of(messages)
        largest = min(_NODES[1], nodes, max(round(_MOST_EDGES * nodes / max(edges, 1)), 30))
        sizes = (nodes,) if largest == nodes else (max(round(largest * _NODES[0] / _NODES[1]), 1), largest)
        with random_states_kept(trainer.device):
            peaks = []
            for size in sizes:
                small = _Small.of(self.architecture, messages, size, round(edges * size / nodes), trainer.device)
                small.model.train(training)
                peaks.append(peak(small, size / nodes))
        return float(peaks[0]) if len(sizes) == 1 else _follow(sizes, peaks, nodes)

    def _with_standing(self, foretold: float) -> int:
        # what loading took for a moment may have been more
        return max(round(self.standing + MARGIN * foretold), self.most)


@dataclass(frozen=True)
class _Small:
    """The network on a small random graph."""

    model: LinkNetwork
    messages: Messages
    nodes: int

    @classmethod
    def of(
        cls, architecture: LinkArchitecture, like: Messages, nodes: int, edges: int, device: torch.device
    ) -> "_Small":
        model = replace(architecture, num_nodes=nodes).build().to(device)
        edge_index = torch.randint(nodes, (2, edges), device=device)
        layout, _ = EdgeLayout.from_edge_index(edge_index, nodes, check=False)
        x = None if like.x is None else torch.randn(nodes, like.x.size(1), device=device)
        weight = None if like.weight is None else torch.rand(edges, device=device)
        return cls(model, Messages(x, layout if isinstance(like.edges, EdgeLayout) else edge_index, weight), nodes)


def _recompute(model: nn.Module) -> None:
    """Of the networks, the layers; a table of vectors has none."""
    if (gnn := getattr(model, "gnn", None)) is not None:
        recompute_layers(gnn)


def _edges_of(messages: Messages) -> int:
    edges = messages.edges
    return edges.size(1) if isinstance(edges, Tensor) else edges.num_edges


def _follow(sizes: tuple[int, ...], peaks: list[int], to: int) -> float:
    """The line through two points, at ``to``; it never falls."""
    slope = max((peaks[1] - peaks[0]) / max(sizes[1] - sizes[0], 1), 0.0)
    return max(peaks[1] + slope * (to - sizes[1]), 0.0)


def _peak(run: Callable[[], object], device: torch.device) -> int:
    """Bytes that ``run`` takes at most beyond what is there."""
    gc.collect()
    if device.type == "cuda":
        torch.cuda.synchronize(device)
        torch.cuda.reset_peak_memory_stats(device)
        before = torch.cuda.memory_allocated(device)
        run()
        torch.cuda.synchronize(device)
        return torch.cuda.max_memory_allocated(device) - before
    with LiveBytes() as live:
        run()
    return live.peak
