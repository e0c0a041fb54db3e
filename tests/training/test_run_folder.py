"""The folder of a run."""

import json
import re

import pytest
import torch

from lrga.data.datasets.spec import spec_of
from lrga.errors import CheckpointError
from lrga.tasks import task_of
from lrga.training.callbacks.base import EpochRecord
from lrga.training.config import DataConfig, ModelConfig, TrainingConfig
from lrga.training.problems.architecture import resolve
from lrga.training.runs.environment import commit, environment
from lrga.training.runs.folder import RunFolder, TrainingResult
from lrga.version import __version__

CONFIG = TrainingConfig(data=DataConfig(name="ZINC"))
TIMES = {"seconds": 0.1, "epoch_seconds": 0.1}
ARCHITECTURE = resolve(ModelConfig(), spec_of("ZINC").inputs, dataset="ZINC")


def record(epoch):
    return EpochRecord(
        epoch=epoch, lr=1e-3, train_loss=1.0, train_metric=2.0, val_loss=3.0, val_metric=4.0, test_loss=5.0,
        test_metric=6.0, seconds=0.1, elapsed=0.1,
    )  # fmt: skip


def result(**changes):
    values = {
        "stopped_by": "max_epochs", "metric": "accuracy", "last": record(2), "best": record(2), "epochs": 2,
        "seconds": 0.2, "parameters": 10, "seed": 41,
    }  # fmt: skip
    return TrainingResult(**(values | changes))


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


def test_every_start_and_event_is_remembered(folder):
    folder.add_environment({"device": "cpu"})
    folder.add_environment({"device": "cuda:0"})
    assert [start["device"] for start in folder.environments()] == ["cpu", "cuda:0"]
    folder.log("first")
    folder.log("second")
    lines = (folder.path / "log.txt").read_text().splitlines()
    assert [line.split("  ")[1] for line in lines] == ["first", "second"]


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


def test_metrics_that_are_gone_or_broken_are_told_of(folder):
    with pytest.raises(CheckpointError, match="bytes"):
        folder.history(10)
    (folder.path / "metrics.jsonl").write_text('{"epoch": 1}\n')
    with pytest.raises(CheckpointError, match=r"metrics\.jsonl"):
        folder.history()


def test_weights_are_the_checkpoint_s_until_the_result_is_written(folder):
    with pytest.raises(CheckpointError, match="no checkpoint"):
        folder.weights()
    folder.save_checkpoint("000000-0000003", {"model": {"w": torch.ones(1)}}, {"epoch": 0, "batch": 3, **TIMES})
    assert folder.weights()["w"].item() == 1.0
    with pytest.raises(CheckpointError, match="no finished epoch"):
        folder.weights("best")
    assert folder.result() is None
    written = result(stopped_by="min_lr").to_json()
    folder.save_result(written, {"model": {"w": torch.zeros(1)}, "best": {"w": torch.full((1,), 2.0)}})
    assert (folder.weights()["w"].item(), folder.weights("best")["w"].item()) == (0.0, 2.0)
    assert folder.result().to_json() == written


def test_damaged_weights_and_facts_are_told_of(folder):
    folder.save_result(result(stopped_by="min_lr").to_json(), {"model": {"w": torch.zeros(1)}})
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


def test_a_result_knows_its_number_its_digits_and_whether_the_run_is_finished():
    assert result().test == 6.0
    assert result(last=None, best=None, epochs=0).test is None
    assert result().finished
    assert result(stopped_by="min_lr").finished
    assert not result(stopped_by="time_limit").finished
    assert result().format_metric(54.123) == "54.12"
    assert result(metric="mae").format_metric(0.35512) == "0.355"


def test_a_result_survives_json_and_a_foreign_one_is_refused():
    made = result()
    assert TrainingResult.from_json(json.loads(json.dumps(made.to_json()))) == made
    with pytest.raises(CheckpointError, match="metric"):
        TrainingResult.from_json({"stopped_by": "max_epochs"})
    with pytest.raises(CheckpointError):
        TrainingResult.from_json(result().to_json() | {"last": {"epoch": 1}})


def test_versions_and_hardware_are_told_as_json():
    facts = json.loads(json.dumps(environment(torch.device("cpu"))))
    assert facts["lrga"] == __version__
    assert facts["packages"]["torch"].split("+")[0] == torch.__version__.split("+")[0]
    assert facts["cpu_threads"] == torch.get_num_threads()
    assert facts["gpu"] is None
    assert facts["cpu"]


def test_a_commit_is_one_or_none_or_named_where_there_is_no_history(tmp_path, monkeypatch):
    found = commit()
    assert found is None or re.fullmatch(r"[0-9a-f]{40}\+?", found)
    copied = tmp_path / "lrga" / "__init__.py"
    copied.parent.mkdir()
    copied.write_text("")
    monkeypatch.setattr("lrga.training.runs.environment.__file__", str(copied))
    assert commit() is None
    monkeypatch.setenv("LRGA_COMMIT", "abc123")
    assert commit() == "abc123"
