"""Training in one call: from a configuration to a result, in a folder that survives any crash."""

import time
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import torch
from torch import nn

from lrga.errors import CheckpointError, OptionError
from lrga.models.budget import count_of
from lrga.training.architecture import Architecture, resolve
from lrga.training.config import TrainingConfig
from lrga.training.determinism import choose_device, seed_torch
from lrga.training.environment import environment
from lrga.training.events import Listener, Listeners, RunFacts
from lrga.training.follower import folder_before_restart, forget_folder, remember_folder, run_folder
from lrga.training.graphs import Given, TrainingData, load_training_data
from lrga.training.parallel import agree, finished_on_leader, keeper_class, leader_first, on_all_ranks, trainer_class
from lrga.training.result import FINISHED, TrainingResult
from lrga.training.resume import check_same, open_folder, prolong, take_up
from lrga.training.run_folder import RunFolder
from lrga.training.signals import Interrupted, StopRequest
from lrga.training.tensorboard import TensorBoardLog
from lrga.training.trainer import Trainer


@on_all_ranks
def train(
    config: TrainingConfig,
    folder: str | Path | None = None,
    *,
    data: Given = None,
    listeners: Iterable[Listener] = (),
    time_limit: float | None = None,
) -> TrainingResult:
    """Trains a model, or continues where the same call was stopped.

    Args:
        config: Everything that decides the run.
        folder: The run folder. Where it holds this run already, training goes on from its last checkpoint, or the
            result is returned at once if it is finished; a different run there is refused. By default a new folder
            below ``runs``.
        data: The graphs themselves, in place of those that ``config.data`` names (see
            :func:`~lrga.training.graphs.load_training_data`).
        listeners: Are told what happens, e.g. :class:`lrga.training.progress.ProgressDisplay`.
        time_limit: Minutes after which training pauses; the same call continues it.

    Returns:
        The result. On Ctrl-C a checkpoint is written and :class:`~lrga.training.signals.Interrupted` raised.

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
        (2, True, 'weighted_accuracy')
    """
    if time_limit is not None and not time_limit > 0:
        raise OptionError("a time limit above 0 minutes", repr(time_limit), "pass for example 60")
    begin = time.monotonic()
    heard = [*listeners, TensorBoardLog()] if config.run.tensorboard else list(listeners)
    home = run_folder(new_folder(config) if folder is None else folder)
    written = None
    if home.holds_a_run:
        check_same(home, config)
        written = home.result()
    if (written := finished_on_leader(written)) is not None:
        return _finished(home, written)
    with leader_first():  # which may have to build the data
        graphs = load_training_data(config.data, config.run, data)
    architecture = resolve(config.model, graphs.inputs, dataset=graphs.dataset)
    count_of(architecture.build)  # a network that cannot be made is refused before a folder is
    device = choose_device(config.run.device)
    with home.lock(), torch.random.fork_rng(_devices(device)):
        open_folder(home, config, architecture, graphs)
        return _run(home, config, architecture, graphs, device, Listeners(heard), begin, time_limit)


def continue_run(
    folder: str | Path,
    config: TrainingConfig | None = None,
    *,
    data: Given = None,
    listeners: Iterable[Listener] = (),
    time_limit: float | None = None,
    max_epochs: int | None = None,
    device: str | None = None,
) -> TrainingResult:
    """Continues the run of a folder.

    Args:
        folder: The run folder.
        config: What the run is expected to be, where the caller has an opinion; anything else there is refused.
        data: As in :func:`train`.
        listeners: As in :func:`train`.
        time_limit: As in :func:`train`.
        max_epochs: Another number of epochs; a run that ended by the old one goes on.
        device: Another device.
    """
    home = RunFolder(folder)
    written = home.config()
    if config is not None:
        check_same(home, config.changed(max_epochs=written.optimizer.max_epochs))
    config = (config or written).changed(max_epochs=written.optimizer.max_epochs)
    if device is not None:
        config = config.changed(device=device)
    if max_epochs is not None and max_epochs != config.optimizer.max_epochs:
        config = prolong(home, config, max_epochs)
    return train(config, folder, data=data, listeners=listeners, time_limit=time_limit)


