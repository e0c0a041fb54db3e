"""A run folder: written piece by piece, sound at every moment."""

import json

import pytest
import torch

from lrga.data.datasets.spec import spec_of
from lrga.errors import CheckpointError
from lrga.tasks import task_of
from lrga.training.architecture import resolve
from lrga.training.callbacks.events import EpochRecord
from lrga.training.config import DataConfig, ModelConfig, TrainingConfig
from lrga.training.runs.folder import RunFolder

CONFIG = TrainingConfig(data=DataConfig(name="ZINC"))
TIMES = {"seconds": 0.1, "epoch_seconds": 0.1}
ARCHITECTURE = resolve(ModelConfig(), spec_of("ZINC").inputs, dataset="ZINC")


def record(epoch):
    return EpochRecord(
        epoch=epoch, lr=1e-3, train_loss=1.0, train_metric=2.0, val_loss=3.0, val_metric=4.0, test_loss=5.0,
        test_metric=6.0, seconds=0.1, elapsed=0.1,
    )  # fmt: skip


RESULT = {
    "test": 6.0, "stopped_by": "min_lr", "metric": "mae", "epochs": 1, "seconds": 0.1, "parameters": 9, "seed": 41,
    "last": record(1).to_json(), "best": record(1).to_json(),
}  # fmt: skip


@pytest.fixture
def folder(tmp_path):
    home = RunFolder(tmp_path / "runs" / "a")
    with home.lock():
        home.create(CONFIG, ARCHITECTURE, task_of("ZINC"), "fingerprint")
    return home


def test_what_was_written_reads_back(folder):
    assert folder.holds_a_run
    assert folder.config() == CONFIG
    assert folder.model_facts() == (ARCHITECTURE, task_of("ZINC"), "fingerprint")
    folder.continue_with(CONFIG.changed(device="cpu"))
    assert folder.config().run.device == "cpu"


def test_every_start_is_remembered(folder):
    folder.add_environment({"device": "cpu"})
    folder.add_environment({"device": "cuda:0"})
    assert [start["device"] for start in folder.environments()] == ["cpu", "cuda:0"]


def test_metrics_after_the_checkpoint_are_cut_off(folder):
    folder.append_metrics(record(1))
    path = folder.save_checkpoint(
        "0-000001-0000000", {"model": {"w": torch.ones(1)}}, {"epoch": 1, "batch": 0, **TIMES}
    )
    folder.append_metrics(record(2))
    with open(folder.path / "metrics.jsonl", "a") as file:
        file.write('{"epoch": 3, "lr"')  # killed while writing
    checkpoint, problems = folder.checkpoint()
    assert checkpoint.path == path
    assert problems == []
    folder.cut_metrics(checkpoint.state["metrics_bytes"])
    assert folder.history() == (record(1),)


def test_metrics_that_are_gone_are_missed(folder):
    with pytest.raises(CheckpointError, match="bytes"):
        folder.cut_metrics(10)


def test_a_broken_line_is_told_of(folder):
    (folder.path / "metrics.jsonl").write_text('{"epoch": 1}\n')
    with pytest.raises(CheckpointError, match=r"metrics\.jsonl"):
        folder.history()


def test_the_log_has_one_line_for_each_event(folder):
    folder.log("first")
    folder.log("second")
    lines = (folder.path / "log.txt").read_text().splitlines()
    assert [line.split("  ")[1] for line in lines] == ["first", "second"]


def test_weights_are_the_checkpoint_s_until_the_result_is_written(folder):
    with pytest.raises(CheckpointError, match="no checkpoint"):
        folder.weights()
    folder.save_checkpoint("000000-0000003", {"model": {"w": torch.ones(1)}}, {"epoch": 0, "batch": 3, **TIMES})
    assert folder.weights()["w"].item() == 1.0
    with pytest.raises(CheckpointError, match="no finished epoch"):
        folder.weights("best")
    assert folder.result() is None
    folder.save_result(RESULT, {"model": {"w": torch.zeros(1)}, "best": {"w": torch.full((1,), 2.0)}})
    assert (folder.weights()["w"].item(), folder.weights("best")["w"].item()) == (0.0, 2.0)
    assert folder.result() == RESULT


def test_damaged_weights_and_facts_are_told_of(folder):
    folder.save_result(RESULT, {"model": {"w": torch.zeros(1)}})
    (folder.path / "model.safetensors").write_bytes(b"nothing")
    with pytest.raises(CheckpointError, match=r"model\.safetensors"):
        folder.weights()
    (folder.path / "model.json").write_text(json.dumps({"architecture": ARCHITECTURE.to_json()}))
    with pytest.raises(CheckpointError, match=r"model\.json"):
        folder.model_facts()


def test_a_folder_without_a_run_is_refused(tmp_path):
    assert not RunFolder(tmp_path).holds_a_run
    with pytest.raises(CheckpointError, match=r"no config\.json"):
        RunFolder(tmp_path).config()
    with pytest.raises(CheckpointError, match="no such folder"):
        RunFolder(tmp_path / "none").config()
