"""Records of runs that were never made."""

from lrga.experiments.records import RunRecord

EPOCH = {
    "epoch": 2, "lr": 1e-3, "train_loss": 0.5, "train_metric": 60.0, "val_loss": 0.7, "val_metric": 0.8,
    "test_loss": 0.9, "test_metric": 0.45, "seconds": 1.0, "elapsed": 2.0,
}  # fmt: skip


def record_of(config, *, test=0.45, note="", metric="mae", **changes):
    """The record of a finished run of two epochs with this test metric; ``changes`` are fields of a record."""
    last = EPOCH | {"test_metric": test}
    return RunRecord(**{
        "run": "run", "status": "finished", "reason": "min_lr", "data": {"name": config.data.name, "note": note},
        "model": {"model": config.model.model, "parameters": 7}, "config": config.to_json(), "seed": config.run.seed,
        "metric": metric, "epochs": 2, "seconds": 60.0, "last": last, "best": last, "curve": {"epoch": [1, 2]},
        "environment": [], "published": None, "time": "2020-06-01T00:00:00+0000", **changes,
    })  # fmt: skip
