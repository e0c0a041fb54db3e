"""A campaign on a GPU that is interrupted in the middle of a run ends with the record of one that was not."""

import pytest
import torch

from lrga.experiments.campaign import Campaign
from lrga.experiments.workers import run_side_by_side
from lrga.paper.protocols import table1
from lrga.training.callbacks.base import Callback

pytestmark = pytest.mark.gpu
DEVICE = "cuda"
NUMBERS = ("train_loss", "train_metric", "val_loss", "val_metric", "test_loss", "test_metric", "lr")


class StopAfter(Callback):
    """Pulls the deadline of a campaign to now after some epochs."""

    def __init__(self, monkeypatch, epochs):
        self.monkeypatch, self.left = monkeypatch, epochs

    def on_epoch_end(self, record):
        self.left -= 1
        if self.left == 0:
            self.monkeypatch.setattr(
                "lrga.training.runs.checkpoint.FolderCheckpointer.pause", lambda checkpointer, trainer: "time_limit"
            )


def numbers(outcomes):
    return [[outcome.record.last[key] for key in NUMBERS] for outcome in outcomes]


@pytest.fixture
def cell(tmp_path):
    if not torch.cuda.is_available():
        pytest.skip("no CUDA device")

    def make(**options):
        small = {"max_epochs": 6, "hidden": 32, "layers": 2, "batch_size": 16, "device": DEVICE, "root": str(tmp_path)}
        return table1("CLUSTER", seeds=[41], data_options={"sizes": (200, 40, 40)}, **(small | options))

    return make


@pytest.mark.parametrize("engine", ["auto", "plain"])
def test_interrupted_it_is_equal_to_the_last_bit_where_sums_have_one_order(engine, cell, tmp_path, monkeypatch):
    cells = [cell(deterministic=True, engine=engine)]
    whole = Campaign(cells, tmp_path / "whole").run()
    with monkeypatch.context() as patch:
        paused = Campaign(cells, tmp_path / "a", callbacks=lambda titles: [(StopAfter(patch, 2),)] * len(titles)).run()
    assert paused[0].status == "time-limited"
    assert paused[0].record.epochs == 2
    assert numbers(Campaign(cells, tmp_path / "a").run()) == numbers(whole)


def test_side_by_side_on_one_gpu_gives_the_records_of_one_process(cell, tmp_path):
    cells = [cell(deterministic=True), cell(deterministic=True, lrga=False)]
    alone = Campaign(cells, tmp_path / "alone").run()
    run_side_by_side(cells, tmp_path / "many", processes=2)
    assert numbers(Campaign(cells, tmp_path / "many").outcomes()) == numbers(alone)


def test_without_one_order_of_sums_it_is_near(cell, tmp_path, monkeypatch):
    cells = [cell()]
    whole = Campaign(cells, tmp_path / "whole").run()
    with monkeypatch.context() as patch:
        Campaign(cells, tmp_path / "a", callbacks=lambda titles: [(StopAfter(patch, 2),)] * len(titles)).run()
    again = Campaign(cells, tmp_path / "a").run()
    assert again[0].record.last["train_loss"] == pytest.approx(whole[0].record.last["train_loss"], rel=0.05)
