"""What a set of runs took: minutes of training, and minutes in which a GPU was busy with at least one of them."""

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from lrga.bench.estimate import estimate_hours
from lrga.bench.gathering import Landed, gather_records, key_of
from lrga.bench.protocols import cells_of
from lrga.bench.records import FINISHED, clock_seconds


@dataclass(frozen=True, kw_only=True)
class Usage:
    """What :func:`usage_of` returns.

    Attributes:
        runs: Finished runs.
        unfinished: Runs that were paused, failed or diverged, and have no finished record.
        run_minutes: Sum over all runs of their own seconds, evaluation included.
        busy_minutes: Time in which at least one of them was going on, from the start of its training to its record:
            less than the sum where several shared a GPU.
        devices: Names of the GPUs, or CPUs, with their runs.
    """

    runs: int
    unfinished: int
    run_minutes: float
    busy_minutes: float
    devices: dict[str, int]

    @property
    def overlap(self) -> float:
        """How many runs shared the device at a time, on average; 1 where none did."""
        return max(1.0, self.run_minutes / self.busy_minutes) if self.busy_minutes else 1.0

    def sentence(self) -> str:
        """In words."""
        if not self.runs + self.unfinished:
            return "No run has a record yet."
        where = ", ".join(f"{count} on {name}" for name, count in self.devices.items())
        more = f" and {self.unfinished} unfinished" if self.unfinished else ""
        return (
            f"{self.runs} finished{more} runs ({where}): {self.busy_minutes:.0f} minutes of the device, "
            f"{self.run_minutes:.0f} when the runs that shared it are added up."
        )


def usage_lines(folders: Iterable[str | Path]) -> list[str]:
    """In sentences: what the records took on each device, and what the whole of Table 1 with its four seeds would take
    on the one that made most of them.

    Example:
        >>> import tempfile
        >>> usage_lines([tempfile.mkdtemp()])
        ['No run has a record yet.']
    """
    devices: dict[str, list[Landed]] = {}
    for entry in gather_records(folders):
        devices.setdefault(_device(entry.record.environment), []).append(entry)
    groups = sorted(devices.values(), key=len, reverse=True) or [[]]
    used = [usage_of(group) for group in groups]
    lines = [usage.sentence() for usage in used]
    most = [entry.record for entry in groups[0]]
    runs = [record for record in most if record.status == FINISHED and "link" not in record.config]
    if not runs:
        return lines
    for title, names in (("PATTERN, CLUSTER and ZINC of Table 1", ("PATTERN", "CLUSTER", "ZINC")), ("Table 1", None)):
        cells = [cell for cell in cells_of("table1") if names is None or cell.config.data.name in names]
        estimate = estimate_hours(cells, runs)
        count = sum(cell.seeds for cell in estimate.cells)
        share = used[0].overlap
        shared = "" if share < 1.05 else (
            f"; {share:.1f} at a time, as these were on average, some {estimate.hours / share:.1f} hours of the device"
        )  # fmt: skip
        lines.append(
            f"{title} with four seeds ({count} runs): an estimated {estimate.hours:.1f} hours, added up over runs, "
            f"on {estimate.device} in {estimate.engine} steps, from {estimate.runs} runs{shared}; {estimate.caution}."
        )
    return lines


def usage_of(landed: Iterable[Landed]) -> Usage:
    """Sums what the records say; a run that was paused and continued counts once, with all its starts.

    Example:
        >>> usage_of([]).sentence()
        'No run has a record yet.'
    """
    runs: dict[tuple[str, int], list[Landed]] = {}
    for entry in landed:
        runs.setdefault((key_of(entry.config), entry.record.seed), []).append(entry)
    minutes, finished, unfinished = 0.0, 0, 0
    devices: dict[str, int] = {}
    spans: dict[str, list[tuple[float, float]]] = {}
    for entries in runs.values():
        ends = [entry.record for entry in entries if entry.record.status == FINISHED]  # several where it was made anew
        finished += len(ends)
        unfinished += not ends
        for last in ends or [max(entries, key=lambda entry: entry.record.time).record]:
            minutes += last.seconds / 60
            where = _device(last.environment)
            devices[where] = devices.get(where, 0) + 1
        for entry in entries:  # each record ends the start that came last before it
            if entry.record.environment and "started" in entry.record.environment[-1]:
                begin = str(entry.record.environment[-1]["started"])
                spans.setdefault(_device(entry.record.environment), []).append(
                    (clock_seconds(begin), clock_seconds(entry.record.time))
                )
    busy = sum(_union(own) for own in spans.values()) / 60
    return Usage(runs=finished, unfinished=unfinished, run_minutes=minutes, busy_minutes=busy, devices=devices)


def _device(environment: list[dict[str, Any]]) -> str:
    last = environment[-1] if environment else {}
    return str(last.get("gpu") or last.get("cpu") or "an unknown device")


def _union(spans: list[tuple[float, float]]) -> float:
    """Seconds covered by at least one span."""
    total, reached = 0.0, float("-inf")
    for begin, end in sorted(spans):
        total += max(0.0, end - max(begin, reached))
        reached = max(reached, end)
    return total
