"""The course of training in few numbers, for a record that stays small however long the run."""

from collections.abc import Sequence

from lrga.training.callbacks.events import EpochRecord

POINTS = 100
DIGITS = 5
_COLUMNS = ("lr", "train_loss", "train_metric", "val_loss", "val_metric", "test_metric")


def compact(history: Sequence[EpochRecord]) -> dict[str, list[float]]:
    """Columns of numbers, one entry for each of at most :data:`POINTS` epochs: evenly spread, first and last included.

    Example:
        >>> compact([])
        {}
    """
    if not history:
        return {}
    count = min(len(history), POINTS)
    places = [round(i * (len(history) - 1) / max(count - 1, 1)) for i in range(count)]
    chosen = [history[place] for place in places]
    curve: dict[str, list[float]] = {"epoch": [record.epoch for record in chosen]}
    for name in _COLUMNS:
        curve[name] = [float(f"{getattr(record, name):.{DIGITS}g}") for record in chosen]
    return curve
