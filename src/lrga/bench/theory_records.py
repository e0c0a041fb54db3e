"""Records of the training experiments behind ``lrga theory``: shipped with the package, or written afresh."""

import json
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from importlib.resources import files
from pathlib import Path
from typing import Any

import torch

from lrga.errors import DataError, DataMissingError
from lrga.training.runs.environment import environment

Say = Callable[[str], None]
_FOLDER = "records_theory"


@dataclass(frozen=True, kw_only=True)
class TrainingRecord:
    """One experiment that was trained.

    Attributes:
        experiment: Its key.
        config: Every option.
        seeds: One run each.
        metrics: ``x``, the positions, and ``curves``: name → one list of values for each seed; further numbers beside.
        seconds: Spent on all of it.
        environment: Versions, hardware, commit.
    """

    experiment: str
    config: Mapping[str, Any]
    seeds: Sequence[int]
    metrics: Mapping[str, Any]
    seconds: float
    environment: Mapping[str, Any]

    @property
    def x(self) -> list[float]:
        """Positions of the values of every curve."""
        return list(self.metrics["x"])

    def mean(self, curve: str) -> list[float]:
        """A curve, averaged over the seeds."""
        runs = self.metrics["curves"][curve]
        return [sum(values) / len(values) for values in zip(*runs, strict=True)]

    def to_json(self) -> dict[str, Any]:
        """As JSON values; :meth:`from_json` reads them."""
        return asdict(self)

    @classmethod
    def from_json(cls, values: Any, *, where: str = "a record") -> "TrainingRecord":
        """The record that :meth:`to_json` wrote."""
        known = {field.name for field in fields(cls)}
        if not isinstance(values, dict) or set(values) != known:
            got = ", ".join(sorted(values)) if isinstance(values, dict) else type(values).__name__
            raise DataError(f"{where} with the keys {', '.join(sorted(known))}", got, "train it with --train")
        metrics, seeds = values["metrics"], values["seeds"]
        curves = metrics.get("curves") if isinstance(metrics, dict) else None
        if not isinstance(curves, dict) or not isinstance(metrics.get("x"), list) or not isinstance(seeds, list):
            raise DataError(f"{where} with seeds, and metrics of x and curves", "others", "train it with --train")
        for name, runs in curves.items():
            if len(runs) != len(seeds) or any(len(run) != len(metrics["x"]) for run in runs):
                raise DataError(
                    f"{where} with {len(seeds)} runs of {len(metrics['x'])} values in each curve",
                    f"others in {name!r}",
                    "train it with --train",
                )
        return cls(**values)


def record_training(key: str, config: Any, train: Callable[..., dict[str, Any]], say: Say) -> TrainingRecord:
    """Trains, and writes down with what and where.

    Args:
        key: Of the experiment.
        config: A dataclass with ``seeds``.
        train: ``train(config, say)`` returns the metrics.
        say: Is told how far it is.
    """
    began = time.perf_counter()
    with torch.random.fork_rng(devices=[]):  # the caller's random state is the caller's
        metrics = train(config, say)
    options = {name: value for name, value in asdict(config).items() if name != "seeds"}
    values = {
        "experiment": key,
        "config": options,
        "seeds": list(config.seeds),
        "metrics": metrics,
        "seconds": round(time.perf_counter() - began, 1),
        "environment": environment(torch.device("cpu")),
    }
    return TrainingRecord.from_json(json.loads(json.dumps(values)))  # tuples become lists, as in a file


def shipped_record(key: str) -> TrainingRecord:
    """The record of an experiment that comes with the package.

    Example:
        >>> shipped_record("circular-skip-links").experiment
        'circular-skip-links'
    """
    place = files("lrga.bench").joinpath(_FOLDER, f"{key}.json")
    if not place.is_file():
        raise DataMissingError(f"a record of the experiment {key!r}", "none in this package", "train it with --train")
    return TrainingRecord.from_json(json.loads(place.read_text(encoding="utf-8")), where=f"the record of {key!r}")


def write_training(record: TrainingRecord, folder: str | Path) -> Path:
    """Writes ``folder/KEY.json``."""
    path = Path(folder) / f"{record.experiment}.json"
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        # Digits beyond six say nothing.
        path.write_text(json.dumps(_rounded(record.to_json()), ensure_ascii=False, indent=1) + "\n", encoding="utf-8")
    except OSError as error:
        raise DataError(f"a folder to write to at {folder}", str(error), "name another with --output") from error
    return path


def _rounded(value: Any) -> Any:
    if isinstance(value, float):
        return float(f"{value:.6g}")
    if isinstance(value, Mapping):
        return {name: _rounded(inner) for name, inner in value.items()}
    return [_rounded(inner) for inner in value] if isinstance(value, list | tuple) else value
