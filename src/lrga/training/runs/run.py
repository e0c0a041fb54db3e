"""Training in one call: from a configuration to a result, in a run folder that survives crashes."""

import os
import shlex
import signal
import threading
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from types import FrameType
from typing import Any

import torch
from torch import nn

from lrga.distributed.launch.process_group import leader_first
from lrga.errors import CheckpointError, OptionError, OutOfMemoryError
from lrga.io.limits import first_line
from lrga.training.callbacks.base import Callback, RunFacts
from lrga.training.callbacks.tensorboard import TensorBoardLog
from lrga.training.config import TrainingConfig
from lrga.training.determinism import choose_device, deterministic, forked_devices
from lrga.training.evaluate import in_target_units
from lrga.training.parallel import broadcast, on_all_ranks
from lrga.training.problems.data import Given, RunData, load_run_data
from lrga.training.runs.checkpoint import FolderCheckpointer, damage_explained, restore
from lrga.training.runs.environment import environment
from lrga.training.runs.folder import FINISHED, RunFolder, TrainingResult
from lrga.training.runs.trust import data_from_file
from lrga.training.trainer import Trainer

_SIGNALS = ("SIGINT", "SIGTERM", "SIGHUP", "SIGUSR1")
PAUSED = 3  # exit code after SIGUSR1, a batch system's signal before the end of a job: the same command resumes


class Interrupted(KeyboardInterrupt):
    """Training was stopped by a signal after writing a checkpoint; the message says how to continue.

    Args:
        message: How to resume.
        name: Name of the signal.
    """

    def __init__(self, message: str, name: str = "SIGINT") -> None:
        super().__init__(message)
        # 128 + N: the exit code of shells for signal N
        self.exit_code = PAUSED if name == "SIGUSR1" else 128 + int(signal.Signals[name])


class StopRequest:
    """Inside the block, the first Ctrl-C (or SIGTERM, SIGUSR1, or SIGHUP unless ignored) only sets :attr:`received`; a
    second one stops immediately.

    No effect outside the main thread, because Python delivers signals only there.
    """

    def __init__(self) -> None:
        self.received: str | None = None
        self._previous: dict[int, Any] = {}
        self._terminals = [number for number in (1, 2) if os.isatty(number)]

    def __enter__(self) -> "StopRequest":
        if threading.current_thread() is threading.main_thread():
            for name in _SIGNALS:
                number = getattr(signal, name, None)  # Windows has no SIGHUP
                # nohup ignores SIGHUP, so that the run continues when the terminal closes
                if number is not None and not (name == "SIGHUP" and signal.getsignal(number) == signal.SIG_IGN):
                    self._previous[number] = signal.signal(number, self._receive)
        return self

    def __exit__(self, *_: object) -> None:
        for number, handler in self._previous.items():
            signal.signal(number, handler)
        self._previous = {}

    def _receive(self, number: int, frame: FrameType | None) -> None:
        del frame
        if self.received is not None:
            raise KeyboardInterrupt
        self.received = signal.Signals(number).name
        for terminal in self._terminals:
            if not os.isatty(terminal):  # closed: printing must not fail before the checkpoint is written
                os.dup2(os.open(os.devnull, os.O_WRONLY), terminal)


