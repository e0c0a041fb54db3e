"""A campaign and a table of published numbers of one's own, each one file."""

import json
from pathlib import Path

import pytest

from lrga.errors import DataError, DataMissingError, LRGAError
from lrga.experiments.campaign import run_title
from lrga.experiments.cell import run_name
from lrga.experiments.files import read_study
from lrga.experiments.loading import load_runs
from lrga.experiments.published import PublishedTable
from lrga.training.presets import make_config
from tests.helpers.commands import lrga

EXAMPLE = Path(__file__).resolve().parents[2] / "examples" / "citation"
PYTHON = """
from lrga.experiments.comparison import comparison

def study():
    return comparison("CLUSTER", hidden=8, layers=1, max_epochs=1, device="cpu")
"""


def write(folder, text, name="campaign.toml"):
    path = folder / name
    path.write_text(text)
    return path


def test_the_example_puts_published_numbers_beside_its_runs(tmp_path):
    command = ["reproduce", "run", str(EXAMPLE / "campaign.toml"), "--dry-run", "--json", "--output", str(tmp_path)]
    plan = json.loads(lrga(*command).stdout)
    found = [(c["dataset"], c["lrga"], c["published"] and c["published"]["mean"]) for c in plan["cells"]]
    assert found[:3] == [("Cora", False, 85.1), ("Cora", True, None), ("CiteSeer", False, 73.1)]
    assert [run["seed"] for run in plan["cells"][0]["runs"]] == [1, 2, 3, 4, 5]
    table = lrga("reproduce", "table", EXAMPLE / "campaign.toml", tmp_path, "--markdown")
    assert "| Cora | GCN | not yet run |  | 85.10 |" in table.stdout


def test_a_batch_script_runs_the_example_in_parts():
    script = (EXAMPLE / "campaign.sbatch").read_text()
    assert "--signal=USR1@" in script
    command = next(line for line in script.splitlines() if line.startswith("srun lrga "))
    words = command.removeprefix("srun lrga ").replace('"$SLURM_ARRAY_TASK_ID/4"', "2/4").replace('"$PWD/runs"', "runs")
    words = words.replace("examples/citation", str(EXAMPLE)).split()
    assert "part 2 of 4" in lrga(*words, "--dry-run").stdout


def test_a_campaign_runs_with_options_of_the_command_line(tmp_path, tiny):
    text = '[common]\ndataset = "CLUSTER"\nhidden = 8\nlayers = 1\n[[cell]]\nrank = 2\nlabels = {name = "mine"}\n'
    options = {key: value for key, value in tiny.items() if key not in ("hidden", "layers")}
    study = read_study(write(tmp_path, text), seeds=[3], **options)
    table = study.run(tmp_path / "runs", progress=False)
    assert table.complete
    assert (table.rows[0].cell.labels, table.rows[0].cell.config.model.rank) == ({"name": "mine"}, 2)


def test_cells_of_a_campaign_are_selected_on_the_command_line(tmp_path):
    run = ["reproduce", "run", str(EXAMPLE / "campaign.toml"), "--dry-run", "--json", "--output", str(tmp_path)]
    plan = json.loads(lrga(*run, "--dataset", "citeseer", "--no-lrga").stdout)
    assert [(c["dataset"], c["lrga"]) for c in plan["cells"]] == [("CiteSeer", False)]
    python = write(tmp_path, PYTHON, "campaign.py")
    assert [c.config.model.lrga for c in read_study(python, filters={"model": "GCN", "lrga": True}).cells] == [True]
    with pytest.raises(LRGAError, match=r"campaign.py \(dataset CLUSTER; model gcn; .*got none with dataset=ZINC"):
        read_study(python, filters={"dataset": "ZINC"})
    with pytest.raises(LRGAError, match="with a campaign of your own, got --plain"):
        lrga(*run, "--plain")


def test_a_campaign_with_and_without_lrga_says_what_it_changes(tmp_path, tiny):
    text = '[common]\ndataset = "CLUSTER"\n[[cell]]\nlrga = false\n[[cell]]\nrank = 2\nlabels = {name = "ours"}\n'
    table = read_study(write(tmp_path, text), seeds=[1, 2], **tiny).run(tmp_path / "runs", progress=False)
    change = table.rows[1].spread().mean - table.rows[0].spread().mean
    assert table.notes[0].startswith(f"With LRGA, weighted accuracy (%) changes by {change:+.2f} (95 % CI ")


