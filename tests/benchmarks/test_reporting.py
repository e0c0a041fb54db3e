"""Records of the benchmarks say of what commit, when and beside what they were made."""

import importlib
import json
from datetime import datetime

import pytest

from lrga.training.runs.environment import commit


@pytest.fixture(scope="module")
def reporting():
    return importlib.import_module("reporting")


def test_a_record_carries_commit_date_and_load(reporting, tmp_path, capsys):
    out = tmp_path / "new" / "record.json"
    reporting.report({"rows": [1]}, print, out=out, as_json=True)
    record = json.loads(out.read_text())
    assert json.loads(capsys.readouterr().out) == record
    assert record["rows"] == [1]
    assert record["commit"] == commit()
    assert datetime.fromisoformat(record["date"]).tzinfo is not None
    assert record["load"]["average"] >= 0
    assert record["load"]["cores"] >= 1


def test_the_load_of_gpus_is_what_nvidia_smi_says(reporting, tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", str(tmp_path))
    assert reporting.conditions()["load"]["gpu"] is None
    command = tmp_path / "nvidia-smi"
    command.write_text("#!/bin/sh\ncase $1 in *utilization*) echo 3; echo 40;; *) echo 17;; esac\n")
    command.chmod(0o755)
    assert reporting.conditions()["load"]["gpu"] == {"utilization_percent": 40, "processes": 1}
    command.write_text("#!/bin/sh\nexit 9\n")
    assert reporting.conditions()["load"]["gpu"] is None
