"""Tables from records and recorded runs made again, on the command line."""

import json
import shutil
from pathlib import Path

import pytest

from lrga.errors import DataMissingError, OptionError, UnsupportedError
from tests.helpers.commands import lrga

ROOT = Path(__file__).resolve().parents[2]
RESULTS = str(ROOT / "reproduction" / "results")
TINY = ["--sizes", "8,4,4", "--epochs", "2", "--batch-size", "4", "--device", "cpu", "--set", "hidden=8"]
TINY += ["--set", "layers=1"]
CELL = ["--dataset", "cluster", "--model", "gcn", "--budget", "100k", "--lrga"]


def call(*words, code=0):
    return lrga("reproduce", *words, code=code)


@pytest.fixture
def few(tmp_path):
    """A folder with three seeds of one cell: more may have been run since, of any cell."""
    for seed in (41, 95, 12):
        (record,) = Path(RESULTS, "table1").glob(f"zinc-lrga-gatedgcn-100k-seed{seed}-*.json")
        shutil.copy(record, tmp_path)
    return str(tmp_path)


def test_tables_come_from_records_in_three_forms(few):
    table = call("table", "table1", few, "--dataset", "zinc", "--budget", "100k")
    assert "0.377 ± 0.006" in table.stdout
    assert "not yet run" in call("table", "table1", few, "--dataset", "mnist").stdout
    assert max(map(len, table.stdout.splitlines())) <= 100
    page = call("table", "table1", few, "--markdown", "--done")
    assert page.stdout.startswith("| data set | model | budget | ours | n | published | diff | SE | seconds |")
    values = json.loads(call("table", "table1", few, "--json").stdout)
    assert len(values["rows"]) == values["cells"] == 66
    assert all("standard_errors" in row for row in values["rows"])


@pytest.mark.parametrize("experiment", [["table2"], ["table3"], ["table3", "--plain"], ["rank"], ["ablation"]])
def test_every_experiment_has_a_table_even_of_few_records(experiment, few):
    result = call("table", *experiment, few, "--markdown")
    assert "not yet run" in result.stdout


def test_a_run_is_made_again_from_its_record(tmp_path):
    data = ["--data-root", tmp_path / "data"]
    call("run", "table1", *CELL, "--seeds", "41", *TINY, *data, "--output", tmp_path / "a")
    (record,) = (tmp_path / "a" / "records").iterdir()
    plan = ["verify", record, "--dry-run"]
    assert json.loads(call(*plan, "--json").stdout)["epochs"] == 2
    assert "1 of its 2 epochs" in call(*plan, "--epochs", "1").stdout
    with pytest.raises(OptionError, match="1 to 2 epochs"):
        call(*plan, "--epochs", "3")
    options = [*data, "--device", "cpu", "--output", tmp_path / "b", "--quiet"]
    call("verify", record, *options, "--time-limit", "0.00001", code=3)
    again = call("verify", record, *options)
    assert "Equal to the last bit." in again.stdout
    values = json.loads(record.read_text())
    values["best"]["test_metric"] += 1.0
    record.write_text(json.dumps(values))
    wrong = call("verify", record, *options, "--json", code=1)
    assert json.loads(wrong.stdout)["equal"] is False
    values["environment"][0]["cpu"] = "another"
    record.write_text(json.dumps(values))
    elsewhere = call("verify", record, *options, "--json")
    assert json.loads(elsewhere.stdout)["equal"] is None


def test_forms_of_a_table_are_those_that_are_named(few):
    cells = [few, "--dataset", "zinc", "--budget", "100k", "--done"]
    assert call("table", "table1", *cells, "--format", "latex").stdout.count(r"\\") == 2
    assert call("table", "table1", *cells, "--format", "csv").stdout.startswith("dataset,model,budget,metric,n,mean")
    with pytest.raises(OptionError, match="text, markdown, latex, csv, json"):
        call("table", "table1", *cells, "--format", "docx")


@pytest.mark.parametrize("words", [["run", "table2", "--plain"], ["ablation", "--only", "tails"]])
def test_what_makes_no_sense_is_refused(words, tmp_path):
    with pytest.raises(OptionError):
        call(*words, "--dry-run", "--output", tmp_path)


def test_a_number_of_processes_is_checked(tmp_path):
    with pytest.raises(OptionError, match="processes"):
        call(
            "run", "table1", *CELL, "--seeds", "41", *TINY, "--parallel", "0", "--output", tmp_path,
            "--data-root", tmp_path,
        )  # fmt: skip


@pytest.mark.parametrize("words", [["verify", "RECORD"], ["ablation"], ["differences"], ["table", "ablation"]])
def test_what_needs_a_clone_says_so_where_there_is_none(words, monkeypatch, tmp_path):
    monkeypatch.setattr("lrga.cli.clone.ROOT", tmp_path)
    with pytest.raises(UnsupportedError, match="clone the repository"):
        call(*words)


def test_without_a_folder_a_clone_reads_its_records_until_there_are_runs(few, tmp_path, monkeypatch):
    (tmp_path / "empty").mkdir()
    monkeypatch.chdir(tmp_path / "empty")
    cells = ["table", "table1", "--dataset", "zinc", "--model", "gatedgcn", "--budget", "100k"]
    recorded = call(*cells)
    assert f"Reading {RESULTS}" in recorded.stderr
    assert recorded.stdout == call(*cells, RESULTS).stdout
    (tmp_path / "empty" / "runs").symlink_to(few)
    ours = call(*cells)
    assert "Reading runs" in ours.stderr
    assert "0.377 ± 0.006" in ours.stdout
    monkeypatch.setattr("lrga.cli.clone.ROOT", tmp_path)
    monkeypatch.chdir(few)
    with pytest.raises(DataMissingError, match="runs at runs"):
        call(*cells)


def test_differences_are_a_table_from_records_alone():
    records = str(Path(RESULTS, "table1"))
    lines = lrga("reproduce", "differences", records, "--markdown").stdout.splitlines()
    assert lines[0] == "| cell | diff | SE | variants (SE) | closest within 2 SE |"
    assert all(line.count(" | ") == 4 for line in lines[2:])
    assert len(lines) > 2
    found = json.loads(lrga("reproduce", "differences", records, "--json").stdout)
    assert len(found) == len(lines) - 2
    with pytest.raises(DataMissingError):
        call("differences", "no-such-folder")
