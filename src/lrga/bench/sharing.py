"""Runs that shared a device: whose its time was.

A moment in which n runs went on is charged to each by 1/n. So the seconds of a run that shared its device and of one
that had it to itself can be set beside each other, and the sum over runs is the time in which the device was busy.
"""

from bisect import bisect_left
from collections.abc import Iterable, Sequence
from typing import Any

from lrga.bench.records import RunRecord, clock_seconds

Span = tuple[float, float]


def device_of(record: RunRecord) -> str:
    """The device of a run's last start."""
    last = record.environment[-1] if record.environment else {}
    return str(last.get("gpu") or last.get("cpu") or "an unknown device")


def span_of(record: RunRecord) -> Span | None:
    """From the last start of a run to its record, in seconds of the clock; a paused run has a record for each start."""
    began = _began(record)
    return None if began is None else (clock_seconds(began), clock_seconds(record.time))


def busy_seconds(spans: Iterable[Span]) -> float:
    """Seconds covered by at least one span.

    Example:
        >>> busy_seconds([(0.0, 10.0), (5.0, 15.0), (20.0, 21.0)])
        16.0
    """
    total, reached = 0.0, float("-inf")
    for begin, end in sorted(spans):
        total += max(0.0, end - max(begin, reached))
        reached = max(reached, end)
    return total


def charged(spans: Sequence[Span]) -> list[float]:
    """Of each span the seconds that are its own, where those that go on at the same time have equal parts.

    Example:
        >>> charged([(0.0, 10.0), (5.0, 15.0)])
        [7.5, 7.5]
    """
    moments = sorted({moment for span in spans for moment in span})
    ranges = [range(bisect_left(moments, begin), bisect_left(moments, end)) for begin, end in spans]
    going_on = [0] * len(moments)
    for places in ranges:
        for place in places:
            going_on[place] += 1
    return [sum((moments[i + 1] - moments[i]) / going_on[i] for i in places) for places in ranges]


def parts_of(records: Sequence[RunRecord], beside: Iterable[RunRecord]) -> list[float]:
    """Of each run the part of its seconds that the device spent on it: 1 where it was alone, or no start is known.

    Args:
        records: The runs.
        beside: All runs that may have gone on at the same time, these among them, with the records of their pauses.
    """
    by_device: dict[str, list[tuple[RunRecord, Span]]] = {}
    for record in beside:
        if (span := span_of(record)) is not None and span[1] > span[0]:
            by_device.setdefault(device_of(record), []).append((record, span))
    starts: dict[tuple[str, Any], tuple[float, float]] = {}  # of a run: its seconds from there on, and those charged
    for known in by_device.values():
        own = charged([span for _, span in known])
        for (record, (begin, end)), seconds in zip(known, own, strict=True):
            starts[record.run, _began(record)] = end - begin, seconds
    parts = []
    for record in records:
        found = [starts[record.run, start.get("started")] for start in record.environment
                 if (record.run, start.get("started")) in starts]  # fmt: skip
        parts.append(sum(own for _, own in found) / sum(length for length, _ in found) if found else 1.0)
    return parts


def _began(record: RunRecord) -> str | None:
    return record.environment[-1].get("started") if record.environment else None
