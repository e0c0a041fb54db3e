"""One run while it trains: made from its configuration, taken up where it was left, carried on batch by batch."""

from collections.abc import Iterator

from lrga.training.architecture import Architecture
from lrga.training.callbacks.events import Listener, RunFacts
from lrga.training.config import TrainingConfig
from lrga.training.determinism import seed_torch
from lrga.training.evaluate import in_target_units
from lrga.training.memory import keep_to_limit, plan_limit
from lrga.training.parallel import agree, keeper_class, trainer_class
from lrga.training.problems.graph_data import TrainingData
from lrga.training.runs.environment import environment
from lrga.training.runs.folder import RunFolder
from lrga.training.runs.result import FINISHED, TrainingResult
from lrga.training.runs.resume import begin_folder, restored
from lrga.training.runs.signals import Interrupted, StopRequest
from lrga.training.runs.state import restore


class Session:
    """A run in its folder, whose lock the caller holds.

    Args:
        home: The folder, checked (:func:`lrga.training.runs.resume.check_folder`).
        config: The configuration.
        architecture: The network.
        graphs: On the device to train on.
        fingerprint: Of the graphs.
        listener: Is told what happens.
        request: Of the user to stop.
        deadline: On the clock ``time.monotonic``, when to pause.
    """

    def __init__(
        self,
        home: RunFolder,
        config: TrainingConfig,
        architecture: Architecture,
        graphs: TrainingData,
        fingerprint: str,
        listener: Listener,
        request: StopRequest,
        deadline: float | None,
    ) -> None:
        self.home, self.config, self.listener = home, config, listener
        device = graphs.splits["train"].device
        seed_torch(config.run.seed)
        model = architecture.build().to(device)
        self.trainer = trainer_class()(
            model,
            graphs.task,
            graphs.splits,
            config.optimizer,
            seed=config.run.seed,
            listener=listener,
            keeper=keeper_class()(home, listener, request, config.run.checkpoint_minutes, deadline),
            engine=config.run.engine,
        )
        found = restored(home, self.trainer, restore)
        agree(self.trainer)
        plan = plan_limit(self.trainer, config.run.memory_limit)
        begin_folder(home, config, architecture, graphs.task, fingerprint, found, graphs.features)
        # The loop that trains says so itself where there is a choice.
        loop = {"engine": "plain"} if config.run.engine == "plain" else {}
        home.add_environment({**environment(device), **loop})
        if plan is not None:
            keep_to_limit(self.trainer, plan)
        self.facts = RunFacts(
            config=config,
            task=graphs.task,
            parameters=sum(p.numel() for p in model.parameters()),
            graphs={split: len(part) for split, part in graphs.splits.items()},
            device=str(device),
            folder=home.path,
            epoch=self.trainer.epoch,
            batch=self.trainer.batch,
            batches=self.trainer.batches,
            notes=graphs.notes,
        )
        self.result: TrainingResult | None = None

    def steps(self) -> Iterator[None]:
        """Trains one batch after the other, to the end or until it is to pause; then there is a :attr:`result`."""
        trainer, home = self.trainer, self.home
        try:
            self.listener.started(self.facts)
            verb = "continues" if trainer.epoch or trainer.batch else "starts"
            home.log(f"{verb} at epoch {trainer.epoch + 1} on {self.facts.device}")
            for note in self.facts.notes:
                home.log(f"data: {note}")
            yield from trainer.steps()
            home.log(f"stops after {trainer.epoch} epochs: {trainer.ended}")
            self.result = self._result(trainer.ended)
            self.listener.stopped(trainer.ended)
        finally:
            self.listener.closed()

    def outcome(self, request: StopRequest) -> TrainingResult:
        """The result; where the user stopped the run, the exception that says how to continue."""
        assert self.result is not None
        if self.result.stopped_by == "interrupted":
            name = request.received or "SIGINT"
            again = f"lrga train --resume {self.home.path}"
            raise Interrupted(f"Stopped by {name} after writing a checkpoint. Continue with: {again}", name)
        return self.result

    def _result(self, reason: str) -> TrainingResult:
        trainer, home = self.trainer, self.home
        result = TrainingResult(
            stopped_by=reason,
            metric=trainer.task.metric,
            last=trainer.last,
            best=None if trainer.best is None else trainer.best.record,
            epochs=trainer.epoch,
            seconds=round(trainer.seconds, 3),
            parameters=self.facts.parameters,
            seed=self.config.run.seed,
            folder=home.path,
            history=home.history(),
            model=in_target_units(trainer.model, trainer.task).eval(),
        )
        if reason in FINISHED and trainer.best is not None:
            home.save_result(result.to_json(), {"model": trainer.model.state_dict(), "best": trainer.best.weights})
        return result
