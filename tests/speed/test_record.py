"""Records of benchmarks have one form, and say of what commit, when and beside what they were made."""

import argparse
import importlib
import json
import sys
from datetime import datetime
from pathlib import Path

import pytest

from lrga.speed.record import conditions, make_record, problem_of
from lrga.training.runs.environment import commit

ROOT = Path(__file__).resolve().parents[2]
ROW = {"case": "a graph", "ms": 1.5}


@pytest.mark.parametrize(
    "path", sorted((ROOT / "reproduction" / "results" / "speed").glob("*.json")), ids=lambda path: path.stem
)
def test_every_stored_record_has_the_form(path):
    assert problem_of(json.loads(path.read_text(encoding="utf-8"))) is None


def test_a_script_writes_a_record_with_commit_date_and_load(tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(sys, "path", [str(ROOT / "benchmarks"), *sys.path])
    report = importlib.import_module("reporting").report
    options = argparse.Namespace(json=True, out=tmp_path / "new" / "record.json")
    report("sums", [ROW], print, options, device="cpu", settings={"threads": 2})
    record = json.loads(options.out.read_text())
    assert json.loads(capsys.readouterr().out) == record
    assert (record["rows"], record["settings"]) == ([ROW], {"threads": 2})
    assert record["commit"] == commit()
    assert datetime.fromisoformat(record["date"]).tzinfo is not None
    assert record["load"]["average"] >= 0
    assert record["load"]["cores"] >= 1


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"benchmark": None}, "no benchmark"),
        ({"device": None}, "no device"),
        ({"commit": 3}, "commit is not a text"),
        ({"targets": []}, "unknown field 'targets'"),
        ({"load": {"average": 1.0}}, "load is neither"),
        ({"settings": {"sizes": [1, 2]}}, "settings is not"),
        ({"rows": []}, "no rows"),
        ({"profiles": [[1]]}, "profiles is not"),
        ({"rows": [ROW, {"ms": 1.0}]}, "row 2: it has no case"),
        ({"rows": [{**ROW, "launch": "replayed"}]}, "launch is eager or replay"),
        ({"rows": [{**ROW, "ratio": 2.0}]}, "needs a baseline"),
        ({"rows": [{**ROW, "errors": {}}]}, "not an object of texts"),
        ({"rows": [{**ROW, "ms": float("nan")}]}, "finite numbers"),
        ({"rows": [{"case": "a", "items": 3}]}, "neither a number named by its unit"),
        ({"rows": [{"case": "a", "skipped": "out of memory"}]}, None),
        ({"commit": None, "date": None, "load": None, "torch": None, "lrga": None}, None),
    ],
)
def test_what_is_no_record_is_told_why(change, said):
    found = problem_of({**make_record("sums", [ROW], device="cpu"), **change})
    assert (found is None) if said is None else (said in found)


@pytest.mark.parametrize("values", [None, 3, [], {}, {"rows": [ROW]}])
def test_other_documents_are_no_records(values):
    assert problem_of(values) is not None


def test_a_wrong_record_is_not_written():
    with pytest.raises(ValueError, match="the record of sums is invalid: row 1: it has no case"):
        make_record("sums", [{"ms": 1.0}], device="cpu")


def test_the_load_of_gpus_is_what_nvidia_smi_says(tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", str(tmp_path))
    assert conditions()["load"]["gpu"] is None
    command = tmp_path / "nvidia-smi"
    command.write_text("#!/bin/sh\ncase $1 in *utilization*) echo 3; echo 40;; *) echo 17;; esac\n")
    command.chmod(0o755)
    assert conditions()["load"]["gpu"] == {"utilization_percent": 40, "processes": 1}
    command.write_text("#!/bin/sh\nexit 9\n")
    assert conditions()["load"]["gpu"] is None