class Session:
    """A run in its folder, new or restored from the newest valid checkpoint; the caller must hold the folder's lock.

    All checks come before the first write, so a failed start leaves the folder unchanged.

    ``run`` and ``fingerprint`` are the data on the training device and their checksum; ``deadline`` is in the time of
    ``time.monotonic``; with ``extend`` the run in the folder may have another number of epochs.
    """

    def __init__(
        self,
        folder: RunFolder,
        config: TrainingConfig,
        run: RunData,
        fingerprint: str,
        callbacks: Iterable[Callback],
        request: StopRequest,
        deadline: float | None,
        *,
        extend: bool = False,
    ) -> None:
        self.folder, self.config, device = folder, config, run.data.device
        if folder.holds_a_run:
            self._check_same_run(run, fingerprint, extend)
        else:
            folder.check_new()
        torch.manual_seed(config.run.seed)
        stages = run.stages(run.architecture.build().to(device), config)
        checkpointer = FolderCheckpointer(folder, request, config.run.checkpoint_minutes, deadline)
        callbacks = [*callbacks, *([TensorBoardLog()] if config.run.tensorboard else [])]
        self.trainer = Trainer(*stages, callbacks=callbacks, checkpointer=checkpointer, engine=config.run.engine)
        checkpoint, problems = broadcast(folder.checkpoint())
        if checkpoint is not None:
            restore(self.trainer, checkpoint.parts, checkpoint.state)
            _check_epochs(self.trainer.epoch, self.trainer.problem.options.max_epochs)
        elif folder.holds_a_run and folder.result() is not None:
            remedy = "restore the folder checkpoints, or train again in another folder"
            raise CheckpointError(f"a checkpoint in {folder.path} to continue from", "none", remedy)
        if folder.holds_a_run:
            folder.continue_with(config)
        else:
            folder.create(config, run.architecture, run.task, fingerprint, run.features)
        for text in problems:
            folder.log(f"skipped a damaged checkpoint: {text}")
        folder.cut_metrics(0 if checkpoint is None else checkpoint.state["metrics_bytes"])
        # If there is a choice, start_engine records the loop.
        loop = {"engine": "plain"} if config.run.engine == "plain" else {}
        folder.add_environment({**environment(device), **loop})
        self.facts = RunFacts(
            config=config,
            task=run.task,
            parameters=run.architecture.size(),
            graphs=run.sizes,
            device=str(device),
            folder=folder.path,
            epoch=self.trainer.epoch,
            batch=self.trainer.batch,
            batches=self.trainer.problem.batches,
            unit=stages[-1].unit,
            notes=run.notes,
        )
        self.result: TrainingResult | None = None

    def _check_same_run(self, run: RunData, fingerprint: str, extend: bool) -> None:
        folder = self.folder
        # Checked again: another process may have started a run while this one waited for the lock or read its data.
        folder.check_same(self.config, ignore=("max_epochs",) if extend else ())
        architecture, task, seen = folder.model_facts()
        if seen != fingerprint:
            remedy = "restore the original data, or train in another folder"
            raise CheckpointError(f"the data that {folder.path} was trained on", "other data of the same name", remedy)
        if (architecture.to_json(), task.to_json()) != (run.architecture.to_json(), run.task.to_json()):
            remedy = "continue with the version of lrga that started it, or train in another folder"
            raise CheckpointError(f"the network of {folder.path}", "another network for the same configuration", remedy)
        names = folder.features()
        if names is not None and _inputs(names) != _inputs(run.features):
            remedy = "restore the column names, or train in another folder"
            expected = f"the features that {folder.path} was trained on ({_inputs(names)})"
            raise CheckpointError(expected, f"{_inputs(run.features)}", remedy)
        folder.check_files()

    def steps(self) -> Iterator[None]:
        """Trains batch by batch, to the end or until a pause; then sets :attr:`result`."""
        trainer, folder = self.trainer, self.folder
        try:
            trainer.notify("on_start", self.facts)
            verb = "continues" if any(trainer.position) else "starts"
            folder.log(f"{verb} at epoch {trainer.epoch + 1} on {self.facts.device}")
            for note in self.facts.notes:
                folder.log(f"data: {note}")
            with out_of_memory_explained(self.config):
                yield from trainer.steps()
            folder.log(f"stops after {trainer.epoch} epochs: {trainer.ended}")
            self.result = self._result(trainer.ended)
            trainer.notify("on_end", trainer.ended)
        finally:
            trainer.notify("on_close")

    def outcome(self, request: StopRequest) -> TrainingResult:
        """The result; raises :class:`Interrupted` if the user stopped the run."""
        assert self.result is not None
        if self.result.stopped_by == "interrupted":
            name = request.received or "SIGINT"
            again = f"lrga train --resume {self.folder.path}"
            raise Interrupted(f"Stopped by {name} after writing a checkpoint. Continue with: {again}", name)
        return self.result

    def _result(self, reason: str) -> TrainingResult:
        trainer, folder, task = self.trainer, self.folder, self.facts.task
        weights = trainer.weights()
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
    """Converts PyTorch's out-of-memory errors to an error with a remedy."""
    try:
        yield
    except (torch.OutOfMemoryError, MemoryError, RuntimeError) as error:
        first = first_line(error)
        if not isinstance(error, torch.OutOfMemoryError | MemoryError) and "can't allocate memory" not in first:
            raise
        remedies = ["a smaller --batch-size", "a smaller --hidden"]
        if not config.run.recompute_layers:
            remedies.insert(0, "--recompute-layers (activation checkpointing)")
        remedy = f"use {', '.join(remedies[:-1])} or {remedies[-1]}"
        raise OutOfMemoryError("a training step that fits into memory", first, remedy) from error