def test_a_published_number_without_deviation_is_recorded(tmp_path, tiny):
    path = write(tmp_path, "[[result]]\ndataset = 'CLUSTER'\nmean = 50.0\n", "published.toml")
    text = '[[cell]]\ndataset = "CLUSTER"\n'
    table = read_study(write(tmp_path, text), published=path, **tiny).run(tmp_path / "runs", progress=False)
    assert table.rows[0].difference == table.rows[0].spread().mean - 50.0
    (found,) = load_runs([tmp_path / "runs"])
    assert found.record.published == {"mean": 50.0, "std": None, "source": ""}


def test_a_python_file_defines_its_study(tmp_path):
    study = read_study(write(tmp_path, PYTHON, "campaign.py"), seeds=[1, 2])
    assert [cell.seeds for cell in study.cells] == [(1, 2), (1, 2)]
    with pytest.raises(DataError, match="study"):
        read_study(write(tmp_path, "x = 1", "other.py"))


@pytest.mark.parametrize(
    ("text", "named"),
    [
        ("cells = 1", "cells"),
        ("title = 'x'", "none"),
        ("[[cell]]\nmodel = 'gcn'", "dataset"),
        ("[[cell]]\ndataset = 'ZINC'\nmodle = 'gcn'", "modle"),
        ("title = ", "campaign.toml"),
        ("[[cell]]\ndataset = 'ZINC'\nname = 'CLUSTER'", "dataset instead of name"),
        ("[[cell]]\ndataset = 'ZINC'\nseed = 3", "seeds instead of seed"),
        ("published = 'no.toml'\n[[cell]]\ndataset = 'ZINC'", "no such file"),
        ("title = 3\n[[cell]]\ndataset = 'ZINC'", r"title in .* to be text, got 3 \(int\)"),
        ("seeds = 3\n[[cell]]\ndataset = 'ZINC'", r"seeds in .* to be a list of .*, got 3 \(int\)"),
        ("published = 3\n[[cell]]\ndataset = 'ZINC'", r"published in .* to be text, got 3 \(int\)"),
        ("common = 3\n[[cell]]\ndataset = 'ZINC'", r"common in .* to be a table of options, got 3 \(int\)"),
        ("cell = [3]", r"cell in .* to be a list of at least one table, got \[3\]"),
        ("[cell]\ndataset = 'ZINC'", "cell in .* to be a list of at least one table"),
        ("[[cell]]\ndataset = 3", r"a data set in cell 1 of .*, got 3 \(int\)"),
        ("[[cell]]\ndataset = ''", "a data set in cell 1"),
        ("[[cell]]\ndataset = 'ZINC'\n[[cell]]\ndataset = 'ZNIC'", "a data set in cell 2 of .*'ZNIC'"),
        ("[[cell]]\ndataset = 'ZINC'\nseeds = [1, 1]", "different seeds in cell 1 of"),
        ("[[cell]]\ndataset = 'ZINC'\nlabels = {a = [1]}", "labels in cell 1 of .* a table of text and numbers"),
        ("[[cell]]\ndataset = 'ZINC'\ndata_options = 3", "data_options in cell 1 of .* a table of options"),
        ("[[cell]]\ndataset = 'ZINC'\noptions = {a = 1}", "data_options instead of options in cell 1"),
        ("[[cell]]\ndataset = 'ZINC'\nrank = 'ten'", "rank to be an integer in cell 1 of .*, got 'ten'"),
        ("[[cell]]\ndataset = 'ZINC'\nroot = 3", r"root in cell 1 of .* to be text, got 3 \(int\)"),
        ("[[cell]]\ndataset = 'ZINC'\nbase = 3", "dataset instead of base"),
    ],
)
def test_a_campaign_that_cannot_be_is_refused_by_name(tmp_path, text, named):
    with pytest.raises(LRGAError, match=named):
        read_study(write(tmp_path, text))


