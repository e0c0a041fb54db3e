"""Tables, answers and minutes from records, on the command line."""

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


def test_answers_and_minutes():
    found = json.loads(call("answers", RESULTS, "--json").stdout)
    assert {"claim", "text", "complete"} == set(found[0])
    assert call("answers", RESULTS, "--markdown").stdout.startswith("- **LRGA improves")
    assert "minutes of the device" in call("usage", RESULTS).stdout.replace("\n", " ")
    assert json.loads(call("usage", RESULTS, "--json").stdout)["lines"]
    with pytest.raises(DataMissingError):
        call("answers", "no-such-folder")
    for words in (["answers", "--dataset", "ZINC"], ["usage", "--seeds", "41"], ["answers", "--no-lrga"]):
        with pytest.raises(OptionError, match="without filters"):
            call(*words)


def test_a_campaign_is_packed_taken_up_elsewhere_landed_and_verified(tmp_path):
    data = ["--data-root", tmp_path / "data"]
    slot = call("table1", *CELL, "--seeds", "41", *TINY, *data, "--output", tmp_path / "a", "--time-limit", "0.00001",
                "--pack", tmp_path / "state.tar")  # fmt: skip
    assert slot.exit_code == 3
    assert "time-limited" in slot.stdout
    assert "Packed into" in slot.stderr
    rest = call("table1", *CELL, "--seeds", "41", *TINY, *data, "--output", tmp_path / "b", "--unpack",
                tmp_path / "state.tar")  # fmt: skip
    assert rest.exit_code == 0
    assert "taken up" in rest.stderr
    landed = call("table1", *CELL, "--seeds", "41", "95", *TINY, *data, "--from-records", tmp_path / "b", "--land",
                  tmp_path / "results", "--json")  # fmt: skip
    assert json.loads(landed.stdout)["cells_done"] == 1
    names = sorted(path.name for path in (tmp_path / "results" / "table1").iterdir())
    assert len(names) == 2
    assert names[0].endswith(".attempt-1.json")
    shared = call("claims", "--only", "presets", "--dataset", "cluster", "--lrga", *TINY, *data, "--from-records",
                  tmp_path / "b", "--land", tmp_path / "results")  # fmt: skip
    assert "0 new records" in shared.stderr
    again = call("table1", "--verify", tmp_path / "results" / "table1" / names[1], *data, "--device", "cpu",
                 "--output", tmp_path / "c", "--quiet")  # fmt: skip
    assert again.exit_code == 0, again.output
    assert "Equal to the last bit." in again.stdout
    assert "The run agrees with its record." in again.stdout


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
        (["table1", "--land", "there", "--dry-run"], "--land"),
        (["table1", "--done", "--dry-run"], "--done"),
        (["banana", "--verify", "RECORD", "--dry-run"], "table1, table2, table3, rank, claims, answers, usage"),
        (["table1", "--verify", "RECORD", "--dry-run", "--seeds", "7", "8"], "--seeds, 8"),
        (["table1", "--verify", "RECORD", "--dry-run", "--no-lrga", "--set", "lr=3"], "--lrga, --set"),
        (["rank", "--verify", "RECORD", "--rank", "0"], "--rank"),
        (["usage", "--dry-run"], "--dry-run"),
        (["usage", "41"], "got 41"),
        (["answers", "--verify", "RECORD"], "--verify"),
        (["answers", "--no-lrga"], "--lrga"),
        (["table1", "--pack", "FOLDER", "--dry-run"], "a file to write"),
    ],
)
def test_what_would_be_passed_over_is_refused(words, named, tmp_path):
    places = {"RECORD": str(next((ROOT / "results" / "table1").glob("*.json"))), "FOLDER": str(tmp_path)}
    with pytest.raises(OptionError, match=named):
        call(*[places.get(word, word) for word in words])


def test_minutes_are_numbers_too():
    found = json.loads(call("usage", ROOT / "results", "--json").stdout)
    assert found["used"][0]["runs"] > 100
    assert found["used"][0]["busy_minutes"] < found["used"][0]["run_minutes"]
    assert found["estimates"]["Table 1"]["hours"] > 0
    assert found["estimates"]["Table 1"]["at_a_time"] > 1
    assert len(found["lines"]) == len(found["used"]) + len(found["estimates"])


def test_differences_are_a_table_from_records_alone():
    lines = runner.invoke(app, ["reproduce", "differences", str(RESULTS), "--markdown"]).stdout.splitlines()
    assert lines[0] == "| cell | diff | SE | variants (SE) | closest within 2 SE |"
    assert all(line.count(" | ") == 4 for line in lines[2:])
    found = json.loads(runner.invoke(app, ["reproduce", "differences", str(RESULTS), "--json"]).stdout)
    assert len(found) == len(lines) - 2
    assert "closest within 2 SE: " in runner.invoke(app, ["reproduce", "differences", str(RESULTS)]).stdout
    refused = runner.invoke(app, ["reproduce", "differences", "--dataset", "ZINC"])
    assert isinstance(refused.exception, OptionError)
