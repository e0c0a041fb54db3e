"""Records of benchmarks, whatever script wrote them: rows of words and numbers, the numbers known by their names."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from lrga.io.documents import is_number

# What a column measures, by how its name ends or what stands in it; the first that fits.
KINDS: dict[str, tuple[str, ...]] = {
    "ratio": ("ratio", "times", "speedup", "faster", "slower", "efficiency"),
    "throughput": ("per_second", "per_s", "throughput"),
    "memory": ("mb", "mib", "gb", "gib", "bytes", "memory", "memory_mb"),
    "time": ("ms", "milliseconds", "seconds", "second", "us", "microseconds"),
}
TITLES = {
    "time": "Time", "memory": "Memory", "throughput": "Throughput", "ratio": "Times the baseline",
}  # fmt: skip
SIZES = (
    "nodes", "num_nodes", "n", "ranks", "edges", "num_edges", "graphs", "processes", "workers", "world_size", "world",
    "gpus", "devices", "threads", "rank", "batch_size", "size",
)  # fmt: skip
_NEVER_LABELS = ("skipped", "reason", "note", "error", "content", "commit", "time", "wanted", "seed")


@dataclass(frozen=True)
class SpeedRecord:
    """A benchmark's rows.

    Attributes:
        name: Of its file.
        place: Its path.
        facts: What holds for all rows, such as device and versions.
        rows: As they were written, plain values only.
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
                groups.setdefault((kind, unit_of(column)), []).append(column)
        several = [kind for kind, _ in groups]
        return [
            (TITLES[kind] + (f" ({unit})" if several.count(kind) > 1 else ""), columns)
            for (kind, unit), columns in groups.items()
        ]

    @property
    def skipped(self) -> list[tuple[str, str]]:
        """Rows without numbers, and why."""
        return [(self.label(row), str(row["skipped"])) for row in self.rows if row.get("skipped")]


def speed_record(values: Any, path: Path) -> SpeedRecord | None:
    """A benchmark's record of JSON ``values``; ``None`` where they are none.

    Example:
        >>> record = speed_record({"device": "CPU", "rows": [{"method": "lrga", "forward_ms": 1.5}]}, Path("a.json"))
        >>> record.labels, record.measures
        (['method'], {'time': ['forward_ms']})
    """
    facts, listed = ({}, values) if isinstance(values, list) else _rows(values)
    rows = [_plain(row) for row in listed if isinstance(row, dict)]
    columns = list(dict.fromkeys(key for row in rows for key in row))
    numeric = [key for key in columns if any(is_number(row.get(key)) for row in rows)]
    measures: dict[str, list[str]] = {}
    for key in numeric:
        if (kind := kind_of(key)) is not None:
            measures.setdefault(kind, []).append(key)
    if not measures:
        return None
    words = [key for key in columns if any(isinstance(row.get(key), str) for row in rows) and key not in _NEVER_LABELS]
    sizes = [key for key in numeric if key in SIZES and len({row.get(key) for row in rows}) > 1]
    growing = [key for key in SIZES if key in sizes and _grows(rows, key, words)]
    size = growing[0] if growing else None
    labels = words + [key for key in sizes if key != size and not _follows(rows, key, [*words, *growing[:1]])]
    measured = {key for columns in measures.values() for key in columns}
    for key in numeric:  # what else tells rows apart that words and sizes leave alike
        if key not in measured and key not in (*labels, size, *_NEVER_LABELS):
            before, after = (_different(rows, [*labels, *growing[:1], *more]) for more in ([], [key]))
            labels += [key] if after > before else []
    return SpeedRecord(path.stem, str(path), facts, rows, labels, size, measures)


def _different(rows: list[dict[str, Any]], keys: list[str]) -> int:
    return len({tuple(row.get(key) for key in keys) for row in rows})


def unit_of(column: str) -> str:
    """The part of a column's name that says in what it is measured.

    Example:
        >>> unit_of("forward_ms"), unit_of("peak_bytes"), unit_of("graphs_per_second")
        ('ms', 'bytes', 'per second')
    """
    parts, kind = column.lower().split("_"), kind_of(column)
    if kind == "throughput":
        return "per second"
    found = next((part for part in reversed(parts) if kind is not None and part in KINDS[kind]), "")
    return {"milliseconds": "ms", "second": "seconds", "microseconds": "us"}.get(found, found)


def kind_of(column: str) -> str | None:
    """What a column measures, by its name.

    Example:
        >>> kind_of("both_ms"), kind_of("mb"), kind_of("pyg_graphs_per_second"), kind_of("times_faster"), kind_of("x")
        ('time', 'memory', 'throughput', 'ratio', None)
    """
    name, parts = column.lower(), set(column.lower().split("_"))
    for kind, words in KINDS.items():
        if any(word in parts or (len(word) > 4 and word in name) for word in words):
            return kind
    return None


def _rows(values: Any) -> tuple[dict[str, Any], list[Any]]:
    if not isinstance(values, dict):
        return {}, []
    lists = {key: v for key, v in values.items() if isinstance(v, list) and v and all(isinstance(r, dict) for r in v)}
    chosen = "rows" if "rows" in lists else next(iter(lists), None)
    if chosen is not None:
        return {key: value for key, value in values.items() if key != chosen}, lists[chosen]
    named = {key: v for key, v in values.items() if isinstance(v, dict) and any(kind_of(str(name)) for name in v)}
    facts = {key: value for key, value in values.items() if key not in named}
    return facts, [{"case": key, **row} for key, row in named.items()]


def _plain(row: dict[str, Any]) -> dict[str, Any]:
    """Words and finite numbers only."""
    return {
        str(key): value
        for key, value in row.items()
        if value is None or isinstance(value, str | bool) or is_number(value)
    }


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
