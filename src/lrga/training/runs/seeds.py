"""Several seeds of a run at once on one GPU: small networks leave most of it idle, so their steps take turns.

Each run has its own folder, weights, random states, recorded steps and stream; the graphs are shared. On a CPU, where
nothing would be gained, the runs come one after the other.
"""

import statistics
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import torch

from lrga.distributed.launch import launched
from lrga.errors import LRGAError, OptionError, RankLostError
from lrga.tasks.task import METRICS, number_format
from lrga.training.callbacks.base import Callback
from lrga.training.callbacks.tensorboard import TensorBoardLog
from lrga.training.config import TrainingConfig
from lrga.training.determinism import OwnRandomness, choose_device, deterministic
from lrga.training.problems.data import Given, load_run_data
from lrga.training.runs.folder import RunFolder
from lrga.training.runs.result import TrainingResult
from lrga.training.runs.run import (
    Interrupted,
    Session,
    StopRequest,
    deadline_after,
    finished_result,
    forked_devices,
    new_folder,
    train,
    written_result,
)  # fmt: skip

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
    """Trains runs that differ in their seeds only, at once on a GPU, or continues them.

    ``callbacks`` are those of each run; ``data`` and ``time_limit`` are as in :func:`lrga.training.runs.run.train`, for
    all runs.

    Returns:
        For each run its result, or the error that ended it: one that fails does not cost the others. On Ctrl-C all
        write a checkpoint and :class:`~lrga.training.runs.run.Interrupted` is raised.
    """
    _check(configs, folders)
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
                if (written := written_result(folder, config)) is not None:
                    outcomes[number] = finished_result(folder, written)
                    continue
                own += [TensorBoardLog()] if config.run.tensorboard else []
                stack.enter_context(folder.lock())
                begin = partial(Session, folder, config, on_device, fingerprint, own, request, deadline)
                waiting[number] = _Interleaved(device, begin)
            except Exception as error:  # one run that cannot begin must not cost the others
                outcomes[number] = error
        outcomes |= _take_turns(waiting, request)
    return [outcomes[number] for number in range(len(configs))]


def worth_interleaving(config: TrainingConfig, device: torch.device) -> bool:
    """Whether several runs at once are faster: in captured steps on a GPU, whose host is free meanwhile."""
    # torchrun's processes share each run
    return not launched() and device.type == "cuda" and config.run.engine != "plain"


class _Interleaved:
    """A run with its stream and random states."""

    def __init__(self, device: torch.device, begin: Callable[[], Session]) -> None:
        self.random = OwnRandomness(device)
        self.stream = torch.cuda.Stream(device) if device.type == "cuda" else None
        if self.stream is not None:
            self.stream.wait_stream(torch.cuda.current_stream(device))
        with self.turn():
            self.session = begin()
        self.steps = self.session.steps()

    @contextmanager
    def turn(self) -> Iterator[None]:
        with self.random.turn(), torch.cuda.stream(self.stream):  # no stream is no change
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
    except Exception as error:  # one run that fails must not cost the others
        return error


def _check(configs: Sequence[TrainingConfig], folders: Sequence[str | Path]) -> None:
    if not configs or len(folders) != len(configs):
        got = f"{len(configs)} and {len(folders)}"
        raise OptionError("as many folders as runs, at least one", got, "name a folder for each seed")
    same = {str(replace(config, run=replace(config.run, seed=0)).to_json()) for config in configs}
    seeds = [config.run.seed for config in configs]
    if len(same) > 1 or len(set(seeds)) < len(seeds):
        raise OptionError("runs that differ in their seeds only", f"seeds {seeds}", "train others one by one")


