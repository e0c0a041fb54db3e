"""Captured steps for a set of graphs: every batch has one of a few capacities.

A batch is gathered on the device, inside the captured step, and padded to its capacity; all sums exclude padding.
"""

import copy
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from functools import partial
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn
from torch.nn.modules.dropout import _DropoutNd as _Dropout

from lrga.data.packed.padded import Capacity, PaddedBatch
from lrga.ops.attention.segments import known_segments
from lrga.ops.streams import in_parallel
from lrga.tasks.running import Scores
from lrga.training.capture.capacity import Batches, Work
from lrga.training.capture.engine import Captured, Engine
from lrga.training.determinism import order_generator, random_states, restore_random_states
from lrga.training.evaluate import autocast, in_mode, run_model

if TYPE_CHECKING:
    from lrga.training.problems.graphs import GraphProblem
    from lrga.training.trainer import Trainer

_KNOWN = ("lrga.", "torch.nn.", "torch_geometric.nn.dense.linear.")


class GraphEngine(Engine):
    """Runs the batches of a :class:`~lrga.training.problems.graphs.GraphProblem` with fixed capacities.

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
        >>> scores, targets, valid = step()
        >>> float(problem.sums.total) > 0
        True
    """

    def __init__(self, trainer: "Trainer", problem: "GraphProblem") -> None:
        super().__init__(trainer, problem)
        options, level = problem.options, problem.task.level
        self.train = Batches(problem.splits["train"].padded, options.batch_size, level)
        sizes = {options.batch_size, problem.eval_size}
        # Batch size → graph indices that the captured step reads.
        self._graphs = {size: torch.empty(size, dtype=torch.int64, device=self.device) for size in sizes}
        self._work = {
            split: Batches(graphs.padded, problem.eval_size, level, shuffled=False).of(torch.arange(len(graphs)))
            for split, graphs in problem.splits.items()
            if split != "train"
        }
        self._sums = Scores(problem.task, self.device)  # sums of an evaluation

    def prepare(self) -> None:
        self.problem.model.train()
        for capacity in self.train.capacities:
            self._step_of("train", capacity)
        with in_mode(self.problem.model, training=False):
            for split, work in self._work.items():
                for capacity in sorted({entry.capacity for entry in work}):
                    self._step_of(split, capacity)

    def put(self, graphs: Tensor) -> None:
        """Sets the graphs of the next run, ``[B]``."""
        self._graphs[graphs.size(0)].copy_(graphs)

    def training_step(self, capacity: Capacity) -> Captured:
        """The complete training step for batches of this capacity; the model must be in training mode."""
        self.set_rate()

        def learn(loss: Tensor) -> None:
            with self.rate_on_device():
                self.trainer.descend(loss)

        return self._step("train", capacity, self.problem.options.batch_size, self.problem.sums, learn)

    def _step(
        self, split: str, capacity: Capacity, size: int, sums: Scores, learn: Callable[[Tensor], None] | None = None
    ) -> Captured:
        """Captures a step that runs a batch, adds it to ``sums`` and returns scores, targets and ``valid``."""
        source, task = self.problem.splits[split].padded, self.problem.task
        double = any(parameter.dtype == torch.float64 for parameter in self.problem.model.parameters())
        weigh = partial(task.class_weights, dtype=torch.float64 if double else torch.float32)
        graphs = self._graphs[size].fill_(source.empty_graph)  # empty graphs fit any capacity during the capture

        def step() -> tuple[Tensor, Tensor, Tensor]:
            batch = source.gather(graphs, capacity)
            with torch.set_grad_enabled(learn is not None):
                with known_segments(batch.segments), autocast(self.device, self.problem.options.precision):
                    run = partial(run_model, self.problem.model, batch)
                    output, weights = in_parallel("sums", run, partial(weigh, batch))
                    scores, targets, valid = task.select_padded(output, batch)
                    loss = task.loss_of(scores, targets, valid, weights)
                if learn is None:
                    sums.add(loss, scores, targets, valid)
                else:
                    in_parallel("sums", partial(learn, loss), partial(sums.add, loss, scores, targets, valid))
            return scores.detach(), targets, valid

        return self.captured(step, sums.total, *sums.tensors.values())

    def describe(self) -> str:
        sizes = (f"{capacity.nodes:,} nodes and {capacity.edges:,} edges" for capacity in self.train.capacities)
        return f"captured steps for {', '.join(sizes)}"

    def rest_of_epoch(self) -> Iterator[Work]:
        order = self.problem.splits["train"].shuffled(order_generator(self.problem.seed, self.trainer.epoch))
        yield from self.train.of(order)[self.trainer.batch :]

    def step(self, work: Work) -> None:
        try:
            run = self._step_of("train", work.capacity)
        except RuntimeError:
            if work.capacity in self.train.capacities:
                raise
            # A rare batch, larger than the others; there is not enough memory to capture its step too.
            graphs = work.graphs[work.graphs < self.train.padded.empty_graph]
            self.trainer.step(self.problem.splits["train"].batch(graphs.cpu()))
            return
        self.put(work.graphs)
        self.set_rate()
        self.problem.sums.count(work.valid, run())
        self.trainer.end_step()
        self.trainer.guard.check_sum()

    def evaluate(self, split: str) -> Scores:
        self._sums.reset()
        with in_mode(self.problem.model, training=False):
            for work in self._work[split]:
                run = self._step_of(split, work.capacity)
                self.put(work.graphs)
                self._sums.count(work.valid, run())
        return self._sums

    def _step_of(self, split: str, capacity: Capacity) -> Captured:
        if split == "train":
            return self.recorded((split, capacity), partial(self.training_step, capacity))
        step = partial(self._step, split, capacity, self.problem.eval_size, self._sums)
        return self.recorded((split, capacity), step)

    def why_differs(self) -> str | None:
        """Compares a batch with much padding to the same batch without padding, in evaluation and training, without
        dropout, for models with modules that are neither ours nor PyTorch's.

        Such a module may use all rows at once. Models with randomness other than dropout are not compared.
        """
        problem, train = self.problem, self.train
        if all(map(_is_known, problem.model.modules())):
            return None
        size = min(len(problem.splits["train"]), train.batch_size)
        (work,) = train.of(torch.arange(max(size // 2, min(size, 2))))
        usual = train.capacities
        padded = train.padded.gather(work.graphs, usual[-1] if work.capacity in usual else work.capacity)
        plain = problem.splits["train"].batch(slice(0, int(padded.real["graph"])))
        tolerance = 1e-3 if problem.options.precision == "float32" else 3e-2
        random = random_states(self.device)
        try:
            for training in (False, True):
                expected, again, got = (self._outputs(batch, training) for batch in (plain, plain, padded))
                if all(_begins_with(again.get(name), value, 1e-3) for name, value in expected.items()):
                    for name, value in expected.items():
                        if not _begins_with(got.get(name), value, tolerance):
                            return f"padding changes the output of {type(problem.model.get_submodule(name)).__name__}"
        finally:
            restore_random_states(random, self.device)
        return None

    def _outputs(self, batch: Any, training: bool) -> dict[str, Tensor]:
        """Outputs, by name, of a copy of the model without dropout and of each third-party module in it."""
        model, outputs = copy.deepcopy(self.problem.model).train(training), {}

        def note(name: str, _: nn.Module, __: Any, result: Any) -> None:
            if isinstance(result, Tensor) and result.is_floating_point():
                outputs[name] = result.detach()

        for name, module in model.named_modules():
            for rate in ("p", "dropout") if isinstance(module, _Dropout) else ("dropout",):
                if isinstance(getattr(module, rate, None), float):
                    setattr(module, rate, 0.0)
            if module is model or not _is_known(module):
                module.register_forward_hook(partial(note, name))
        segments = known_segments(batch.segments) if isinstance(batch, PaddedBatch) else nullcontext()
        with torch.no_grad(), segments, autocast(self.device, self.problem.options.precision):
            run_model(model, batch)
        return outputs


def _is_known(module: nn.Module) -> bool:
    return f"{type(module).__module__}.".startswith(_KNOWN)


def _begins_with(got: Tensor | None, expected: Tensor, tolerance: float) -> bool:
    """Whether the first rows equal the expected ones."""
    if got is not None and expected.dim() and got.dim():
        got = got[: expected.size(0)]
    if got is None or got.shape != expected.shape:
        return False
    scale = float(expected.abs().max()) if expected.numel() else 0.0
    return bool(((got - expected).abs() <= tolerance * max(scale, 1e-6)).all())