def load_run(folder: str | Path, *, which: str = "last", device: str = "cpu") -> tuple[nn.Module, TrainingConfig]:
    """The trained model of a run folder, in evaluation mode, and its configuration.

    Args:
        folder: The run folder, finished or not.
        which: Weights of the ``"last"`` epoch, or of the ``"best"`` in validation.
        device: Where to put it.
    """
    if which not in ("last", "best"):
        raise OptionError("which to be 'last' or 'best'", repr(which), "pick one of them")
    home = RunFolder(folder)
    config = home.config()
    architecture, _, _ = home.model_facts()
    with torch.random.fork_rng([]):
        model = architecture.build()
    try:
        model.load_state_dict(home.weights("model" if which == "last" else "best"))
    except RuntimeError as error:
        got = str(error).splitlines()[-1].strip()
        raise CheckpointError(f"weights that fit model.json in {folder}", got, "restore the folder") from error
    return model.to(choose_device(device)).eval(), config


def new_folder(config: TrainingConfig, below: str | Path = "runs") -> Path:
    """A folder below ``below`` that is not there yet, named after the run."""
    model, data = config.model, Path(config.data.name.replace(":", "-")).stem
    parts = [data, "lrga" if model.lrga else "plain", model.model, str(model.budget), f"seed{config.run.seed}"]
    base = Path(below) / "-".join(part.lower() for part in parts)
    if (again := folder_before_restart(Path(below))) is not None:
        return again
    folder, number = base, 2
    while folder.exists():
        folder, number = base.with_name(f"{base.name}-{number}"), number + 1
    remember_folder(folder)
    return folder


def _run(
    home: RunFolder,
    config: TrainingConfig,
    architecture: Architecture,
    graphs: TrainingData,
    device: torch.device,
    listener: Listener,
    begin: float,
    time_limit: float | None,
) -> TrainingResult:
    seed_torch(config.run.seed)
    model = architecture.build().to(device)
    deadline = None if time_limit is None else begin + 60 * time_limit
    with StopRequest() as request:
        keeper = keeper_class()(home, listener, request, config.run.checkpoint_minutes, deadline)
        trainer = trainer_class()(
            model,
            graphs.task,
            graphs.to(device).splits,
            config.optimizer,
            seed=config.run.seed,
            listener=listener,
            keeper=keeper,
        )
        take_up(home, trainer)
        agree(trainer)
        home.add_environment(environment(device))
        facts = RunFacts(
            config=config,
            task=graphs.task,
            parameters=sum(p.numel() for p in model.parameters()),
            graphs={split: len(part) for split, part in graphs.splits.items()},
            device=str(device),
            folder=home.path,
            epoch=trainer.epoch,
            batch=trainer.batch,
            batches=trainer.batches,
        )
        try:
            listener.started(facts)
            verb = "continues" if trainer.epoch or trainer.batch else "starts"
            home.log(f"{verb} at epoch {trainer.epoch + 1} on {device}")
            reason = trainer.fit()
            home.log(f"stops after {trainer.epoch} epochs: {reason}")
            result = _result(home, trainer, reason, facts)
            listener.stopped(reason)
        finally:
            listener.closed()
    if reason == "interrupted":
        name = request.received or "SIGINT"
        message = f"Stopped by {name} after writing a checkpoint. Continue with: lrga train --resume {home.path}"
        raise Interrupted(message, name)
    return result


def _result(home: RunFolder, trainer: Trainer, reason: str, facts: RunFacts) -> TrainingResult:
    result = TrainingResult(
        stopped_by=reason,
        metric=trainer.task.metric,
        last=trainer.last,
        best=None if trainer.best is None else trainer.best.record,
        epochs=trainer.epoch,
        seconds=round(trainer.seconds, 3),
        parameters=facts.parameters,
        seed=facts.config.run.seed,
        folder=home.path,
        history=home.history(),
        model=trainer.model.eval(),
    )
    if reason in FINISHED and trainer.best is not None:
        forget_folder(home.path)
        home.save_result(result.to_json(), {"model": trainer.model.state_dict(), "best": trainer.best.weights})
    return result


def _finished(home: RunFolder, written: dict[str, Any]) -> TrainingResult:
    model, _ = load_run(home.path)
    return TrainingResult.from_json(written, folder=home.path, history=home.history(), model=model)


def _devices(device: torch.device) -> list[int]:
    return [device.index] if device.type == "cuda" and device.index is not None else []