@on_all_ranks
def train(
    config: TrainingConfig,
    folder: str | Path | None = None,
    *,
    data: Given = None,
    callbacks: Iterable[Callback] = (),
    time_limit: float | None = None,
    extend: bool = False,
) -> TrainingResult:
    """Trains a model, or resumes a run of the same call.

    Args:
        config: The configuration.
        folder: The run folder. If it already contains this run, training resumes from the last checkpoint, or the
            result of a finished run is returned; a different run in the folder is an error. By default a new folder
            in ``runs``.
        data: The data, instead of those that ``config.data`` names (see
            :func:`~lrga.training.problems.data.load_run_data`).
        callbacks: Called during training, e.g. :func:`lrga.training.callbacks.terminal.ProgressDisplay`.
        time_limit: Minutes after which training pauses; repeat the call to resume.
        extend: Whether the run in the folder may have another number of epochs.

    Returns:
        The result. On Ctrl-C a checkpoint is written and :class:`~lrga.training.runs.run.Interrupted` raised.

    Example:
        >>> import tempfile
        >>> from lrga.training import DataConfig, ModelConfig, OptimizerConfig, TrainingConfig
        >>> root = tempfile.mkdtemp()
        >>> config = TrainingConfig(
        ...     data=DataConfig(name="CLUSTER", root=root, options={"sizes": (8, 4, 4)}),
        ...     model=ModelConfig(hidden=16, layers=2),
        ...     optimizer=OptimizerConfig(max_epochs=2, batch_size=4),
        ... )
        >>> result = train(config, root + "/run")
        >>> result.epochs, result.finished, result.metric
        (2, True, 'weighted_accuracy_by_batch')
    """
    deadline = deadline_after(time_limit)
    run_folder = RunFolder(new_folder(config) if folder is None else folder)
    if (found := finished_result(run_folder, config, extend=extend)) is not None:
        return found
    with leader_first():  # the leader may have to build the data
        run = load_run_data(config, data)
    device = choose_device(config.run.device)
    with run_folder.lock(), torch.random.fork_rng(forked_devices(device)):
        fingerprint = run.data.fingerprint()
        with StopRequest() as request, deterministic(config.run.deterministic):
            run = run.to(device)
            session = Session(run_folder, config, run, fingerprint, callbacks, request, deadline, extend=extend)
            for _ in session.steps():
                continue
    return session.outcome(request)


def deadline_after(time_limit: float | None) -> float | None:
    """The time of ``time.monotonic`` at which a run with this limit in minutes pauses."""
    if time_limit is None:
        return None
    if not time_limit > 0:
        raise OptionError("a time limit above 0 minutes", repr(time_limit), "pass for example 60")
    return time.monotonic() + 60 * time_limit


