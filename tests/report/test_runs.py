"""A run, whether from its folder or from its record."""

import json
import shutil

import pytest

from lrga.errors import LRGAError
from lrga.report.runs import UNFINISHED, run_of_folder, run_of_record


def test_a_folder_tells_what_its_result_tells(trained):
    run, result = run_of_folder(trained), json.loads((trained / "result.json").read_text())
    assert run.finished
    assert (run.name, run.dataset, run.model, run.seed) == ("cluster-run", "CLUSTER", "LRGA + GCN", 7)
    assert run.last["test_metric"] == result["test"]
    assert run.best == result["best"]
    assert (run.epochs, run.parameters, run.reason) == (2, result["parameters"], "max_epochs")
    assert run.curve["epoch"] == [1, 2]
    assert run.metric.name == "weighted accuracy (%)"
    assert run.environment[0]["device"] == "cpu"


def test_a_record_tells_the_same(make_record):
    record = make_record("a", test=60.0)
    run = run_of_record(record, "a.json")
    assert (run.name, run.place, run.last["test_metric"], run.parameters) == ("a", "a.json", 60.0, 91_131)
    assert run.curve["val_metric"][-1] == 60.0


def test_a_run_without_a_result_is_unfinished(trained, tmp_path):
    folder = shutil.copytree(trained, tmp_path / "run")
    (folder / "result.json").unlink()
    run = run_of_folder(folder)
    assert (run.status, run.finished, run.epochs) == (UNFINISHED, False, 2)
    assert "stops after 2 epochs" in run.reason
    assert run.parameters is not None


@pytest.mark.parametrize("name", ["model.json", "result.json", "environment.json"])
@pytest.mark.parametrize("content", ["", "[1, 2]", '{"a": 1}', "null", "\x00\xff"])
def test_damage_to_a_file_is_told_and_the_rest_is_read(trained, tmp_path, name, content):
    folder = shutil.copytree(trained, tmp_path / "run")
    (folder / name).write_text(content)
    run = run_of_folder(folder)
    assert run.epochs == 2
    if content != '{"a": 1}' or name == "model.json":
        assert any(fault.startswith(name) for fault in run.faults) or name == "result.json"


@pytest.mark.parametrize("content", ["", "{}", "[]", '{"data": {"name": "x"}, "odd": 1}', '{"data": 3}'])
def test_a_configuration_that_is_none_is_refused(tmp_path, content):
    (tmp_path / "config.json").write_text(content)
    with pytest.raises(LRGAError):
        run_of_folder(tmp_path)


def test_columns_of_a_curve_that_are_no_numbers_are_left_out(make_record):
    record = make_record()
    record.curve["lr"] = ["a"] * 5
    record.curve["val_loss"] = [1.0]
    assert set(record.curve) - set(run_of_record(record, "").curve) == {"lr", "val_loss"}
    record.curve["epoch"] = None
    assert run_of_record(record, "").curve == {}
