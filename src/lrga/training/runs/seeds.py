"""Several seeds of a run at the same time on one GPU: small networks leave most of it idle, so runs are interleaved.

Each run has its own folder, weights, random states, captured steps and stream; the graphs are shared. On a CPU this
would bring no gain, so the runs are sequential.
"""

import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import torch

from lrga.distributed.launch.process_group import launched
from lrga.errors import OptionError, RankLostError
from lrga.ops.streams import main_stream
from lrga.training.callbacks.base import Callback
from lrga.training.config import TrainingConfig
from lrga.training.determinism import OwnRandomness, choose_device, deterministic, forked_devices
from lrga.training.problems.data import Given, load_run_data
from lrga.training.runs.folder import RunFolder, TrainingResult
from lrga.training.runs.run import Interrupted, Session, StopRequest, deadline_after, finished_result, new_folder, train

STEPS_PER_TURN = 8
Outcome = TrainingResult | Exception


def train_interleaved(
    configs: Sequence[TrainingConfig],
    folders: Sequence[str | Path],
    *,
    data: Given = None,
    callbacks: Sequence[Iterable[Callback]] = (),
    time_limit: float | None = None,
) -> list[Outcome]:
    """Trains, or resumes, runs that differ only in their seeds, at the same time on a GPU.

    ``callbacks`` holds the callbacks of each run; ``data`` and ``time_limit`` are as in
    :func:`lrga.training.runs.run.train`, for all runs.

    Returns:
        For each run its result, or the error that ended it; a failed run does not stop the others. On Ctrl-C all runs
        write a checkpoint and :class:`~lrga.training.runs.run.Interrupted` is raised.
    """
    if not configs or len(folders) != len(configs):
        got = f"{len(configs)} and {len(folders)}"
        raise OptionError("the same number of folders and runs, at least one", got, "pass one folder per seed")
    same = {str(replace(config, run=replace(config.run, seed=0)).to_json()) for config in configs}
    seeds = [config.run.seed for config in configs]
    if len(same) > 1 or len(set(seeds)) < len(seeds):
        raise OptionError("runs that differ only in their seeds", f"seeds {seeds}", "train other runs one by one")
    deadline, device = deadline_after(time_limit), choose_device(configs[0].run.device)
    called = [list(own) for own in callbacks] or [[] for _ in configs]
    if len(configs) == 1 or not worth_interleaving(configs[0], device):
        return [_train_alone(*own, data, deadline) for own in zip(configs, folders, called, strict=True)]
    run = load_run_data(configs[0], data)
    on_device, fingerprint = run.to(device), run.data.fingerprint()
    outcomes: dict[int, Outcome] = {}
    with ExitStack() as stack, torch.random.fork_rng(forked_devices(device)):
        request = stack.enter_context(StopRequest())
        stack.enter_context(deterministic(configs[0].run.deterministic))
        waiting: dict[int, _Interleaved] = {}
        for number, (config, path) in enumerate(zip(configs, folders, strict=True)):
            folder, own = RunFolder(path), called[number]
            try:
                if (found := finished_result(folder, config)) is not None:
                    outcomes[number] = found
                    continue
                stack.enter_context(folder.lock())
                begin = partial(Session, folder, config, on_device, fingerprint, own, request, deadline)
                waiting[number] = _Interleaved(device, begin)
            except Exception as error:  # a run that cannot start must not stop the others
                outcomes[number] = error
        outcomes |= _take_turns(waiting, request)
    return [outcomes[number] for number in range(len(configs))]


def worth_interleaving(config: TrainingConfig, device: torch.device) -> bool:
    """Whether interleaving is faster: with captured steps on a GPU, which leave the CPU free; not under torchrun."""
    return not launched() and device.type == "cuda" and config.run.engine != "plain"


class _Interleaved:
    """A run with its stream and random states."""

    def __init__(self, device: torch.device, begin: Callable[[], Session]) -> None:
        self.random = OwnRandomness(device)
        self.stream = main_stream(device) if device.type == "cuda" else None
        if self.stream is not None:
            self.stream.wait_stream(torch.cuda.current_stream(device))
        with self.turn():
            self.session = begin()
        self.steps = self.session.steps()

    @contextmanager
    def turn(self) -> Iterator[None]:
        with self.random.turn(), torch.cuda.stream(self.stream):  # None changes nothing
            yield


