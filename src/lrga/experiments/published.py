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

A result applies to every run with the same options: ``dataset``, any options of training, and ``data_options``.
"""

import re
import tomllib
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from lrga.data.datasets.spec import dataset_name, dataset_specs
from lrga.errors import DataError, DTypeError, OptionError
from lrga.io import limits
from lrga.io.documents import is_number
from lrga.tasks.task import BY_BATCH
from lrga.training.config import DataConfig, LinkConfig, TrainingConfig
from lrga.training.presets import full_name, plain_options
from lrga.training.problems.protocols import unused_options


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
        fits = []
        for options, found in self.rows:
            # A run does not have the options that it would ignore.
            ignored = {*unused_options(config, options), *(() if config.model.hidden is None else ("budget",))}
            here = {key: config.option(key) for key in options}
            if here.get("metric", "") is None and (spec := dataset_specs().get(config.data.name)) is not None:
                here["metric"] = spec.task.metric.removesuffix(BY_BATCH)  # that of the data set
            if here == dict(options) and not ignored & options.keys():
                fits.append((len(options), found))
        return max(fits, key=lambda pair: pair[0])[1] if fits else None

    @classmethod
    def read(cls, path: str | Path) -> "PublishedTable":
        """Reads a TOML or JSON file; see the module for its form."""
        values = read_settings(path)
        if "result" not in values:
            raise DataError(f"results in {path}", "none", "write one [[result]] for each published number")
        check_fields(values, {"source": TEXT, "result": TABLES}, str(path))
        numbered = enumerate(values["result"], start=1)
        return cls(tuple(_row(row, values.get("source", ""), f"result {n} of {path}") for n, row in numbered))


def read_settings(path: str | Path) -> Mapping[str, Any]:
    """The fields of a TOML or JSON file."""
    path = Path(path)
    with limits.reading(path, "TOML or, in a .json file, JSON in", remedy="correct the file"):
        is_json = path.suffix == ".json"
        values = limits.read_json(path) if is_json else tomllib.loads(limits.read_bytes(path).decode("utf-8"))
    if not isinstance(values, Mapping):
        raise DataError(f"a JSON object in {path}", _got(values), "write its fields in braces")
    return values


Kind = tuple[str, Callable[[Any], bool]]  # in words, and the check
TEXT: Kind = "text", lambda value: isinstance(value, str)
TABLE: Kind = "a table of options", lambda value: isinstance(value, Mapping)
TABLES: Kind = (
    "a list of at least one table",
    lambda value: isinstance(value, list) and bool(value) and all(isinstance(one, Mapping) for one in value),
)


def check_fields(values: Mapping[str, Any], kinds: Mapping[str, Kind], where: str, *, others: bool = False) -> None:
    """Raises an error that names a field of the wrong type or, without ``others``, an unknown field."""
    for key, value in values.items():
        if key not in kinds and not others:
            raise DataError(f"the fields {', '.join(kinds)} in {where}", key, "choose one of these")
        if key in kinds and not kinds[key][1](value):
            raise DataError(f"{key} in {where} to be {kinds[key][0]}", _got(value), f"correct {key}")


def _got(value: Any) -> str:
    return f"{repr(value)[:80]} ({type(value).__name__})"


@contextmanager
def located(where: str) -> Iterator[None]:
    """Adds to the error of an option where it was written."""
    try:
        yield
    except (OptionError, DTypeError) as error:
        raise DataError(f"{error.expected} in {where}", error.got, error.remedy) from error


def check_data_name(name: Any, where: str) -> str:
    """The name of a known data set, or the path or ``module:factory`` of the user's own; others are errors."""
    found = full_name(name) if isinstance(name, str) and name else ""
    if not found or (dataset_name(found) is None and not re.search(r"[/\\:.]", found)):
        expected = f"a data set in {where}, one of {', '.join(dataset_specs())}, or the path of your own"
        raise DataError(expected, _got(name), "correct dataset")
    return found


_RESULT: dict[str, Kind] = {
    "mean": ("a number", is_number),
    "std": ("a number of at least 0", lambda value: is_number(value) and value >= 0),
    "seeds": ("an integer of at least 1", lambda value: is_number(value) and value >= 1 and value == int(value)),
    "source": TEXT,
    "data_options": TABLE,
}


def _row(result: Mapping[str, Any], source: str, where: str) -> tuple[Mapping[str, Any], Published]:
    values = {key: value for key, value in result.items() if value is not None}
    if not values.get("dataset") or "mean" not in values:
        raise DataError(f"dataset and mean in {where}", repr(result)[:80], 'write dataset = "…", mean = …')
    for word, instead in (("name", "dataset"), ("seed", "seeds"), ("options", "data_options")):
        if word in values:
            raise DataError(f"{instead}, not {word} in {where}", repr(values[word])[:80], f"write {instead}")
    check_fields(values, _RESULT, where, others=True)
    options = {key: value for key, value in values.items() if key not in (*_RESULT, "dataset")}
    options |= {"options": values["data_options"]} if "data_options" in values else {}
    name = check_data_name(values["dataset"], where)
    with located(where):
        config = TrainingConfig(data=DataConfig(name=name), link=LinkConfig()).changed(**plain_options(options))
    std = None if "std" not in values else float(values["std"])
    seeds = None if "seeds" not in values else int(values["seeds"])
    found = Published(mean=float(values["mean"]), std=std, seeds=seeds, source=values.get("source", source))
    return {key: config.option(key) for key in ("name", *options)}, found
