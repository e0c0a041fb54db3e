"""A curve keeps few points, the first and the last among them."""

from lrga.experiments.records import POINTS, compact
from lrga.training.callbacks.base import EpochRecord


def epochs(count: int) -> list[EpochRecord]:
    return [
        EpochRecord(
            epoch=n, lr=1e-3, train_loss=1 / n, train_metric=n, val_loss=1 / 3, val_metric=n, test_loss=1.0,
            test_metric=n / 7, seconds=1.0, elapsed=float(n),
        )
        for n in range(1, count + 1)
    ]  # fmt: skip


def test_a_run_keeps_few_different_epochs_and_both_ends():
    curve = compact(epochs(1000))
    assert len(curve["epoch"]) == len(set(curve["epoch"])) == POINTS
    assert (curve["epoch"][0], curve["epoch"][-1]) == (1, 1000)
    assert {len(column) for column in curve.values()} == {POINTS}
    curve = compact(epochs(3))
    assert curve["epoch"] == [1, 2, 3]
    assert curve["val_loss"] == [0.33333] * 3
    assert curve["test_metric"][0] == 0.14286
    assert compact(epochs(1))["epoch"] == [1]
    assert compact([]) == {}
