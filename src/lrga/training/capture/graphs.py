"""Captured steps on a set of graphs: every batch has one of a few capacities.

A batch is gathered on the device, inside the recorded step, and padded to its capacity; padding is left out of every
sum. Where predictions belong to graphs, one step evaluates several batches, with loss and metric of each.
"""

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn
from torch.nn.modules.dropout import _DropoutNd as _Dropout

from lrga.data.packed.padded import Capacity, PaddedBatch
from lrga.models.gnn import GNN
from lrga.ops.attention.segments import known_segments
from lrga.training.capture.capacity import Batches, Work
from lrga.training.capture.engine import Captured, Engine
from lrga.training.determinism import NORM_STREAM, order_generator, random_states, restore_random_states
from lrga.training.evaluate import Averages, Scores, autocast, in_mode, run_model

if TYPE_CHECKING:
    from lrga.training.problems.graphs import GraphProblem
    from lrga.training.trainer import Trainer

MAX_BATCHES_AT_ONCE = 4  # batches of small graphs that one captured step evaluates
MAX_ROWS_AT_ONCE = 2**19  # nodes and edges of a step that evaluates several batches, at most
_KNOWN = ("lrga.", "torch.nn.", "torch_geometric.nn.dense.linear.")
_Output = tuple[str, Tensor]  # the class of a module and what it returned


