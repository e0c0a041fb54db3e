"""Cells that differ from the paper's tables, with the variants that were run and their results."""

from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from functools import cache
from pathlib import Path
from typing import Any

from lrga.experiments.cell import Cell
from lrga.experiments.loading import Run, key_of, load_runs, rows_of
from lrga.experiments.sheet import Sheet
from lrga.experiments.table import Row
from lrga.paper.protocols import cells_of
from reproduction.ablations import PARTS

FAR = 2.0  # pooled standard errors
_TRIED = ("presets", "wirings", "shapes", "edges", "norm", "draws", "walks")


@dataclass(frozen=True)
class Trial:
    """A variant of a cell: the change, mean and number of its runs, and the distance from the paper."""

    change: str
    mean: float
    seeds: int
    errors: float


@dataclass(frozen=True)
class Difference:
    """A cell more than :data:`FAR` pooled standard errors from the paper's."""

    name: str
    decimals: int
    difference: float
    errors: float
    tried: tuple[Trial, ...]

    @property
    def verdict(self) -> str:
        """The variant closest to the paper, if it is close."""
        near = [trial for trial in self.tried if abs(trial.errors) <= FAR]
        return min(near, key=lambda trial: abs(trial.errors)).change if near else "none"

    def cells(self) -> tuple[str, ...]:
        """The columns of the table: cell, difference, standard errors, variants, closest variant."""
        tried = ", ".join(f"{t.change} {t.mean:.{self.decimals}f} ({t.errors:+.1f})" for t in self.tried)
        change = f"{self.difference:+.{self.decimals}f}"
        return self.name, change, f"{self.errors:+.1f}", tried or "none run", self.verdict

    def to_json(self) -> dict[str, Any]:
        """The fields as JSON values."""
        return asdict(self) | {"verdict": self.verdict}


def differences(folders: Iterable[str | Path]) -> list[Difference]:
    """Every cell of Tables 1 to 3 that is far from the paper, from the records below the folders.

    Example:
        >>> import tempfile
        >>> differences([tempfile.mkdtemp()])
        []
    """
    landed = load_runs(folders)
    trials = _trials(landed)
    found = []
    for table in ("table1", "table2", "table3"):
        for row in rows_of(cells_of(table), landed):
            errors = row.standard_errors
            if errors is None or abs(errors) <= FAR or row.difference is None:
                continue
            own = key_of(row.cell.config)
            tried = [trial for key, trial in trials.get(_network(row.cell), {}).items() if key != own]
            name = " ".join(str(label) for label in row.cell.labels.values())
            noise = ", random features" if table == "table3" else ""
            found.append(Difference(f"{name}{noise}", row.metric.decimals, row.difference, errors, tuple(tried)))
    return found


def differences_table(folders: Iterable[str | Path]) -> Sheet:
    """The differences as a table."""
    found = differences(folders)
    headings = ("cell", False), ("diff", True), ("SE", True), ("variants (SE)", False), ("closest within 2 SE", False)
    rows, values = tuple(d.cells() for d in found), tuple(d.to_json() for d in found)
    return Sheet(title="Cells that differ from the paper", columns=headings, rows=rows, values=values)


def _network(cell: Cell) -> tuple[Any, ...]:
    """A key that a cell shares with its variants."""
    model = cell.config.model
    return cell.config.data.name, model.model, model.lrga, model.budget, model.random_features


def _trials(landed: Sequence[Run]) -> dict[tuple[Any, ...], dict[str, Trial]]:
    """The variants of each network that were run, without duplicates."""
    found: dict[tuple[Any, ...], dict[str, Trial]] = {}
    for row in rows_of(_variants(), landed):
        if (trial := _trial(row)) is not None:
            found.setdefault(_network(row.cell), {}).setdefault(key_of(row.cell.config), trial)
    return found


@cache
def _variants() -> tuple[Cell, ...]:
    return tuple(cell for part in _TRIED for cell in PARTS[part].cells(None, {}))


def _trial(row: Row) -> Trial | None:
    spread, errors = row.spread(), row.standard_errors
    return (
        None if spread is None or errors is None else Trial(row.cell.labels["variant"], spread.mean, spread.n, errors)
    )