@dataclass(frozen=True)
class SeedResults:
    """Runs under several seeds.

    Attributes:
        seeds: The seeds.
        folders: The run folder of each.
        outcomes: The result of each, or the error that ended it.
    """

    seeds: tuple[int, ...]
    folders: tuple[Path, ...]
    outcomes: tuple[Outcome, ...]

    @property
    def results(self) -> list[TrainingResult]:
        """Of the runs that did not fail."""
        return [outcome for outcome in self.outcomes if isinstance(outcome, TrainingResult)]

    @property
    def failed(self) -> bool:
        """Whether a run ended by an error."""
        return len(self.results) < len(self.outcomes)

    @property
    def tests(self) -> list[float]:
        """The reported number of each run that has one."""
        return [result.test for result in self.results if result.test is not None]

    @property
    def mean(self) -> float | None:
        """Mean of the reported numbers."""
        return statistics.fmean(self.tests) if self.tests else None

    @property
    def std(self) -> float | None:
        """Their standard deviation (over n - 1), of two or more."""
        return statistics.stdev(self.tests) if len(self.tests) > 1 else None

    @property
    def title(self) -> str:
        """Metric, mean and deviation."""
        if not self.results or self.mean is None:
            return "no run has an epoch yet"
        metric = METRICS[self.results[0].metric]
        kind = number_format(self.mean, metric.decimals)
        spread = "" if self.std is None else f" ± {self.std:{kind}}"
        return f"test {metric.name}: {self.mean:{kind}}{spread}"

    def rows(self) -> list[tuple[str, ...]]:
        """A row of words for each run: seed, test, at the best validation, epochs, seconds, how it ended."""
        rows: list[tuple[str, ...]] = []
        for seed, outcome in zip(self.seeds, self.outcomes, strict=True):
            if isinstance(outcome, Exception):
                rows.append((str(seed), "", "", "", "", type(outcome).__name__))
                continue
            test = "" if outcome.test is None else outcome.format_metric(outcome.test)
            best = "" if outcome.best is None else outcome.format_metric(outcome.best.test_metric)
            time = f"{outcome.seconds:,.1f}"
            rows.append((str(seed), test, best, str(outcome.epochs), time, outcome.stopped_by))
        return rows

    def notes(self) -> list[str]:
        """Where the runs lie, what went wrong, and how to go on."""
        lines = []
        for seed, folder, outcome in zip(self.seeds, self.folders, self.outcomes, strict=True):
            if isinstance(outcome, Exception):
                what = str(outcome) if isinstance(outcome, LRGAError) else f"{type(outcome).__name__}: {outcome}"
                lines.append(f"seed {seed} failed: {what}")
            elif outcome.finished:
                lines.append(f"seed {seed}: {folder}")
            else:
                lines.append(f"seed {seed}, to continue: lrga train --resume {folder}")
        return lines

    def to_json(self) -> dict[str, Any]:
        """As JSON values."""
        runs = []
        for seed, folder, outcome in zip(self.seeds, self.folders, self.outcomes, strict=True):
            if isinstance(outcome, Exception):
                found: dict[str, Any] = {"seed": seed, "error": f"{type(outcome).__name__}: {outcome}"}
            else:
                found = outcome.to_json()
            runs.append(found | {"folder": str(folder)})
        return {"mean": self.mean, "std": self.std, "runs": runs}


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
    """Trains a configuration once for each seed, on a GPU all at once.

    Args:
        config: The configuration; its own seed does not matter.
        seeds: The seeds.
        below: The folder below which each run gets one of its own.
        name: Called again with the same name, the runs in ``below/name/seedN`` are continued; without a name they are
            new ones.
        data: As in :func:`lrga.training.runs.run.train`.
        callbacks: Those of each run.
        time_limit: Minutes after which all pause.

    Example:
        >>> import tempfile
        >>> from lrga.training.presets import make_config
        >>> root = tempfile.mkdtemp()
        >>> options = {"hidden": 8, "layers": 1, "max_epochs": 1, "batch_size": 4, "device": "cpu", "root": root}
        >>> config = make_config("CLUSTER", data_options={"sizes": (8, 4, 4)}, **options)
        >>> [row[0] for row in train_seeds(config, (41, 95), root).rows()]
        ['41', '95']
    """
    configs = [config.changed(seed=seed) for seed in seeds]
    if name is None:
        folders = [new_folder(one, below) for one in configs]
    else:
        folders = [Path(below) / name / f"seed{seed}" for seed in seeds]
    outcomes = train_interleaved(configs, folders, data=data, callbacks=callbacks, time_limit=time_limit)
    return SeedResults(tuple(seeds), tuple(folders), tuple(outcomes))
