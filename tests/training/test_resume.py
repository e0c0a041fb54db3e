"""Taking up a run: the same one on the same graphs, or a refusal."""

import json
import shutil

import pytest
import torch

from lrga.errors import CheckpointError, OptionError
from lrga.training import continue_run, train
from lrga.training.runs.folder import RunFolder


@pytest.fixture
def paused(make_config, make_splits, tmp_path):
    folder = tmp_path / "run"
    train(make_config(), folder, data=make_splits(), time_limit=1e-9)
    return folder


@pytest.mark.parametrize("change", [{"lr": 0.1}, {"seed": 8}, {"hidden": 9}, {"name": "others"}, {"batch_size": 4}])
def test_another_run_in_the_same_folder_is_refused(make_config, make_splits, paused, change):
    (key,) = change
    with pytest.raises(CheckpointError, match=key):
        train(make_config(**change), paused, data=make_splits())


def test_where_and_how_it_is_saved_may_change(make_config, make_splits, paused):
    config = make_config(device="auto", checkpoint_minutes=1.0, root="elsewhere")
    assert train(config, paused, data=make_splits()).finished
    assert RunFolder(paused).config() == config


def test_other_graphs_under_the_same_name_are_refused(make_config, make_splits, paused):
    with pytest.raises(CheckpointError, match="others under the same name"):
        train(make_config(), paused, data=make_splits(seed=1))


def test_another_network_from_the_same_configuration_is_refused(make_config, make_splits, paused):
    facts = json.loads((paused / "model.json").read_text())
    facts["architecture"]["num_layers"] = 5
    del facts["sha256"]
    (paused / "model.json").write_text(json.dumps(facts))
    with pytest.raises(CheckpointError, match="another one"):
        train(make_config(), paused, data=make_splits())


def test_a_finished_run_can_be_given_more_epochs(make_config, make_splits, tmp_path):
    whole = train(make_config(max_epochs=5), tmp_path / "whole", data=make_splits())
    train(make_config(max_epochs=3), tmp_path / "run", data=make_splits())
    longer = continue_run(tmp_path / "run", data=make_splits(), max_epochs=5)
    assert longer.epochs == 5
    for name, value in whole.model.state_dict().items():
        assert torch.equal(value, longer.model.state_dict()[name])
    assert RunFolder(tmp_path / "run").config().optimizer.max_epochs == 5
    with pytest.raises(OptionError, match="5 epochs"):
        continue_run(tmp_path / "run", data=make_splits(), max_epochs=2)


def test_a_damaged_checkpoint_costs_an_epoch_and_not_the_run(make_config, make_splits, tmp_path, monkeypatch):
    monkeypatch.setattr("lrga.training.runs.checkpointer.EPOCH_SECONDS", 0.0)
    whole = train(make_config(), tmp_path / "whole", data=make_splits())
    folder = tmp_path / "run"
    train(make_config(), folder, data=make_splits())
    (folder / "result.json").unlink()
    weights = folder / "checkpoints" / "0-000003-0000000" / "model.safetensors"
    weights.write_bytes(weights.read_bytes()[:-10])
    after = train(make_config(), folder, data=make_splits())
    assert [record.epoch for record in after.history] == [1, 2, 3]
    for name, value in whole.model.state_dict().items():
        assert torch.equal(value, after.model.state_dict()[name])
    assert "passed over" in (folder / "log.txt").read_text()


def test_a_run_killed_before_its_first_checkpoint_begins_again(make_config, make_splits, paused):
    shutil.rmtree(paused / "checkpoints")
    (paused / "metrics.jsonl").write_text('{"epoch": 1, "lr')
    result = train(make_config(), paused, data=make_splits())
    assert [record.epoch for record in result.history] == [1, 2, 3]


def test_a_folder_without_a_run_cannot_be_continued(tmp_path):
    with pytest.raises(CheckpointError, match="lrga train"):
        continue_run(tmp_path)
