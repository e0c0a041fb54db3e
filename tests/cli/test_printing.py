"""How the commands print."""

import sys
from collections import Counter
from functools import cache

import pytest

from lrga.cli.printing import facts_table, stdout
from lrga.data.datasets.building import overview
from lrga.data.datasets.spec import spec_of
from lrga.experiments.sheet import value_text
from lrga.paper import counts
from lrga.paper.reproduction import reproduction
from tests.helpers.commands import lrga


def test_facts_are_printed_side_by_side_without_markup(capsys):
    stdout().print(facts_table({"[a]": "[bold]1", "b": "2"}))
    lines = [line.split() for line in capsys.readouterr().out.splitlines()]
    assert lines == [["[a]", "[bold]1"], ["b", "2"]]


def test_a_pipe_has_a_hundred_columns_or_as_many_as_are_asked_for(monkeypatch):
    assert not sys.stdout.isatty()
    for asked, width in (("80", 80), ("132", 132), ("0", 100), ("wide", 100)):
        monkeypatch.setenv("COLUMNS", asked)
        assert stdout().width == width
    monkeypatch.delenv("COLUMNS")
    assert stdout().width == 100


@pytest.fixture
def words_at_80(tmp_path, monkeypatch):
    """Words printed by ``lrga …`` on 80 columns; no line but that of a path is longer."""
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.setenv("LRGA_DATA", str(tmp_path))
    monkeypatch.chdir(tmp_path)

    def call(*arguments):
        return words_of(lrga(*arguments).stdout)

    return call


def words_of(output):
    assert "…" not in output
    assert max(len(line) for line in output.splitlines() if not line.startswith("Data root")) <= 80
    return [word.rstrip(",.:") for word in output.split()]


def nodes_of(row):
    """A mean over graphs, or the nodes of the one graph."""
    return f"{row['mean_nodes']:,.{0 if spec_of(row['name']).one_graph else 1}f}"


@pytest.mark.parametrize("width", [40, 79, 80])
def test_the_list_of_data_keeps_names_and_numbers_on_any_width(width, words_at_80, tmp_path, monkeypatch):
    monkeypatch.setenv("COLUMNS", str(width))
    words = words_at_80("data", "ls")
    for row in overview(tmp_path):
        assert {row["name"], nodes_of(row), f"{row['mean_edges']:,.0f}"} <= set(words)
        assert "/".join(f"{count:,}" for count in row["splits"].values()) in words
        if width == 80:
            assert {row["obtained"], *row["licence"].replace(":", "").split()} <= set(words)


def test_the_sizes_of_networks_are_whole_on_80_columns(words_at_80, monkeypatch):
    monkeypatch.setattr(counts, "size_of", cache(counts.size_of))
    words = Counter(words_at_80("params", "--lrga"))
    for name, count in Counter(f"{cell.parameters:,}" for cell in counts.sizes(lrga=True)).items():
        assert words[name] >= count


@pytest.mark.parametrize("experiment", ["table1", "table2", "table3", "rank"])
def test_a_plan_is_whole_on_80_columns(experiment, words_at_80, tmp_path):
    words = Counter(words_at_80("reproduce", "run", experiment, "--dry-run"))
    plan = reproduction(experiment).plan(tmp_path)
    for cell in plan.cells:
        assert words[f"{cell.parameters:,}"] > 0
        assert set(" ".join(map(value_text, cell.cell.labels.values())).split()) <= set(words)
    assert words["GatedGCN"] >= sum("GatedGCN" in cell.cell.labels["model"] for cell in plan.cells)


def test_a_comparison_and_a_sweep_are_whole_on_80_columns(words_at_80):
    tiny = ["CLUSTER", "--sizes", "4,2,2", "--epochs", "1", "--budget", "20k", "--quiet"]
    words = words_at_80("compare", *tiny)
    assert words.count("CLUSTER") >= 1
    assert {"model", "LRGA", "GCN", "20000", "seconds"} <= set(words)
    grid = ["--grid", "recalibrate_norm=0,20", "--grid", "dropout=0.1,0.25", "--grid", "weight_decay=0.001"]
    words = words_at_80("sweep", *tiny, *grid, "--dry-run")
    assert {"recalibrate_norm", "dropout", "weight_decay", "0.25", "0.001", "patience"} <= set(words)


def test_what_would_be_trained_is_whole_on_80_columns(words_at_80):
    words = words_at_80("train", "ZINC", "--dry-run")
    assert {"92,311", "10,000", "0.001", "1e-05", "1000"} <= set(words)