def _take_turns(waiting: dict[int, _Interleaved], request: StopRequest) -> dict[int, Outcome]:
    outcomes: dict[int, Outcome] = {}
    interrupted: Interrupted | None = None
    while waiting:
        for number, own in list(waiting.items()):
            try:
                with own.turn():
                    for _ in range(STEPS_PER_TURN):
                        next(own.steps)
                continue
            except StopIteration:
                try:
                    outcomes[number] = own.session.outcome(request)
                except Interrupted as stop:
                    interrupted = stop
            except Exception as error:  # as above
                outcomes[number] = error
            del waiting[number]
    if interrupted is not None:
        raise interrupted
    return outcomes


def _train_alone(
    config: TrainingConfig, folder: str | Path, called: list[Callback], data: Given, deadline: float | None
) -> Outcome:
    left = None if deadline is None else max((deadline - time.monotonic()) / 60, 1e-9)
    try:
        return train(config, folder, data=data, callbacks=called, time_limit=left)
    except RankLostError:  # the next run would wait for that rank
        raise
    except Exception as error:  # a failed run must not stop the others
        return error


@dataclass(frozen=True)
class SeedResults:
    """Runs with several seeds.

    Attributes:
        seeds: The seeds.
        folders: The run folder of each seed.
        outcomes: The result of each run, or the error that ended it.
    """

    seeds: tuple[int, ...]
    folders: tuple[Path, ...]
    outcomes: tuple[Outcome, ...]

    @property
    def results(self) -> list[TrainingResult]:
        """Results of the runs that did not fail."""
        return [outcome for outcome in self.outcomes if isinstance(outcome, TrainingResult)]

    @property
    def failed(self) -> bool:
        """Whether a run failed."""
        return len(self.results) < len(self.outcomes)

    def to_json(self) -> list[dict[str, Any]]:
        """The runs as JSON values."""
        runs: list[dict[str, Any]] = []
        for seed, folder, outcome in zip(self.seeds, self.folders, self.outcomes, strict=True):
            error = {"seed": seed, "error": f"{type(outcome).__name__}: {outcome}"}
            runs.append((error if isinstance(outcome, Exception) else outcome.to_json()) | {"folder": str(folder)})
        return runs


def train_seeds(
    config: TrainingConfig,
    seeds: Sequence[int],
    below: str | Path = "runs",
    name: str | None = None,
    *,
    data: Given = None,
    callbacks: Sequence[Iterable[Callback]] = (),
    time_limit: float | None = None,
) -> SeedResults:
    """Trains a configuration once for each seed; on a GPU all at the same time.

    Args:
        config: The configuration; its own seed is ignored.
        seeds: The seeds.
        below: Parent folder of the run folders.
        name: Name of the runs; a second call with the same name resumes the runs in ``below/name/seedN``. Without a
            name the runs are new.
        data: As in :func:`lrga.training.runs.run.train`.
        callbacks: Callbacks of each run.
        time_limit: Minutes after which all runs pause.

    Example:
        >>> import tempfile
        >>> from lrga.training.presets import make_config
        >>> root = tempfile.mkdtemp()
        >>> options = {"hidden": 8, "layers": 1, "max_epochs": 1, "batch_size": 4, "device": "cpu", "root": root}
        >>> config = make_config("CLUSTER", data_options={"sizes": (8, 4, 4)}, **options)
        >>> [result.epochs for result in train_seeds(config, (41, 95), root).results]
        [1, 1]
    """
    configs = [config.changed(seed=seed) for seed in seeds]
    named = None if name is None else Path(below) / name
    folders = [new_folder(one, below) if named is None else named / f"seed{one.run.seed}" for one in configs]
    outcomes = train_interleaved(configs, folders, data=data, callbacks=callbacks, time_limit=time_limit)
    return SeedResults(tuple(seeds), tuple(folders), tuple(outcomes))
