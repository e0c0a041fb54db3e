"""Records of benchmarks (:mod:`lrga.speed.record`) as reports show them: labels, sizes and what is measured."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from lrga.io.documents import is_number
from lrga.speed.record import UNITS, WORDS, unit_of

TITLES = {"time": "Time", "memory": "Memory", "throughput": "Throughput", "ratio": "Times faster than the baseline"}
SIZES = (
    "nodes", "num_nodes", "n", "ranks", "edges", "num_edges", "graphs", "processes", "workers", "world_size", "world",
    "gpus", "devices", "threads", "rank", "batch_size", "size",
)  # fmt: skip
_NEVER_LABELS = ("wanted", "seed")


@dataclass(frozen=True)
class SpeedRecord:
    """A benchmark's rows.

    Attributes:
        name: Of its file.
        place: Its path.
        facts: What holds for all rows, such as device and versions.
        rows: As they were written.
        labels: Columns that say what a row is.
        size: Column of the size that grows from row to row, where there is one.
        measures: Numeric columns by what they measure: ``time``, ``memory``, ``throughput``, ``ratio``.
    """

    name: str
    place: str
    facts: dict[str, Any]
    rows: list[dict[str, Any]]
    labels: list[str]
    size: str | None
    measures: dict[str, list[str]]

    def label(self, row: dict[str, Any]) -> str:
        """What a row is, in a line."""
        return ", ".join(str(row[key]) for key in self.labels if row.get(key) is not None) or self.name

    @property
    def panels(self) -> list[tuple[str, list[str]]]:
        """Titles and columns of the charts: what is measured in one unit stands in one."""
        groups: dict[tuple[str, str], list[str]] = {}
        for kind, columns in self.measures.items():
            for column in columns:
                groups.setdefault((kind, unit_name(column)), []).append(column)
        several = [kind for kind, _ in groups]
        return [
            (TITLES[kind] + (f" ({unit})" if several.count(kind) > 1 else ""), columns)
            for (kind, unit), columns in groups.items()
        ]

    @property
    def skipped(self) -> list[tuple[str, str]]:
        """Rows without numbers, and why."""
        return [(self.label(row), str(row["skipped"])) for row in self.rows if row.get("skipped")]


def speed_record(values: dict[str, Any], path: Path) -> SpeedRecord:
    """The view of a benchmark's record of JSON ``values``; :func:`~lrga.speed.record.problem_of` says what is none.

    Example:
        >>> from lrga.speed.record import make_record
        >>> rows = [{"case": "a graph", "forward_ms": 1.5}]
        >>> record = speed_record(make_record("attention", rows, device="cpu"), Path("a.json"))
        >>> record.labels, record.measures
        (['case'], {'time': ['forward_ms']})
    """
    rows: list[dict[str, Any]] = values["rows"]
    facts = {key: value for key, value in values.items() if key not in ("rows", "profiles", "settings", "load")}
    facts |= {"load average": (values["load"] or {}).get("average"), **values["settings"]}
    facts = {key: value for key, value in facts.items() if value is not None}
    columns = list(dict.fromkeys(key for row in rows for key in row))
    numeric = [key for key in columns if any(is_number(row.get(key)) for row in rows)]
    measures: dict[str, list[str]] = {}
    for key in numeric:
        if (unit := unit_of(key)) is not None:
            measures.setdefault(UNITS[unit], []).append(key)
    words = [key for key in WORDS if key in columns and (key == "case" or len({row.get(key) for row in rows}) > 1)]
    sizes = [key for key in numeric if key in SIZES and len({row.get(key) for row in rows}) > 1]
    growing = [key for key in SIZES if key in sizes and _grows(rows, key, words)]
    size = growing[0] if growing else None
    labels = words + [key for key in sizes if key != size and not _follows(rows, key, [*words, *growing[:1]])]
    for key in numeric:  # what else tells rows apart that words and sizes leave alike
        if unit_of(key) is None and key not in (*labels, size, *_NEVER_LABELS):
            before, after = (_different(rows, [*labels, *growing[:1], *more]) for more in ([], [key]))
            labels += [key] if after > before else []
    return SpeedRecord(path.stem, str(path), facts, rows, labels, size, measures)


def unit_name(column: str) -> str:
    """The unit of a column in words.

    Example:
        >>> unit_name("forward_ms"), unit_name("graphs_per_second")
        ('ms', 'per second')
    """
    return str(unit_of(column)).replace("_", " ")


def _different(rows: list[dict[str, Any]], keys: list[str]) -> int:
    return len({tuple(row.get(key) for key in keys) for row in rows})


def _grows(rows: list[dict[str, Any]], key: str, words: list[str]) -> bool:
    """Whether some series, told by its words, has this number in several sizes."""
    series: dict[tuple[Any, ...], set[Any]] = {}
    for row in rows:
        if is_number(row.get(key)):
            series.setdefault(tuple(row.get(word) for word in words), set()).add(row[key])
    return any(len(sizes) > 1 for sizes in series.values())


def _follows(rows: list[dict[str, Any]], key: str, others: list[str]) -> bool:
    """Whether the other columns decide this one."""
    known: dict[tuple[Any, ...], Any] = {}
    return all(known.setdefault(tuple(row.get(o) for o in others), row.get(key)) == row.get(key) for row in rows)
