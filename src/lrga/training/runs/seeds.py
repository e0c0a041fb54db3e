"""One configuration under several seeds, and what came of it."""

import statistics
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from lrga.errors import LRGAError
from lrga.tasks.task import METRICS, number_format
from lrga.training.callbacks.events import Listener
from lrga.training.config import TrainingConfig
from lrga.training.problems.graph_data import Given
from lrga.training.runs.interleave import Outcome, train_together
from lrga.training.runs.ranks import notes_kept
from lrga.training.runs.result import TrainingResult
from lrga.training.runs.run import new_folder


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
    listeners: Sequence[Iterable[Listener]] = (),
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
        listeners: Those of each run.
        time_limit: Minutes after which all pause.

    Example:
        >>> import tempfile
        >>> from lrga.training.options import make_config
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
    with notes_kept(folders):
        outcomes = train_together(configs, folders, data=data, listeners=listeners, time_limit=time_limit)
    return SeedResults(tuple(seeds), tuple(folders), tuple(outcomes))
