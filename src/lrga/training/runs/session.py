"""One run while it trains: made from its configuration, taken up where it was left, carried on batch by batch."""

from collections.abc import Iterator
from contextlib import contextmanager

import torch

from lrga.errors import OutOfMemoryError
from lrga.training.callbacks.events import Listener, RunFacts
from lrga.training.config import TrainingConfig
from lrga.training.determinism import seed_torch
from lrga.training.evaluate import in_target_units
from lrga.training.parallel import checkpointer_class
from lrga.training.problems.kinds import RunData
from lrga.training.runs.environment import environment
from lrga.training.runs.folder import RunFolder
from lrga.training.runs.result import FINISHED, TrainingResult
from lrga.training.runs.resume import begin_folder, restored
from lrga.training.runs.signals import Interrupted, StopRequest
from lrga.training.trainer import Trainer


class Session:
    """A run in its folder, whose lock the caller holds.

    Args:
        folder: The folder, checked (:func:`lrga.training.runs.resume.check_folder`).
        config: The configuration.
        run: Data, task and network, on the device to train on.
        fingerprint: Of the data.
        listener: Is told what happens.
        request: Of the user to stop.
        deadline: On the clock ``time.monotonic``, when to pause.
    """

    def __init__(
        self,
        folder: RunFolder,
        config: TrainingConfig,
        run: RunData,
        fingerprint: str,
        listener: Listener,
        request: StopRequest,
        deadline: float | None,
    ) -> None:
        self.folder, self.config, self.listener = folder, config, listener
        device = run.device
        seed_torch(config.run.seed)
        stages = run.stages(run.architecture.build().to(device), config)
        checkpointer = checkpointer_class()(folder, listener, request, config.run.checkpoint_minutes, deadline)
        self.trainer = Trainer(*stages, listener=listener, checkpointer=checkpointer, engine=config.run.engine)
        found = restored(folder, self.trainer)
        begin_folder(folder, config, run, fingerprint, found)
        # The loop that trains says so itself where there is a choice.
        loop = {"engine": "plain"} if config.run.engine == "plain" else {}
        folder.add_environment({**environment(device), **loop})
        problem = self.trainer.problem
        self.facts = RunFacts(
            config=config,
            task=run.task,
            parameters=run.architecture.size(),
            graphs=run.sizes,
            device=str(device),
            folder=folder.path,
            epoch=self.trainer.epoch,
            batch=self.trainer.batch,
            batches=problem.batches,
            unit=stages[-1].unit,
            notes=run.notes,
        )
        self.result: TrainingResult | None = None

    def steps(self) -> Iterator[None]:
        """Trains one batch after the other, to the end or until it is to pause; then there is a :attr:`result`."""
        trainer, folder = self.trainer, self.folder
        try:
            self.listener.started(self.facts)
            verb = "continues" if any(trainer.position) else "starts"
            folder.log(f"{verb} at epoch {trainer.epoch + 1} on {self.facts.device}")
            for note in self.facts.notes:
                folder.log(f"data: {note}")
            with out_of_memory_explained(self.config):
                yield from trainer.steps()
            folder.log(f"stops after {trainer.epoch} epochs: {trainer.ended}")
            self.result = self._result(trainer.ended)
            self.listener.stopped(trainer.ended)
        finally:
            self.listener.closed()

    def outcome(self, request: StopRequest) -> TrainingResult:
        """The result; where the user stopped the run, the exception that says how to continue."""
        assert self.result is not None
        if self.result.stopped_by == "interrupted":
            name = request.received or "SIGINT"
            again = f"lrga train --resume {self.folder.path}"
            raise Interrupted(f"Stopped by {name} after writing a checkpoint. Continue with: {again}", name)
        return self.result

    def _result(self, reason: str) -> TrainingResult:
        trainer, folder = self.trainer, self.folder
        weights, task = trainer.weights(), self.facts.task
        result = TrainingResult(
            stopped_by=reason,
            metric=task.metric,
            last=trainer.last,
            best=None if trainer.best is None else trainer.best.record,
            epochs=trainer.records,
            seconds=round(trainer.seconds, 3),
            parameters=self.facts.parameters,
            seed=self.config.run.seed,
            folder=folder.path,
            history=folder.history(),
            model=in_target_units(trainer.problem.whole_model(weights), task).eval(),
            reported=self.config.reported,
        )
        if reason in FINISHED and trainer.best is not None:
            folder.save_result(result.to_json(), {"model": weights, "best": trainer.best.weights})
        return result


@contextmanager
def out_of_memory_explained(config: TrainingConfig) -> Iterator[None]:
    """Turns PyTorch's out-of-memory errors into one that says what to do."""
    try:
        yield
    except (torch.OutOfMemoryError, MemoryError, RuntimeError) as error:
        first = (str(error).splitlines() or [""])[0]
        if not isinstance(error, torch.OutOfMemoryError | MemoryError) and "can't allocate memory" not in first:
            raise
        remedies = ["a smaller --batch-size", "a smaller --hidden"]
        if not config.run.recompute_layers:
            remedies.insert(0, "--recompute-layers (activation checkpointing)")
        remedy = f"take {', '.join(remedies[:-1])} or {remedies[-1]}"
        raise OutOfMemoryError("a training step that fits into memory", first[:200], remedy) from error
