"""What a set of runs took: minutes of training, and minutes in which a GPU was busy with at least one of them."""

from collections.abc import Iterable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from lrga.bench.estimate import Estimate, estimate_hours
from lrga.bench.gathering import Landed, gather_records, key_of
from lrga.bench.protocols import cells_of
from lrga.bench.records import FINISHED
from lrga.bench.sharing import Span, busy_seconds, device_of, span_of


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


@dataclass(frozen=True, kw_only=True)
class UsageReport:
    """What :func:`usage_report` returns: the runs of each device, and estimates by title, of the one of most runs."""

    used: tuple[Usage, ...]
    estimates: dict[str, Estimate]

    def lines(self) -> list[str]:
        """In sentences."""
        lines = [usage.sentence() for usage in self.used]
        for title, estimate in self.estimates.items():
            count = sum(cell.seeds for cell in estimate.cells)
            lines.append(
                f"{title} with four seeds ({count} runs): an estimated {estimate.hours:.1f} hours of {estimate.device} "
                f"in {estimate.engine} steps, from {estimate.runs} runs{estimate.sharing}; {estimate.caution}."
            )
        return lines

    def to_json(self) -> dict[str, Any]:
        """As JSON values."""
        estimates = {
            title: {key: value for key, value in estimate.to_json().items() if key not in ("cells", "notes")}
            for title, estimate in self.estimates.items()
        }
        return {"used": [asdict(usage) for usage in self.used], "estimates": estimates, "lines": self.lines()}


def usage_report(folders: Iterable[str | Path]) -> UsageReport:
    """What the records took on each device, and what the whole of Table 1 with its four seeds would take on the one
    that made most of them.

    Example:
        >>> import tempfile
        >>> usage_report([tempfile.mkdtemp()]).lines()
        ['No run has a record yet.']
    """
    devices: dict[str, list[Landed]] = {}
    for entry in gather_records(folders):
        devices.setdefault(device_of(entry.record), []).append(entry)
    groups = sorted(devices.values(), key=len, reverse=True) or [[]]
    used = tuple(usage_of(group) for group in groups)
    most = [entry.record for entry in groups[0]]
    known = any(record.status == FINISHED and "link" not in record.config for record in most)
    estimates = {}
    for title, names in (("PATTERN, CLUSTER and ZINC of Table 1", ("PATTERN", "CLUSTER", "ZINC")), ("Table 1", None)):
        if known:
            cells = [cell for cell in cells_of("table1") if names is None or cell.config.data.name in names]
            estimates[title] = estimate_hours(cells, most)
    return UsageReport(used=used, estimates=estimates)


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
    spans: dict[str, list[Span]] = {}
    for entries in runs.values():
        ends = [entry.record for entry in entries if entry.record.status == FINISHED]  # several where it was made anew
        finished += len(ends)
        unfinished += not ends
        for last in ends or [max(entries, key=lambda entry: entry.record.time).record]:
            minutes += last.seconds / 60
            where = device_of(last)
            devices[where] = devices.get(where, 0) + 1
        for entry in entries:  # each record ends the start that came last before it
            if (span := span_of(entry.record)) is not None:
                spans.setdefault(device_of(entry.record), []).append(span)
    busy = sum(busy_seconds(own) for own in spans.values()) / 60
    return Usage(runs=finished, unfinished=unfinished, run_minutes=minutes, busy_minutes=busy, devices=devices)
