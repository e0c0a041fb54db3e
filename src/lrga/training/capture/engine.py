"""The training loop made fast: every batch has one of a few shapes, and the whole step for a shape is replayed.

Gathering the batch, forward, loss, backward, clipping and the optimiser's step are recorded once per capacity
(:mod:`lrga.training.capture.cuda_graph`) and then cost the launch of one CUDA graph; loss and metric are added up on
the device. What is computed is what :class:`~lrga.training.trainer.Trainer` computes batch by batch: the same graphs in
the same order, padding left out of every sum, so that a run begun in one loop continues in the other. Where predictions
belong to graphs, one step evaluates several batches, with loss and metric of each. On a CPU the same code runs without
recording.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

import torch
from torch import Tensor, nn

from lrga.data.packed.padded import Capacity, FixedBatch
from lrga.kernels.padding import padded
from lrga.kernels.segments import known_segments
from lrga.models.gnn import GNN
from lrga.training.capture.capacity import Batches, Work
from lrga.training.capture.cuda_graph import Captured, recording_stream, snapshot_of
from lrga.training.determinism import norm_generator, order_generator
from lrga.training.evaluate import Scores, autocast, in_mode, run_model
from lrga.training.norms import Averages

if TYPE_CHECKING:
    from lrga.training.trainer import Trainer

CHECK_EVERY = 200  # batches between two looks at the losses
AT_ONCE_ROWS = 2**19  # nodes and edges of a step that evaluates several batches, at most


class Engine:
    """Runs the batches of a trainer in fixed capacities.

    Args:
        trainer: Whose model, optimiser and sums are used. What it holds must stay where it is in memory.

    Example:
        >>> import lrga
        >>> from torch_geometric.data import Data
        >>> from lrga.data.packed.graphs import PackedGraphs
        >>> from lrga.tasks import Task
        >>> from lrga.training import OptimizerConfig, Trainer
        >>> path = torch.tensor([[0, 1], [1, 0]])
        >>> data = [Data(x=torch.rand(2, 3), edge_index=path, y=torch.tensor([0.5])) for _ in range(4)]
        >>> splits = {name: PackedGraphs.from_data_list(data, y_level="graph") for name in ("train", "val", "test")}
        >>> model = lrga.GNN(3, 8, 1, 1, task="graph")
        >>> task = Task(level="graph", kind="regression", out_channels=1)
        >>> trainer = Trainer(model, task, splits, OptimizerConfig(batch_size=2))
        >>> engine = Engine(trainer)
        >>> step = engine.training_step(engine.train.capacities[0])
        >>> engine.put(torch.tensor([0, 3]))  # which graphs
        >>> step()
        >>> float(trainer.sums.loss.total) > 0
        True
    """

    def __init__(self, trainer: "Trainer") -> None:
        self.trainer, self.device = trainer, trainer.device
        options, level = trainer.options, trainer.task.level
        self._eval_size = options.eval_batch_size or options.batch_size
        self.train = Batches(trainer.splits["train"].fixed, options.batch_size, level)
        self.held_out: dict[str, Batches] = {}
        self._work: dict[str, list[Work]] = {}
        self._counts: dict[str, list[int]] = {}  # predictions that count in each batch
        for split in trainer.splits:
            if split != "train":
                self._plan_evaluation(split)
        sizes = {options.batch_size, *(batches.batch_size for batches in self.held_out.values())}
        self._graphs = {size: torch.empty(size, dtype=torch.int64, device=self.device) for size in sizes}
        self._sums = Scores(trainer.task, self.device)  # of an evaluation
        trainer.sums.metric.reserve(int(self.train.fixed.counted_per_graph(level).sum()))
        self._sums.metric.reserve(max(map(sum, self._counts.values()), default=0))
        self._averages = Averages(trainer.model) if options.recalibrate_norm else None
        self._lr = torch.zeros((), dtype=torch.float32, device=self.device)  # as Adam's kernel reads it
        self._generators = generators_of(trainer.model, self.device)
        self._stream = recording_stream(self.device)
        self._pool = torch.cuda.graph_pool_handle() if self.device.type == "cuda" else None
        self._ready: dict[tuple[str, Capacity], Captured | None] = {}

    def _plan_evaluation(self, split: str) -> None:
        """The batches of a split; several in one step where a graph's result does not depend on its batch."""
        graphs, level = self.trainer.splits[split], self.trainer.task.level
        batches, order = Batches(graphs.fixed, self._eval_size, level, shuffled=False), torch.arange(len(graphs))
        work = batches.of(order)
        self._counts[split] = [entry.counted for entry in work]
        if level == "graph" and _takes_graphs_alone(self.trainer.model):
            largest = max(entry.capacity.nodes + entry.capacity.edges for entry in work)
            several = min(self.trainer.at_once, len(work), AT_ONCE_ROWS // largest)
            if several > 1:
                batches = Batches(graphs.fixed, several * self._eval_size, level, shuffled=False)
                work = batches.of(order)
        self.held_out[split], self._work[split] = batches, work

    def prepare(self) -> None:
        """Records the usual capacities at once; raises whatever stands in the way."""
        self.trainer.model.train()
        for capacity in self.train.capacities:
            self._step_of("train", capacity)
        with self._evaluating():
            for split, work in self._work.items():
                for capacity in sorted({entry.capacity for entry in work}):
                    self._step_of(split, capacity)

    def put(self, graphs: Tensor) -> None:
        """Says which graphs the next run takes, ``[B]``."""
        self._graphs[graphs.size(0)].copy_(graphs)

    def training_step(self, capacity: Capacity) -> Captured:
        """The whole step of the optimiser for batches of that capacity; the model must be in training mode."""
        graphs, fixed = self._places(self.train), self.train.fixed
        self._lr.fill_(self.trainer.lr)

        def step() -> None:
            batch = fixed.gather(graphs, capacity)
            with self._running(batch):
                scores, targets, valid = self.trainer.task.select_fixed(run_model(self.trainer.model, batch), batch)
                loss = self.trainer.task.loss_of(scores, targets, valid)
            with self._rate_on_device():
                self.trainer.descend(loss)
            self.trainer.sums.add(loss, scores, targets, valid)

        return self._captured(step, self.trainer.sums)

    def rest_of_epoch(self) -> Iterator[Work]:
        """The batches of this epoch that are not done: the trainer's own, in its order."""
        trainer = self.trainer
        order = trainer.splits["train"].shuffled(order_generator(trainer.seed, trainer.epoch))
        self._lr.fill_(trainer.lr)
        yield from self.train.of(order)[trainer.batch :]

    def step(self, work: Work) -> None:
        """One step of the optimiser."""
        trainer = self.trainer
        run = self._step_of("train", work.capacity)
        if run is None:  # a batch too large to be recorded
            real = work.graphs[work.graphs < self.train.fixed.nothing]
            trainer.step(trainer.splits["train"].batch(real.cpu()))
            return
        self.put(work.graphs)
        run()
        trainer.sums.count(work.counted)
        trainer.batch += 1
        trainer.guard.check_sum()

    def evaluate(self, split: str) -> tuple[float, float]:
        """Loss and metric of a split, as :func:`lrga.training.evaluate.evaluate`."""
        self._sums.reset()
        with self._evaluating():
            for work in self._work[split]:
                run = self._step_of(split, work.capacity)
                assert run is not None
                self.put(work.graphs)
                run()
        for counted in self._counts[split]:
            self._sums.count(counted)
        return self._sums.means()

    def recalibrate_norm(self) -> None:
        """As :func:`lrga.training.evaluate.recalibrate_norm`, on the trainer's batches for it."""
        trainer, averages = self.trainer, self._averages
        if averages is None or not averages.norms:
            return
        order = trainer.splits["train"].shuffled(norm_generator(trainer.seed, trainer.epoch))
        with self._evaluating(), averages.taking():
            for work in self.train.of(order)[: trainer.options.recalibrate_norm]:
                run = self._step_of("norm", work.capacity)
                assert run is not None
                self.put(work.graphs)
                run()

    def close(self) -> None:
        """Gives the recorded steps back, at once rather than when garbage is collected, in the middle of another run's
        steps; what is run afterwards is recorded anew."""
        if self.device.type == "cuda":
            torch.cuda.synchronize(self.device)
        for run in self._ready.values():
            if run is not None:
                run.close()
        self._ready.clear()

    def _step_of(self, kind: str, capacity: Capacity) -> Captured | None:
        key = (kind, capacity)
        if key not in self._ready:
            usual = kind != "train" or capacity in self.train.capacities
            try:
                self._ready[key] = self._make(kind, capacity)
            except RuntimeError:
                if usual:
                    raise
                self._ready[key] = None
        return self._ready[key]

    def _make(self, kind: str, capacity: Capacity) -> Captured:
        if kind == "train":
            return self.training_step(capacity)
        return self._statistics_step(capacity) if kind == "norm" else self._evaluation_step(kind, capacity)

    def _evaluation_step(self, split: str, capacity: Capacity) -> Captured:
        batches, task, size = self.held_out[split], self.trainer.task, self._eval_size
        graphs, several = self._places(batches), batches.batch_size > size

        def step() -> None:
            batch = batches.fixed.gather(graphs, capacity)
            with torch.no_grad(), self._running(batch):
                rows = task.select_fixed(run_model(self.trainer.model, batch), batch)
                # Loss and metric are those of each batch, however many are run at once.
                for own in zip(*(part.split(size) for part in rows), strict=True) if several else [rows]:
                    self._sums.add(task.loss_of(*own), *own)

        return self._captured(step, self._sums)

    def _statistics_step(self, capacity: Capacity) -> Captured:
        graphs, averages = self._places(self.train), self._averages
        assert averages is not None

        def step() -> None:
            batch = self.train.fixed.gather(graphs, capacity)
            with torch.no_grad(), self._running(batch):
                run_model(self.trainer.model, batch)
                averages.add()

        return self._captured(step, self._sums, *averages.tensors)

    def _places(self, batches: Batches) -> Tensor:
        """The numbers of a batch's graphs, ``[B]``; none at first, which fits any capacity while a step is recorded."""
        return self._graphs[batches.batch_size].fill_(batches.fixed.nothing)

    def _captured(self, step: Callable[[], None], sums: Scores, *others: Tensor) -> Captured:
        trainer = self.trainer
        touched = [sums.loss.total, sums.metric.total, *others]

        def snapshot() -> Callable[[], None]:
            return snapshot_of(trainer.model, trainer.optimizer, trainer.scaler, touched, self.device, self._generators)

        return Captured(step, self._stream, snapshot=snapshot, pool=self._pool, generators=self._generators)

    @contextmanager
    def _running(self, batch: FixedBatch) -> Iterator[None]:
        with (
            padded(batch.capacities()),
            known_segments(batch.segments),
            autocast(self.device, self.trainer.options.precision),
        ):
            yield

    @contextmanager
    def _evaluating(self) -> Iterator[None]:
        with in_mode(self.trainer.model, training=False):
            yield

    @contextmanager
    def _rate_on_device(self) -> Iterator[None]:
        """The learning rate as a number of the device: a recorded step then follows when it changes."""
        if self.device.type != "cuda":
            yield
            return
        groups = self.trainer.optimizer.param_groups
        before = [(group["lr"], group["capturable"]) for group in groups]
        for group in groups:
            group["lr"], group["capturable"] = self._lr, torch.cuda.is_current_stream_capturing()
        try:
            yield
        finally:
            for group, (lr, capturable) in zip(groups, before, strict=True):
                group["lr"], group["capturable"] = lr, capturable


def _takes_graphs_alone(model: nn.Module) -> bool:
    """Whether a graph's result in evaluation is known not to depend on the graphs beside it, nor on random numbers."""
    return isinstance(model, GNN) and not model.random_features


def generators_of(model: nn.Module, device: torch.device) -> list[torch.Generator]:
    """Sources of randomness that modules of the model hold, those on ``device``."""
    found = [getattr(module, "generator", None) for module in model.modules()]
    return [own for own in found if isinstance(own, torch.Generator) and own.device.type == device.type]
