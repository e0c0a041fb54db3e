"""Tables from records and recorded runs made again, on the command line."""

import json
import shutil
from pathlib import Path

import pytest
from typer.testing import CliRunner

from lrga.cli.main import app
from lrga.errors import DataMissingError, OptionError

ROOT = Path(__file__).resolve().parents[2]
RESULTS = str(ROOT / "results")
runner = CliRunner()
TINY = ["--sizes", "8,4,4", "--epochs", "2", "--batch-size", "4", "--device", "cpu", "--set", "hidden=8"]
TINY += ["--set", "layers=1"]
CELL = ["--dataset", "cluster", "--model", "gcn", "--budget", "100k", "--lrga"]


def call(*words):
    return runner.invoke(app, ["reproduce", *map(str, words)], catch_exceptions=False)


@pytest.fixture
def few(tmp_path):
    """A folder with three seeds of one cell: more may have been run since, of any cell."""
    for seed in (41, 95, 12):
        (record,) = Path(RESULTS, "table1").glob(f"zinc-lrga-gatedgcn-100k-seed{seed}-*.json")
        shutil.copy(record, tmp_path)
    return str(tmp_path)


def test_tables_come_from_records_in_three_forms(few):
    table = call("table1", "--from-records", few, "--dataset", "zinc", "--budget", "100k")
    assert table.exit_code == 0
    assert "0.377 ± 0.006" in table.stdout
    assert "not yet run" in call("table1", "--from-records", few, "--dataset", "mnist").stdout
    assert max(map(len, table.stdout.splitlines())) <= 100
    page = call("table1", "--from-records", RESULTS, "--markdown", "--done")
    assert page.stdout.startswith("| data set | model | budget | ours | n | paper | diff | SE | s/run |")
    values = json.loads(call("table1", "--from-records", RESULTS, "--json").stdout)
    assert len(values["rows"]) == values["cells"] == 66
    assert all("standard_errors" in row for row in values["rows"])


@pytest.mark.parametrize("experiment", [["table2"], ["table3"], ["table3", "--plain"], ["rank"], ["claims"]])
def test_every_experiment_has_a_table_even_of_few_records(experiment, few):
    result = call(*experiment, "--from-records", few, "--markdown")
    assert result.exit_code == 0
    assert "not yet run" in result.stdout


def test_a_run_is_made_again_from_its_record(tmp_path):
    data = ["--data-root", tmp_path / "data"]
    made = call("table1", *CELL, "--seeds", "41", *TINY, *data, "--output", tmp_path / "a")
    assert made.exit_code == 0, made.output
    (record,) = (tmp_path / "a" / "records").iterdir()
    plan = ["table1", "--verify", record, "--dry-run"]
    assert json.loads(call(*plan, "--json").stdout)["epochs"] == 2
    assert "1 of its 2 epochs" in call(*plan, "--epochs", "1").stdout
    with pytest.raises(OptionError, match="1 to 2 epochs"):
        call(*plan, "--epochs", "3")
    options = [*data, "--device", "cpu", "--output", tmp_path / "b", "--quiet"]
    paused = call("table1", "--verify", record, *options, "--time-limit", "0.00001")
    assert paused.exit_code == 3, paused.output
    again = call("table1", "--verify", record, *options)
    assert again.exit_code == 0, again.output
    assert "Equal to the last bit." in again.stdout
    values = json.loads(record.read_text())
    values["best"]["test_metric"] += 1.0
    record.write_text(json.dumps(values))
    wrong = call("table1", "--verify", record, *options, "--json")
    assert wrong.exit_code == 1
    assert json.loads(wrong.stdout)["equal"] is False
    values["environment"][0]["cpu"] = "another"
    record.write_text(json.dumps(values))
    elsewhere = call("table1", "--verify", record, *options, "--json")
    assert elsewhere.exit_code == 0
    assert json.loads(elsewhere.stdout)["equal"] is None


def test_what_makes_no_sense_is_refused(tmp_path):
    for words in (["table1", "--only", "heads"], ["claims", "--only", "tails"], ["table2", "--plain"]):
        with pytest.raises(OptionError):
            call(*words, "--dry-run", "--output", tmp_path)
    with pytest.raises(OptionError, match="processes"):
        call("table1", *CELL, "--seeds", "41", *TINY, "--parallel", "0", "--output", tmp_path, "--data-root", tmp_path)


@pytest.mark.parametrize(
    ("words", "named"),
    [
        (["table1", "--markdown", "--dry-run"], "--markdown"),
        (["table1", "--done", "--dry-run"], "--done"),
        (["banana", "--verify", "RECORD", "--dry-run"], "table1, table2, table3, rank, claims, differences, preset"),
        (["table1", "--verify", "RECORD", "--dry-run", "--seeds", "7", "8"], "--seeds, 8"),
        (["table1", "--verify", "RECORD", "--dry-run", "--no-lrga", "--set", "lr=3"], "--lrga, --set"),
        (["rank", "--verify", "RECORD", "--rank", "0"], "--rank"),
        (["differences", "--dry-run"], "--dry-run"),
        (["differences", "41"], "got 41"),
        (["differences", "--verify", "RECORD"], "--verify"),
        (["differences", "--no-lrga"], "--lrga"),
    ],
)
def test_what_would_be_passed_over_is_refused(words, named):
    record = next((ROOT / "results" / "table1").glob("*.json"))
    with pytest.raises(OptionError, match=named):
        call(*[record if word == "RECORD" else word for word in words])


def test_differences_are_a_table_from_records_alone():
    lines = runner.invoke(app, ["reproduce", "differences", str(RESULTS), "--markdown"]).stdout.splitlines()
    assert lines[0] == "| cell | diff | SE | variants (SE) | closest within 2 SE |"
    assert all(line.count(" | ") == 4 for line in lines[2:])
    found = json.loads(runner.invoke(app, ["reproduce", "differences", str(RESULTS), "--json"]).stdout)
    assert len(found) == len(lines) - 2
    assert "closest within 2 SE: " in runner.invoke(app, ["reproduce", "differences", str(RESULTS)]).stdout
    with pytest.raises(OptionError, match="without filters"):
        call("differences", "--dataset", "ZINC")
    with pytest.raises(DataMissingError):
        call("differences", "no-such-folder")
