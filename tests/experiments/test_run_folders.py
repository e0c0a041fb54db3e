"""A run, whether from its folder or from its record."""

import json
import shutil

import pytest

from lrga.errors import LRGAError
from lrga.experiments.loading import Run
from lrga.experiments.recording import UNFINISHED, record_of_folder


def run_of_folder(folder):
    record, faults = record_of_folder(folder)
    return Run(record, str(folder), faults)


def test_a_folder_tells_what_its_result_tells(trained):
    run, result = run_of_folder(trained), json.loads((trained / "result.json").read_text())
    assert run.finished
    assert (run.name, run.config.data.name, run.record.seed) == ("cluster-run", "CLUSTER", 7)
    assert run.record.last["test_metric"] == result["test"]
    assert run.record.best == result["best"]
    assert (run.record.epochs, run.record.parameters, run.record.reason) == (2, result["parameters"], "max_epochs")
    assert run.record.curve["epoch"] == [1, 2]
    assert run.metric.name == "weighted accuracy (%)"
    assert run.record.environment[0]["device"] == "cpu"


def test_a_run_without_a_result_is_unfinished(trained, tmp_path):
    folder = shutil.copytree(trained, tmp_path / "run")
    (folder / "result.json").unlink()
    run = run_of_folder(folder)
    assert (run.record.status, run.finished, run.record.epochs) == (UNFINISHED, False, 2)
    assert "stops after 2 epochs" in run.record.reason
    assert run.record.parameters is not None


@pytest.mark.parametrize("name", ["model.json", "result.json", "environment.json"])
@pytest.mark.parametrize("content", ["", "[1, 2]", '{"a": 1}', "null", "\x00\xff"])
def test_damage_to_a_file_is_told_and_the_rest_is_read(trained, tmp_path, name, content):
    folder = shutil.copytree(trained, tmp_path / "run")
    (folder / name).write_text(content)
    run = run_of_folder(folder)
    assert run.record.epochs == 2
    if content != '{"a": 1}' or name == "model.json":
        assert any(fault.startswith(name) for fault in run.faults) or name == "result.json"


@pytest.mark.parametrize("content", ["", "{}", "[]", '{"data": {"name": "x"}, "odd": 1}', '{"data": 3}'])
def test_a_configuration_that_is_none_is_refused(tmp_path, content):
    (tmp_path / "config.json").write_text(content)
    with pytest.raises(LRGAError):
        run_of_folder(tmp_path)
