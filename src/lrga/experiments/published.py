"""Published numbers: the number a run is compared with, and the configuration behind that number.

Your own table is a small TOML or JSON file, passed with ``--published``::

    source = "OGB leaderboard for ogbl-ddi, snap.stanford.edu/ogb"
    [[result]]
    dataset = "ogbl-ddi"
    model = "gcn"
    lrga = false
    mean = 0.3707
    std = 0.0507
    seeds = 10

A result applies to every run with the same options: ``dataset``, and any options of training.
"""

import math
import re
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from lrga.data.datasets.spec import dataset_name, dataset_specs
from lrga.errors import DataError, DataMissingError, DTypeError, OptionError
from lrga.io import limits
from lrga.io.documents import is_number
from lrga.training.config import DataConfig, LinkConfig, TrainingConfig
from lrga.training.presets import full_name, plain_options


@dataclass(frozen=True, kw_only=True)
class Published:
    """A published result.

    Attributes:
        mean: Mean over the seeds.
        std: Standard deviation over the seeds, or ``None``.
        seeds: Number of seeds.
        source: Its source: a table, a leaderboard, a URL.
    """

    mean: float
    std: float | None = None
    seeds: int | None = None
    source: str = ""

    def to_json(self) -> dict[str, float | None]:
        """Mean and standard deviation, in the form of the tables."""
        return {"mean": self.mean, "std": self.std}

    def text(self, decimals: int) -> str:
        """``76.01 ± 0.67``; a small standard deviation gets as many decimals as it needs.

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
    """A source of published numbers; the base class has none."""

    def number(self, config: TrainingConfig) -> Published | None:
        """The published number for a run of ``config``."""

    def protocol(self, config: TrainingConfig) -> TrainingConfig | None:
        """The configuration of the published number, if known; the table lists the differences."""


@dataclass(frozen=True)
class PublishedTable(Reference):
    """Published numbers of a file, each with the options of the runs that it applies to."""

    rows: tuple[tuple[Mapping[str, Any], Published], ...]

    def number(self, config: TrainingConfig) -> Published | None:
        """Among the results whose options all match the run, the one with the most options."""
        fits = [(len(options), found) for options, found in self.rows if _fits(options, config)]
        return max(fits, key=lambda pair: pair[0])[1] if fits else None

    @classmethod
    def read(cls, path: str | Path) -> "PublishedTable":
        """Reads a TOML or JSON file; see the module for its form."""
        values = read_settings(path)
        results = values.get("result") if isinstance(values, Mapping) else None
        if unknown := sorted(set(values) - {"source", "result"}) if results else []:
            raise DataError(f"source and [[result]] in {path}", unknown[0], "choose one of these")
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
        raise DataError(f"TOML or, in a .json file, JSON in {path}", str(error), "correct the file") from error


_NUMBERS = {"mean": (-math.inf, float), "std": (0, float), "seeds": (1, int)}  # with the minimum of each


def _row(result: Any, source: str, where: str) -> tuple[Mapping[str, Any], Published]:
    is_row = isinstance(result, Mapping) and result.get("dataset") and result.get("mean") is not None
    if not is_row or "name" in result:  # which is another word for the data set
        raise DataError(f"dataset, not name, and mean in {where}", repr(result)[:80], 'write dataset = "…", mean = …')
    numbers: dict[str, Any] = {}
    for key, (least, kind) in _NUMBERS.items():
        value = result.get(key)
        if value is not None and not (is_number(value) and value >= least and value == kind(value)):
            words = f"{'a number' if kind is float else 'an integer'}{'' if key == 'mean' else f' of at least {least}'}"
            raise DataError(f"{words} for {key} in {where}", repr(value)[:80], f"write {words}")
        numbers[key] = None if value is None else kind(value)
    options = {key: value for key, value in result.items() if key not in (*_NUMBERS, "dataset", "source")}
    name = full_name(str(result["dataset"]))
    if dataset_name(name) is None and not re.search(r"[/\\:.]", name):  # no known data set, file or module
        listed = ", ".join(dataset_specs())
        raise DataError(f"a data set in {where}, one of {listed}, or the path of your own", repr(name), "correct it")
    try:
        config = TrainingConfig(data=DataConfig(name=name), link=LinkConfig()).changed(**plain_options(options))
    except (OptionError, DTypeError) as error:
        raise DataError(f"{error.expected} in {where}", error.got, error.remedy) from error
    found = Published(**numbers, source=str(result.get("source", source)))
    return {key: config.option(key) for key in ("name", *options)}, found


def _fits(options: Mapping[str, Any], config: TrainingConfig) -> bool:
    return all(config.option(key) == value for key, value in options.items())
