"""Published numbers beside runs: the number a run is compared with, and the configuration it was made with.

A table of your own is a small file, TOML or JSON, given with ``--published``::

    source = "OGB leaderboard for ogbl-ddi, snap.stanford.edu/ogb"
    [[result]]
    dataset = "ogbl-ddi"
    model = "gcn"
    lrga = false
    mean = 0.3707
    std = 0.0507
    seeds = 10

A row stands beside every run whose options are those that it names: ``dataset``, and any options of training.
"""

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from lrga.data.datasets.spec import dataset_name
from lrga.errors import DataError, DataMissingError
from lrga.io import limits
from lrga.io.documents import is_number
from lrga.models.embeddings import EMBEDDINGS
from lrga.models.zoo import model_name
from lrga.training.config import SECTION_OF, TrainingConfig


@dataclass(frozen=True, kw_only=True)
class Published:
    """A published result.

    Attributes:
        mean: Over the seeds.
        std: Over the seeds, ``None`` if not given.
        seeds: How many.
        source: Where it stands: a table, a leaderboard, an address.
    """

    mean: float
    std: float | None = None
    seeds: int | None = None
    source: str = ""

    def to_json(self) -> dict[str, float | None]:
        """Mean and deviation, as tables write them."""
        return {"mean": self.mean, "std": self.std}

    def text(self, decimals: int) -> str:
        """``76.01 ± 0.67``; a deviation too small for the decimals gets as many as it needs.

        Example:
            >>> Published(mean=85.76, std=0.001).text(2)
            '85.76 ± 0.001'
        """
        if self.std is None:
            return f"{self.mean:.{decimals}f}"
        std = self.std
        digits = next((n for n in range(decimals, 10) if round(std, n) > 0), decimals)
        return f"{self.mean:.{decimals}f} ± {std:.{digits}f}"


class Reference:
    """Where published numbers come from; this one has none."""

    def number(self, config: TrainingConfig) -> Published | None:
        """The published number that a run of ``config`` repeats."""

    def protocol(self, config: TrainingConfig) -> TrainingConfig | None:
        """The configuration that number was made with, as far as it is known: the table lists the differences."""


@dataclass(frozen=True)
class PublishedTable(Reference):
    """Numbers of a file: each with the options that a run beside it has."""

    rows: tuple[tuple[Mapping[str, Any], Published], ...]

    def number(self, config: TrainingConfig) -> Published | None:
        """Of the rows whose options are all the run's, the one that names most."""
        fits = [(len(options), found) for options, found in self.rows if _fits(options, config)]
        return max(fits, key=lambda pair: pair[0])[1] if fits else None

    @classmethod
    def read(cls, path: str | Path) -> "PublishedTable":
        """Reads a TOML or JSON file; see the module for its form."""
        values = read_settings(path)
        results = values.get("result") if isinstance(values, Mapping) else None
        if not isinstance(results, list) or not results:
            raise DataError(f"results in {path}", "none", "write one [[result]] for each published number")
        rows = []
        for number, result in enumerate(results, start=1):
            rows.append(_row(result, str(values.get("source", "")), f"result {number} of {path}"))
        return cls(tuple(rows))


def read_settings(path: str | Path) -> Any:
    """The values of a TOML or JSON file."""
    path = Path(path)
    if not path.is_file():
        raise DataMissingError(f"a file at {path}", "no such file", "check the path")
    try:
        if path.suffix == ".json":
            return limits.read_json(path)
        return tomllib.loads(limits.read_bytes(path).decode("utf-8"))
    except ValueError as error:
        raise DataError(f"TOML or, in a .json file, JSON in {path}", str(error), "mend the file") from error


_NUMBERS = ("mean", "std", "seeds")


def _row(result: Any, source: str, where: str) -> tuple[Mapping[str, Any], Published]:
    if not isinstance(result, Mapping) or not is_number(result.get("mean")) or "dataset" not in result:
        raise DataError(f"dataset and mean in {where}", repr(result)[:80], 'write dataset = "…" and mean = …')
    for key in _NUMBERS:
        if key in result and not is_number(result[key]):
            raise DataError(f"a number for {key} in {where}", repr(result[key])[:80], "write a number")
    options = {key: value for key, value in result.items() if key not in (*_NUMBERS, "dataset", "source")}
    if unknown := [key for key in options if key not in SECTION_OF]:
        listed = ", ".join(sorted(SECTION_OF))
        raise DataError(f"options of training in {where}, of {listed}", unknown[0], "choose one of these")
    if isinstance(options.get("model"), str) and options["model"].lower() not in EMBEDDINGS:
        options["model"] = model_name(options["model"])
    name = str(result["dataset"])
    found = Published(
        mean=float(result["mean"]),
        std=None if result.get("std") is None else float(result["std"]),
        seeds=result.get("seeds"),
        source=str(result.get("source", source)),
    )
    return {"name": dataset_name(name) or name, **options}, found


def _fits(options: Mapping[str, Any], config: TrainingConfig) -> bool:
    return all(config.option(key) == value for key, value in options.items())
