"""Training in one call: from a configuration to a result, in a folder that survives any crash."""

import shlex
import time
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from lrga.distributed.launch import leader_first
from lrga.errors import CheckpointError, OptionError
from lrga.training.callbacks.events import Listener, Listeners
from lrga.training.callbacks.tensorboard import TensorBoardLog
from lrga.training.config import TrainingConfig
from lrga.training.determinism import choose_device, deterministic
from lrga.training.evaluate import in_target_units
from lrga.training.parallel import broadcast, on_all_ranks
from lrga.training.problems.graph_data import Given
from lrga.training.problems.kinds import AnyArchitecture, load_run_data
from lrga.training.runs.folder import RunFolder
from lrga.training.runs.ranks import folder_before_restart, remember_folder, run_folder
from lrga.training.runs.result import TrainingResult
from lrga.training.runs.resume import check_folder, check_same, written_result
from lrga.training.runs.session import Session
from lrga.training.runs.signals import StopRequest
from lrga.training.runs.trust import data_from_file

_RESTORE = "restore the folder, or train anew"


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
        data: The data themselves, in place of those that ``config.data`` names (see
            :func:`~lrga.training.problems.kinds.load_run_data`).
        listeners: Are told what happens, e.g. :class:`lrga.training.callbacks.terminal.ProgressDisplay`.
        time_limit: Minutes after which training pauses; the same call continues it.

    Returns:
        The result. On Ctrl-C a checkpoint is written and :class:`~lrga.training.runs.signals.Interrupted` raised.

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
    return _train(config, folder, data=data, listeners=listeners, time_limit=time_limit)


@on_all_ranks
def _train(
    config: TrainingConfig,
    folder: str | Path | None = None,
    *,
    data: Given = None,
    listeners: Iterable[Listener] = (),
    time_limit: float | None = None,
    extend: bool = False,
) -> TrainingResult:
    """As :func:`train`; with ``extend`` the run of the folder may have another number of epochs."""
    if time_limit is not None and not time_limit > 0:
        raise OptionError("a time limit above 0 minutes", repr(time_limit), "pass for example 60")
    begin = time.monotonic()
    heard = [*listeners, TensorBoardLog()] if config.run.tensorboard else list(listeners)
    place = run_folder(new_folder(config) if folder is None else folder)
    if (written := broadcast(written_result(place, config, extend=extend))) is not None:
        return finished_result(place, written)
    with leader_first():  # which may have to build the data
        run = load_run_data(config, data)
    device = choose_device(config.run.device)
    with place.lock(), torch.random.fork_rng(forked_devices(device)):
        fingerprint = run.fingerprint()
        check_folder(place, config, run, fingerprint, extend=extend)
        deadline = None if time_limit is None else begin + 60 * time_limit
        with StopRequest() as request, deterministic(config.run.deterministic):
            session = Session(place, config, run.to(device), fingerprint, Listeners(heard), request, deadline)
            for _ in session.steps():
                continue
    return session.outcome(request)


def continue_run(
    folder: str | Path,
    config: TrainingConfig | None = None,
    *,
    data: Given = None,
    listeners: Iterable[Listener] = (),
    time_limit: float | None = None,
    max_epochs: int | None = None,
    device: str | None = None,
    trust: bool = False,
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
        trust: Whether a ``module:factory`` that the folder alone names may be imported and its data root written to
            (:mod:`lrga.training.runs.trust`). What ``config`` names is the caller's own.
    """
    home = RunFolder(folder)
    written = home.config()
    if config is None and data is None:
        command = f"lrga train {written.data.name} --resume {shlex.quote(str(folder))}"
        written = replace(written, data=data_from_file(written.data, folder, trust=trust, command=command))
    if config is not None:
        check_same(home, config, ignore=("max_epochs",))
    config = (config or written).changed(max_epochs=written.optimizer.max_epochs)
    if device is not None:
        config = config.changed(device=device)
    if max_epochs is not None:
        config = config.changed(max_epochs=max_epochs)
    extend = max_epochs is not None
    return _train(config, folder, data=data, listeners=listeners, time_limit=time_limit, extend=extend)


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
    architecture, task, _ = home.model_facts()
    weights = home.weights("model" if which == "last" else "best")
    try:
        _check_weights(architecture, weights, home)
        with torch.random.fork_rng([]):
            model = architecture.build()
    except CheckpointError:
        raise
    except (ValueError, TypeError, RuntimeError, OverflowError) as error:
        got = (str(error).splitlines() or [""])[0]
        raise CheckpointError(f"a network that can be built in {home.path / 'model.json'}", got, _RESTORE) from error
    try:
        model.load_state_dict(weights)
    except RuntimeError as error:
        got = str(error).splitlines()[-1].strip()
        raise CheckpointError(f"weights that fit model.json in {folder}", got, _RESTORE) from error
    return in_target_units(model, task).to(choose_device(device)).eval(), config


def _check_weights(architecture: AnyArchitecture, weights: dict[str, Tensor], home: RunFolder) -> None:
    """Refuses, before memory is taken, a network larger than the weights that are there for it."""
    expected, remedy = f"weights that fit model.json in {home.path}", "restore the folder"
    if architecture.num_layers > len(weights):
        got = f"{len(weights):,} tensors for {architecture.num_layers:,} layers"
        raise CheckpointError(expected, got, remedy)
    found = sum(tensor.numel() for tensor in weights.values())
    if (needed := architecture.size()) > found:
        raise CheckpointError(expected, f"{found:,} numbers for {needed:,} parameters", remedy)


def new_folder(config: TrainingConfig, below: str | Path = "runs") -> Path:
    """A folder below ``below`` that is not there yet, named after the run."""
    model, data = config.model, Path(config.data.name.replace(":", "-")).stem
    parts = [data, "lrga" if model.lrga else "plain", model.model, *config.size_label, f"seed{config.run.seed}"]
    base = Path(below) / "-".join(part.lower() for part in parts)
    if (again := folder_before_restart(base)) is not None:
        return again
    folder, number = base, 2
    while folder.exists():
        folder, number = base.with_name(f"{base.name}-{number}"), number + 1
    remember_folder(folder, base)
    return folder


def finished_result(home: RunFolder, written: dict[str, Any]) -> TrainingResult:
    """The result of a run that is finished, as its folder has it."""
    model, _ = load_run(home.path)
    reported = home.config().reported
    return TrainingResult.from_json(written, folder=home.path, history=home.history(), model=model, reported=reported)


def forked_devices(device: torch.device) -> list[int]:
    """The GPU whose random state a run must leave as it found it."""
    return [device.index] if device.type == "cuda" and device.index is not None else []