class GraphEngine(Engine):
    """Runs the batches of a :class:`~lrga.training.problems.graphs.GraphProblem` in fixed capacities.

    Example:
        >>> import lrga
        >>> from torch_geometric.data import Data
        >>> from lrga.data.packed import PackedGraphs
        >>> from lrga.tasks import Task
        >>> from lrga.training import GraphProblem, OptimizerConfig, Trainer
        >>> path = torch.tensor([[0, 1], [1, 0]])
        >>> data = [Data(x=torch.rand(2, 3), edge_index=path, y=torch.tensor([0.5])) for _ in range(4)]
        >>> splits = {name: PackedGraphs.from_data_list(data, y_level="graph") for name in ("train", "val", "test")}
        >>> model = lrga.GNN(3, 8, 1, 1, task="graph")
        >>> task = Task(level="graph", kind="regression", out_channels=1)
        >>> problem = GraphProblem(model, task, splits, OptimizerConfig(batch_size=2))
        >>> engine = GraphEngine(Trainer(problem), problem)
        >>> step = engine.training_step(engine.train.capacities[0])
        >>> engine.put(torch.tensor([0, 3]))  # which graphs
        >>> step()
        >>> float(problem.sums.loss.total) > 0
        True
    """

    def __init__(self, trainer: "Trainer", problem: "GraphProblem") -> None:
        super().__init__(trainer)
        self.problem = problem
        options, level = problem.options, problem.task.level
        self.train = Batches(problem.splits["train"].padded, options.batch_size, level)
        self.held_out: dict[str, Batches] = {}
        self._work: dict[str, list[Work]] = {}
        self._counts: dict[str, list[int]] = {}  # predictions that count in each batch
        for split in problem.splits:
            if split != "train":
                self._plan_evaluation(split)
        sizes = {options.batch_size, *(batches.batch_size for batches in self.held_out.values())}
        self._graphs = {size: torch.empty(size, dtype=torch.int64, device=self.device) for size in sizes}
        self._sums = Scores(problem.task, self.device)  # of an evaluation
        problem.sums.metric.reserve(int(self.train.padded.valid_per_graph(level).sum()))
        self._sums.metric.reserve(max(map(sum, self._counts.values()), default=0))
        self._averages = Averages(problem.model) if options.recalibrate_norm else None

    def _plan_evaluation(self, split: str) -> None:
        """The batches of a split; several in one step where a graph's result does not depend on its batch."""
        graphs, level = self.problem.splits[split], self.problem.task.level
        batches = Batches(graphs.padded, self.problem.eval_size, level, shuffled=False)
        order = torch.arange(len(graphs))
        work = batches.of(order)
        self._counts[split] = [entry.valid for entry in work]
        # A graph's result in evaluation is known not to depend on the graphs beside it, nor on random numbers.
        if level == "graph" and isinstance(self.problem.model, GNN) and not self.problem.model.random_features:
            largest = max(entry.capacity.nodes + entry.capacity.edges for entry in work)
            several = min(MAX_BATCHES_AT_ONCE, len(work), MAX_ROWS_AT_ONCE // largest)
            if several > 1:
                batches = Batches(graphs.padded, several * self.problem.eval_size, level, shuffled=False)
                work = batches.of(order)
        self.held_out[split], self._work[split] = batches, work

    def prepare(self) -> None:
        self.problem.model.train()
        for capacity in self.train.capacities:
            self._step_of("train", capacity)
        with in_mode(self.problem.model, training=False):
            for split, work in self._work.items():
                for capacity in sorted({entry.capacity for entry in work}):
                    self._step_of(split, capacity)

    def put(self, graphs: Tensor) -> None:
        """Says which graphs the next run takes, ``[B]``."""
        self._graphs[graphs.size(0)].copy_(graphs)

    def training_step(self, capacity: Capacity) -> Captured:
        """The whole step of the optimiser for batches of that capacity; the model must be in training mode."""
        graphs, source, problem = self._places(self.train), self.train.padded, self.problem
        self.set_rate()

        def step() -> None:
            batch = source.gather(graphs, capacity)
            with self._running(batch):
                scores, targets, valid = problem.task.select_padded(run_model(problem.model, batch), batch)
                loss = problem.task.loss_of(scores, targets, valid)
            with self.rate_on_device():
                self.trainer.descend(loss)
            problem.sums.add(loss, scores, targets, valid)

        return self._captured(step, problem.sums)

    def describe(self) -> str:
        sizes = (f"{capacity.nodes:,} nodes and {capacity.edges:,} edges" for capacity in self.train.capacities)
        return f"captured steps for {', '.join(sizes)}"

    def rest_of_epoch(self) -> Iterator[Work]:
        order = self.problem.splits["train"].shuffled(order_generator(self.problem.seed, self.trainer.epoch))
        yield from self.train.of(order)[self.trainer.batch :]

    def step(self, work: Work) -> None:
        trainer = self.trainer
        run = self._step_of("train", work.capacity)
        if run is None:  # a batch too large to be recorded
            real = work.graphs[work.graphs < self.train.padded.empty_graph]
            trainer.step(self.problem.splits["train"].batch(real.cpu()))
            return
        self.put(work.graphs)
        self.set_rate()
        run()
        self.problem.sums.count(work.valid)
        trainer.end_step()
        trainer.guard.check_sum()

    def evaluate(self, split: str) -> tuple[float, float]:
        self._sums.reset()
        with in_mode(self.problem.model, training=False):
            for work in self._work[split]:
                self._run(split, work)
        for valid in self._counts[split]:
            self._sums.count(valid)
        return self._sums.means()

    def recalibrate_norm(self) -> None:
        problem, averages = self.problem, self._averages
        if averages is None or not averages.norms:
            return
        order = problem.splits["train"].shuffled(order_generator(problem.seed, self.trainer.epoch, stream=NORM_STREAM))
        with in_mode(problem.model, training=False), averages.taking():
            for work in self.train.of(order)[: problem.options.recalibrate_norm]:
                self._run("norm", work)

    def _step_of(self, kind: str, capacity: Capacity) -> Captured | None:
        key = (kind, capacity)
        if key not in self._ready:
            make = {"train": self.training_step, "norm": self._statistics_step}.get(kind)
            try:
                self._ready[key] = self._evaluation_step(kind, capacity) if make is None else make(capacity)
            except RuntimeError:
                if kind != "train" or capacity in self.train.capacities:
                    raise
                self._ready[key] = None
        return self._ready[key]

    def _run(self, kind: str, work: Work) -> None:
        """A step that changes no weights."""
        step = self._step_of(kind, work.capacity)
        assert step is not None
        self.put(work.graphs)
        step()

    def _evaluation_step(self, split: str, capacity: Capacity) -> Captured:
        batches, task, size = self.held_out[split], self.problem.task, self.problem.eval_size
        graphs, several = self._places(batches), batches.batch_size > size

        def step() -> None:
            batch = batches.padded.gather(graphs, capacity)
            with torch.no_grad(), self._running(batch):
                rows = task.select_padded(run_model(self.problem.model, batch), batch)
                # Loss and metric are those of each batch, however many are run at once.
                for own in zip(*(part.split(size) for part in rows), strict=True) if several else [rows]:
                    self._sums.add(task.loss_of(*own), *own)

        return self._captured(step, self._sums)

    def _statistics_step(self, capacity: Capacity) -> Captured:
        graphs, averages = self._places(self.train), self._averages
        assert averages is not None

        def step() -> None:
            batch = self.train.padded.gather(graphs, capacity)
            with torch.no_grad(), self._running(batch):
                run_model(self.problem.model, batch)
                averages.add()

        return self._captured(step, self._sums, *averages.tensors)

    def _places(self, batches: Batches) -> Tensor:
        """The numbers of a batch's graphs, ``[B]``; none at first, which fits any capacity while a step is recorded."""
        return self._graphs[batches.batch_size].fill_(batches.padded.empty_graph)

    def _captured(self, step: Callable[[], None], sums: Scores, *others: Tensor) -> Captured:
        return self.captured(step, sums.loss.total, sums.metric.total, *others)

    @contextmanager
    def _running(self, batch: PaddedBatch) -> Iterator[None]:
        with known_segments(batch.segments), autocast(self.device, self.problem.options.precision):
            yield

    def why_differs(self) -> str | None:
        """Compares a batch with much padding to the same without, for models with modules that are neither ours nor
        PyTorch's, in evaluation and in training, dropout aside.

        Such a module may well look at all rows at once. A model that is random beyond its dropout is not compared.
        """
        problem, train = self.problem, self.train
        outside = [m for m in problem.model.modules() if not f"{type(m).__module__}.".startswith(_KNOWN)]
        if not outside:
            return None
        size = min(len(problem.splits["train"]), train.batch_size)
        (work,) = train.of(torch.arange(max(size // 2, min(size, 2))))
        usual = train.capacities
        batch = train.padded.gather(work.graphs, usual[-1] if work.capacity in usual else work.capacity)
        plain = problem.splits["train"].batch(slice(0, int(batch.real["graph"])))
        tolerance = 1e-3 if problem.options.precision == "float32" else 3e-2
        for training in (False, True):
            with _undone(problem), in_mode(problem.model, training=training), _seen(outside) as seen:
                expected, again = _outputs(problem, plain, seen), _outputs(problem, plain, seen)
                with known_segments(batch.segments):
                    got = _outputs(problem, batch, seen)
            if _first_differing(again, expected, 1e-3) is None:
                culprit = _first_differing(got, expected, tolerance)
                if culprit is not None:
                    return f"padding changes what {culprit} computes"
        return None


def _outputs(problem: "GraphProblem", batch: Any, seen: list[_Output]) -> list[_Output]:
    """What each module that is watched gives for a batch, and the model."""
    seen.clear()
    with torch.no_grad(), autocast(problem.device, problem.options.precision):
        result = run_model(problem.model, batch)
    return [*seen, (type(problem.model).__name__, result)]


def _first_differing(got: list[_Output], expected: list[_Output], tolerance: float) -> str | None:
    """The first output whose first rows are not those expected; the last where there are more or fewer of them."""
    for (name, one), (_, other) in zip(got, expected, strict=False):
        if not _begins_with(one, other, tolerance):
            return name
    return None if len(got) == len(expected) else expected[-1][0]


def _begins_with(got: Tensor, expected: Tensor, tolerance: float) -> bool:
    if expected.dim() and got.dim():
        got = got[: expected.size(0)]
    if got.shape != expected.shape:
        return False
    scale = float(expected.abs().max()) if expected.numel() else 0.0
    return bool(((got - expected).abs() <= tolerance * max(scale, 1e-6)).all())


@contextmanager
def _seen(modules: list[nn.Module]) -> Iterator[list[_Output]]:
    """Notes the tensors that modules return while it lasts."""
    outputs: list[_Output] = []

    def note(module: nn.Module, _: Any, result: Any) -> None:
        if isinstance(result, Tensor) and result.is_floating_point():
            outputs.append((type(module).__name__, result.detach().clone()))

    with ExitStack() as stack:
        for module in modules:
            stack.callback(module.register_forward_hook(note).remove)
        yield outputs


@contextmanager
def _undone(problem: "GraphProblem") -> Iterator[None]:
    """Without dropout while it lasts; buffers and random states come back."""
    rates = [
        (module, name, rate)
        for module in problem.model.modules()
        for name in ("p", "dropout")
        if isinstance(rate := getattr(module, name, None), float)
        and (name == "dropout" or isinstance(module, _Dropout))
    ]
    buffers = [(buffer, buffer.clone()) for buffer in problem.model.buffers()]
    random = random_states(problem.device)
    try:
        for module, name, _ in rates:
            setattr(module, name, 0.0)
        yield
    finally:
        for module, name, rate in rates:
            setattr(module, name, rate)
        with torch.no_grad():
            for buffer, value in buffers:
                buffer.copy_(value)
        restore_random_states(random, problem.device)