def test_a_campaign_may_be_json(tmp_path):
    path = write(tmp_path, json.dumps({"title": "mine", "cell": [{"dataset": "ZINC", "rank": 5}]}), "campaign.json")
    result = lrga("reproduce", "run", path, "--dry-run", "--json", "--output", tmp_path)
    assert json.loads(result.stdout)["title"] == "mine"
    with pytest.raises(DataError, match=r"a JSON object in .*, got \[\] \(list\)"):
        read_study(write(tmp_path, "[]", "campaign.json"))
    with pytest.raises(DataError, match=r"title in .* to be text, got None"):
        read_study(write(tmp_path, '{"title": null, "cell": [{"dataset": "ZINC"}]}', "campaign.json"))


def test_a_published_number_stands_only_beside_runs_with_all_its_options(tmp_path):
    path = write(tmp_path, "[[result]]\ndataset = 'CLUSTER'\nrank = 30\nbudget = '100k'\nmean = 50\n", "published.toml")
    table = PublishedTable.read(path)
    assert table.number(make_config("CLUSTER")).mean == 50
    others = [{"lrga": False}, {"rank": 10}, {"hidden": 8}, {"recipe": "modern"}]  # a plain network has no rank
    assert [table.number(make_config("CLUSTER", **options)) for options in others] == [None] * 4


def test_options_of_the_command_line_drop_the_published_numbers_of_a_python_campaign(tmp_path):
    text = """
from lrga.experiments import Cell, Published, Study
from lrga.training.presets import make_config

def study():
    return Study(title="x", cells=(
        Cell(labels={}, config=make_config("CLUSTER"), seeds=(1,), published=Published(mean=50.0)),
    ))
"""
    campaign = write(tmp_path, text, "campaign.py")
    numbers = write(tmp_path, "[[result]]\ndataset = 'CLUSTER'\nrank = 5\nmean = 60\n", "published.toml")
    assert read_study(campaign, device="cpu").cells[0].published.mean == 50
    assert read_study(campaign, rank=5).cells[0].published is None
    assert read_study(campaign, rank=5, published=numbers).cells[0].published.mean == 60
    assert read_study(campaign, published=numbers).cells[0].published is None


def test_rows_of_a_campaign_with_the_same_network_show_the_options_that_differ(tmp_path):
    text = "[common]\ndataset = 'CLUSTER'\nhidden = 8\n[[cell]]\nlrga = false\n[[cell]]\nrank = 2\n[[cell]]\nrank = 4\n"
    study = read_study(write(tmp_path, text))
    assert [cell.labels["model"] for cell in study.cells] == ["GCN", "LRGA + GCN (κ 2)", "LRGA + GCN (κ 4)"]
    assert study.plan(tmp_path).to_json()["cells"][0]["budget"] is None  # the width is given instead
    assert run_title(study.cells[0].config) == "GCN on CLUSTER, seed 41"


def test_the_rank_of_a_campaign_is_changed_with_set(tmp_path):
    path = write(tmp_path, "[[cell]]\ndataset = 'CLUSTER'\n")
    run = ["reproduce", "run", str(path), "--dry-run", "--json", "--output", str(tmp_path)]
    plan = json.loads(lrga(*run, "--set", "rank=7").stdout)
    assert plan["cells"][0]["rank"] == 7
    with pytest.raises(LRGAError, match="got --rank. To fix: .*--set rank=10"):
        lrga(*run, "--rank", "7")


@pytest.mark.parametrize("name", ["a.json", "a.toml"])
def test_the_row_that_names_most_options_of_a_run_stands_beside_it(tmp_path, name):
    rows = [{"dataset": "zinc", "mean": 1.0}, {"dataset": "ZINC", "model": "GIN", "rank": 10, "mean": 2.0, "std": 0.5}]
    if name == "a.json":
        text = json.dumps({"source": "here", "result": rows})
    else:
        text = 'source = "here"\n[[result]]\ndataset = "zinc"\nmean = 1\n[[result]]\ndataset = "ZINC"\nmodel = "GIN"\n'
        text += "rank = 10\nmean = 2.0\nstd = 0.5\n"
    table = PublishedTable.read(write(tmp_path, text, name))
    assert table.number(make_config("ZINC", model="gcn")).mean == 1.0
    best = table.number(make_config("ZINC", model="gin", rank=10))
    assert (best.mean, best.std, best.source, best.text(2)) == (2.0, 0.5, "here", "2.00 ± 0.50")
    assert table.number(make_config("CLUSTER")) is None
    assert table.protocol(make_config("ZINC")) is None


