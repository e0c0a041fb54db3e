import json

import pytest

from lrga.errors import OptionError
from tests.helpers.campaigns import TINY
from tests.helpers.commands import lrga


def test_cells_run_and_stand_beside_the_paper(places):
    cells = ["--dataset", "cluster", "--model", "gcn", "--budget", "500k", "--seeds", "41", "95"]
    short = TINY[: TINY.index("--set")]  # few graphs and epochs, but the paper's networks
    result = lrga("reproduce", "run", "table1", *cells, *short, *places)
    assert max(map(len, result.stdout.splitlines())) <= 100
    assert "68.49 ± 0.97" in result.stdout
    assert "76.01 ± 0.67" in result.stdout
    assert "Not the published protocol" in result.stdout
    rows = json.loads(lrga("reproduce", "run", "table1", *cells, "--json", *short, *places).stdout)["rows"]
    assert (rows[1]["lrga_difference"]["n"], rows[1]["lrga_difference"]["without"]["model"]) == (2, "GCN")
    assert [(row["lrga"], row["n"]) for row in rows] == [(False, 2), (True, 2)]
    assert set(rows[0]) >= {"mean", "std", "n", "published", "difference", "parameters", "epochs", "seconds"}


@pytest.mark.parametrize(("experiment", "runs"), [("table1", 264), ("table3", 40), ("rank", 40)])
def test_a_dry_run_lists_every_run_of_an_experiment(experiment, runs, tmp_path):
    result = lrga("reproduce", "run", experiment, "--dry-run", "--output", str(tmp_path))
    assert f"{runs} runs: {runs} pending." in result.stdout
    assert max(map(len, result.stdout.splitlines())) <= 100
    assert "…" not in result.stdout


def test_filters_keep_rows(tmp_path):
    command = ["reproduce", "run", "table3", "--no-lrga", "--dry-run", "--json", "--output", str(tmp_path)]
    cells = json.loads(lrga(*command).stdout)["cells"]
    assert [cell["model"] for cell in cells] == ["GCN", "GAT", "GraphSAGE", "GatedGCN", "GIN"]
    assert not any(cell["lrga"] for cell in cells)


def test_the_time_limit_ends_cleanly_and_the_same_command_continues(places):
    # The limit is shorter than reading the data takes: the run pauses before its first batch.
    cells = ["--dataset", "cluster", "--model", "gcn", "--budget", "100k", "--lrga", "--seeds", "41"]
    result = lrga("reproduce", "run", "table1", *cells, "--time-limit", "0.00001", *TINY, *places, code=3)
    assert "run the same command to resume" in " ".join(result.stdout.split())
    assert "paused" in result.stdout
    result = lrga("reproduce", "run", "table1", *cells, *TINY, *places)
    assert "paused" not in result.stdout
    assert "68.44" not in result.stdout  # the paper's number is not of so narrow a network
    assert "hidden 8" in result.stdout


def test_unknown_experiments_are_answered_with_the_choices():
    with pytest.raises(OptionError, match="table1, table2, table3, rank"):
        lrga("reproduce", "run", "table9")


def test_the_layers_of_the_preset_are_listed_with_their_reasons(monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    rows = json.loads(lrga("reproduce", "preset", "--json").stdout)
    assert {(row["model"], row["layers"], row["wiring"]) for row in rows} >= {
        ("GCN", "2020", None), ("LRGA + GAT", "2022", "outer-norm"), ("GatedGCN", "2022", None),
    }  # fmt: skip
    listed = lrga("reproduce", "preset", "--markdown").stdout
    assert all(f"| {row['model']} | {row['layers']} |" in listed for row in rows)
    lines = lrga("reproduce", "preset").stdout.splitlines()
    place = next(number for number, line in enumerate(lines) if line.startswith("LRGA + GAT "))
    assert lines[place].split()[-2:] == ["2022", "outer-norm"]
    assert lines[place + 1].startswith("  why: norm after m₅")  # a wide column stands below its row


@pytest.mark.parametrize("preset", ["paper", "2022", "2020"])
def test_the_preset_of_a_table_can_be_named(preset, tmp_path):
    command = ["reproduce", "run", "table1", "--dataset", "ZINC", "--model", "gcn", "--preset", preset]
    plan = json.loads(lrga(*command, "--dry-run", "--json", "--output", str(tmp_path)).stdout)
    assert {cell["optimizer"]["patience"] for cell in plan["cells"]} == {5 if preset == "2020" else 10}
    assert f"layers{' and patience' if preset == '2020' else ''} of preset" in plan["notes"][1]
    assert plan["notes"][1].count("2022") == (preset == "2022")


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (["table1", "--dataset", "ZINC"], "lrga reproduce run table1"),
        (["Table-3", "--from-records", "results"], "lrga reproduce table table3 FOLDER"),
        (["table1", "--verify", "RECORD"], "lrga reproduce verify RECORD"),
        (["claims"], "lrga reproduce ablation"),
        (["claims", "--from-records"], "lrga reproduce table ablation FOLDER"),
    ],
)
def test_an_old_spelling_is_answered_with_the_new_one(old, new):
    assert new in lrga("reproduce", *old, code=2).stderr