def continue_run(
    folder: str | Path,
    config: TrainingConfig | None = None,
    *,
    data: Given = None,
    callbacks: Iterable[Callback] = (),
    time_limit: float | None = None,
    max_epochs: int | None = None,
    device: str | None = None,
    trust: bool = False,
) -> TrainingResult:
    """Resumes the run of a folder.

    Args:
        folder: The run folder.
        config: The expected configuration, if any; a different one in the folder raises an error.
        data: As in :func:`train`.
        callbacks: As in :func:`train`.
        time_limit: As in :func:`train`.
        max_epochs: A new number of epochs; a run that reached the old number continues.
        device: A new device for training.
        trust: Whether a ``module:factory`` that only the folder names may be imported and its data root written to
            (:mod:`lrga.training.runs.trust`). Names in ``config`` are always trusted.
    """
    run_folder = RunFolder(folder)
    written = run_folder.config()
    if config is None and data is None:
        command = f"lrga train {written.data.name} --resume {shlex.quote(str(folder))}"
        written = replace(written, data=data_from_file(written.data, folder, trust=trust, command=command))
    if config is not None:
        run_folder.check_same(config, ignore=("max_epochs",))
    config, extend = config or written, max_epochs is not None
    config = config.changed(max_epochs=max_epochs if extend else written.optimizer.max_epochs)
    config = config.changed(device=config.run.device if device is None else device)
    return train(config, folder, data=data, callbacks=callbacks, time_limit=time_limit, extend=extend)


def load_run(folder: str | Path, *, which: str = "last", device: str = "cpu") -> tuple[nn.Module, TrainingConfig]:
    """The trained model of a run folder, in evaluation mode, and its configuration.

    Args:
        folder: The run folder, finished or not.
        which: Weights of the ``"last"`` epoch, or of the ``"best"`` in validation.
        device: Device of the model.
    """
    if which not in ("last", "best"):
        raise OptionError("which to be 'last' or 'best'", repr(which), "choose one of these")
    run_folder = RunFolder(folder)
    config = run_folder.config()
    architecture, task, _ = run_folder.model_facts()
    weights = run_folder.weights("model" if which == "last" else "best")
    with damage_explained(f"weights that fit model.json in {run_folder.path}"):
        architecture.size()  # raises an error before memory is exhausted
        with torch.random.fork_rng([]):
            model = architecture.build()
        model.load_state_dict(weights)
    return in_target_units(model, task).to(choose_device(device)).eval(), config


def new_folder(config: TrainingConfig, below: str | Path = "runs") -> Path:
    """A new folder in ``below``, named after the run; after a restart by ``torchrun``, the folder that this command
    created before."""
    model, data = config.model, Path(config.data.name.replace(":", "-")).stem
    budget = [str(config.budget)] if config.budget and model.hidden is None else []
    parts = [data, "lrga" if model.lrga else "plain", model.model, *budget, f"seed{config.run.seed}"]
    base = Path(below) / "-".join(part.lower() for part in parts)
    folder, number = base, 2
    while folder.exists() and not RunFolder(folder).begun_before_restart:
        folder, number = base.with_name(f"{base.name}-{number}"), number + 1
    return folder


def finished_result(folder: RunFolder, config: TrainingConfig, *, extend: bool = False) -> TrainingResult | None:
    """The result of a finished run, with history and model; ``None`` if the run is not finished. A different run in the
    folder is an error.

    With ``extend`` the number of epochs may differ: a run that ended at the old number then continues.
    """
    found: TrainingResult | None = None
    if folder.holds_a_run:
        folder.check_same(config, ignore=("max_epochs",) if extend else ())
        found, wanted = folder.result(), config.optimizer.max_epochs
        if found is not None and extend:
            _check_epochs(found.epochs, wanted)
            if found.stopped_by == "max_epochs" and found.epochs < wanted:
                found = None
    found = broadcast(found)
    return None if found is None else replace(found, history=folder.history(), model=load_run(folder.path)[0])


def _check_epochs(done: int, wanted: int) -> None:
    if wanted < done:
        raise OptionError(f"at least {done} epochs, the number already trained", str(wanted), "pass a larger number")


def _inputs(names: Mapping[str, list[str]]) -> dict[str, list[str]]:
    """The names of features; older runs have no names of targets."""
    return {level: columns for level, columns in names.items() if level != "target"}