@pytest.mark.parametrize(
    ("text", "named"),
    [
        ("x = 1", "none"),
        ("[[result]]\nmean = 1.0", "dataset"),
        ("[[result]]\ndataset = 'ZINC'\nmean = 'much'", "mean"),
        ("[[result]]\ndataset = 'ZINC'\nmean = 1.0\nstd = 'x'", "std"),
        ("[[result]]\ndataset = 'ZINC'\nmean = 1.0\nmodle = 'gcn'", "modle.* write model"),
        ("[[result]]\ndataset = 'ZINC'\nmean = 1.0\nseed = 4", "seeds, not seed"),
        ("[[result]]\ndataset = 'ZINC'\nmean = 1.0\nmodel = 'gcnn'", "model .* in result 1 of .*published.toml"),
        ("[[result]]\ndataset = 'ZINC'\nmean = 1.0\nrank = 'ten'", "rank to be an integer"),
        ("[[result]]\ndataset = 'ZINC'\nmean = 1.0\nlrga = 'no'", "lrga to be true or false"),
        ("[[result]]\ndataset = 'ZINC'\nmean = 1.0\nstd = -0.1", "std"),
        (
            "[[result]]\ndataset = 'ZINC'\nmean = 1.0\nseeds = 2.5",
            "seeds in result 1 of .* to be an integer of at least 1, got 2.5",
        ),
        ("[[result]]\ndataset = 'ZNIC'\nmean = 1.0", "ZNIC"),
        ("[[result]]\ndataset = 'ZINC'\nname = 'CLUSTER'\nmean = 1.0", "dataset, not name"),
        ("[[result]]\ndataset = ''\nmean = 1.0", "dataset"),
        ("sauce = 'x'\n[[result]]\ndataset = 'ZINC'\nmean = 1.0", "sauce"),
    ],
)
def test_published_numbers_that_cannot_be_are_refused_by_name(tmp_path, text, named):
    with pytest.raises(DataError, match=named):
        PublishedTable.read(write(tmp_path, text, "published.toml"))
    with pytest.raises(DataMissingError):
        PublishedTable.read(tmp_path / "none.toml")


def test_a_published_number_may_be_written_as_on_the_command_line(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("graphs").mkdir()
    text = """[[result]]
dataset = "ZINC"
budget = "500k"
metric = "MAE"
data_options = {sizes = [8, 4, 4]}
mean = 1
[[result]]
dataset = "graphs/"
model = "GIN"
mean = 2
[[result]]
dataset = "ogbl-ddi"
model = "MF"
predictor = "dot"
mean = 3
"""
    table = PublishedTable.read(write(tmp_path, text, "published.toml"))
    small = {"data_options": {"sizes": (8, 4, 4)}}
    for metric in ("mae", None):  # the metric of ZINC
        assert table.number(make_config("ZINC", budget="500K", metric=metric, **small)).mean == 1
    assert table.number(make_config("ZINC", budget="100K", **small)) is None
    assert table.number(make_config("ZINC", budget="500K")) is None
    assert table.number(make_config("graphs", model="gin")).mean == 2
    assert table.number(make_config("ogbl-ddi", model="mf", predictor="dot")).mean == 3


@pytest.mark.parametrize("name", ["campaign.toml", "campaign.py"])
def test_options_of_the_data_win_over_the_files(tmp_path, name):
    text = 'title = "x"\n[[cell]]\ndataset = "CLUSTER"\ndata_options = {seed = 3, sizes = [9, 9, 9]}\n'
    path = write(tmp_path, PYTHON if name.endswith("py") else text, name)
    words = ["reproduce", "run", str(path), "--sizes", "8,4,4", "--dry-run", "--json", "--output", str(tmp_path)]
    planned = [cell["runs"][0]["run"] for cell in json.loads(lrga(*words).stdout)["cells"]]
    configs = [cell.config for cell in read_study(path, data_options={"sizes": (8, 4, 4), "seed": None}).cells]
    assert planned == [run_name(config) for config in configs]
    assert configs[0].data.options["sizes"] == [8, 4, 4]
    assert configs[0].data.options.get("seed") == (3 if name.endswith("toml") else None)
