"""Link prediction as a user types it."""

import csv
import json
import random

import pytest

from lrga.errors import DataError, OptionError
from tests.helpers.commands import lrga


@pytest.fixture
def edges(tmp_path, monkeypatch, one_thread):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "100")
    drawn = random.Random(0)
    lines = ["source,target,year"]
    lines += [f"n{a},n{b},{drawn.randrange(1990, 2020)}" for a in range(40) for b in range(a) if drawn.random() < 0.2]
    (tmp_path / "edges.csv").write_text("\n".join([*lines, "n1,n1,2000"]) + "\n")
    return tmp_path / "edges.csv"


def train(*more):
    options = ("--task", "link", "--epochs", 3, "--hidden", 8, "--device", "cpu")
    rank = () if "node2vec" in more else ("--rank", 2)
    return lrga("train", "./edges.csv", *options, *rank, *more)


@pytest.mark.parametrize("more", [(), ("--dry-run",)])
def test_a_run_says_how_it_understood_the_edges(edges, more):
    said = train("--directed", *more).stderr
    assert "data: link prediction, 40 nodes, directed edges without weights; train " in said
    assert "warning" not in said
    edges.write_text("source,target,weight\n" + "".join(f"{n},{n + 1},2\n" for n in range(30)))
    said = train("--run-name", "few", *more).stderr
    assert (
        "data: link prediction, 31 nodes, undirected edges with weights from 2 to 2; train 24, val 3, test 3 edges"
        in said
    )


def test_train_then_predict_pairs_and_top_links(edges):
    result = train()
    assert "test AUC" in result.stdout
    assert "1 edges from a node to itself left out" in result.stderr
    (edges.parent / "pairs.csv").write_text("n1,n2\nn3,n4\n")
    rows = list(csv.reader(lrga("predict", "runs/edges-lrga-gcn-seed41", "pairs.csv").stdout.splitlines()))
    assert rows[0] == ["source", "target", "score"]
    assert [row[:2] for row in rows[1:]] == [["n1", "n2"], ["n3", "n4"]]
    rows = list(
        csv.reader(lrga("predict", "runs/edges-lrga-gcn-seed41", "--node", "n7", "--top-k", 4).stdout.splitlines())
    )
    assert len(rows) == 5
    assert {row[0] for row in rows[1:]} == {"n7"}
    lrga("predict", "runs/edges-lrga-gcn-seed41", "pairs.csv", "-o", "out.csv")
    assert len((edges.parent / "out.csv").read_text().splitlines()) == 3
    with pytest.raises(OptionError, match="neither"):
        lrga("predict", "runs/edges-lrga-gcn-seed41")
    with pytest.raises(DataError, match="n99"):
        lrga("predict", "runs/edges-lrga-gcn-seed41", "--node", "n99")
    again = lrga("train", "--resume", "runs/edges-lrga-gcn-seed41", "--quiet", "--json")
    assert json.loads(again.stdout)["epochs"] == 3


def test_options_of_links_reach_the_run(edges):
    options = ("--split-by", "time", "--no-skip", "--predictor", "dot", "--negatives", "uniform", "--metric", "hits@10")
    train(*options, "--validation-edges", "--directed", "--quiet", "--run-name", "odd")
    config = json.loads((edges.parent / "runs" / "odd" / "config.json").read_text())
    assert config["data"]["options"] == {"task": "link", "split_by": "time", "directed": True}
    assert config["link"]["skip"] is False
    assert (config["link"]["predictor"], config["link"]["negatives"]) == ("dot", "uniform")
    assert config["link"]["validation_edges"] is True
    result = train(
        "--model", "node2vec", "--walk-epochs", 1, "--walk-length", 4, "--walk-context", 3, "--quiet", "--json"
    )
    assert json.loads(result.stdout)["stopped_by"] == "max_epochs"


def test_campaigns_on_edge_lists_are_split_as_asked(edges):
    options = ("--task", "link", "--split-by", "time", "--directed", "--epochs", 1, "--device", "cpu", "--quiet")
    lrga("sweep", "./edges.csv", *options, "--grid", "rank=2,3", "--set", "hidden=8", "--set", "metric=Hits@7")
    lrga("compare", "./edges.csv", *options, "--rank", 2, "--set", "hidden=8")
    records = [json.loads(path.read_text()) for path in (edges.parent / "runs" / "records").glob("*.json")]
    assert len(records) == 4
    wanted = {"task": "link", "split_by": "time", "directed": True}
    assert all(record["config"]["data"]["options"] == wanted for record in records)
    assert sorted(record["metric"] for record in records) == ["auc", "auc", "hits@7", "hits@7"]


def test_plans_and_mistakes(edges):
    plan = lrga("train", "ogbl-ddi", "--dry-run", "--data-root", "data", "--device", "cpu").stdout
    for word in ("1,576,081", "no_edge", "not used in the test", "without skip", "17 per epoch, of 65,536 edges"):
        assert word in " ".join(plan.split())
    linear = ("--dry-run", "--set", "linear_layers=true", "--device", "cpu")  # layers that do not read their input
    for command in ("train", "compare"):
        words = lrga(command, "./edges.csv", "--task", "link", "--rank", 2, *linear, "--set", "hidden=8").stdout
        assert "without skip connection" in " ".join(words.split())
    assert (
        json.loads(lrga("train", "ogbl-collab", "--dry-run", "--json", "--device", "cpu").stdout)["parameters"]
        == 1_069_489
    )
    with pytest.raises(OptionError, match="patience"):
        train("--patience", 3)
    for name in ("edges.csv", "edges.tsv"):
        (edges.parent / "edges.tsv").write_text("a\tb\nb\tc\n")
        with pytest.raises(DataError, match="--task link"):
            lrga("train", f"./{name}")
    assert "1,576,081" in lrga("train", "ogbl-ddi", "--task", "link", "--dry-run", "--device", "cpu").stdout
    with pytest.raises(OptionError, match="task"):
        lrga("train", "ogbl-ddi", "--task", "regression", "--dry-run", "--device", "cpu")
    with pytest.raises(OptionError, match="predict"):
        lrga("train", "ZINC", "--no-skip", "--dry-run")


def test_table2_and_the_authors_grid_are_listed(edges):
    table = json.loads(lrga("reproduce", "run", "table2", "--dataset", "ogbl-ddi", "--dry-run", "--json").stdout)
    assert [cell["parameters"] for cell in table["cells"]][-1] == 1_576_081
    assert len(table["cells"]) == 6
    grid = json.loads(lrga("sweep", "ogbl-ddi", "--paper-grid", "--dry-run", "--json").stdout)
    assert [(c["rank"], c["hidden"]) for c in grid["cells"]][:2] == [(25, 150), (25, 256)]


def test_a_comparison_of_own_links(edges):
    options = ("--task", "link", "--epochs", 1, "--rank", 2, "--set", "hidden=8", "--device", "cpu", "--json")
    rows = json.loads(lrga("compare", "./edges.csv", "--quiet", *options).stdout)["rows"]
    assert [row["lrga"] for row in rows] == [False, True]


def test_layers_are_recomputed_where_asked(edges):
    train("--recompute-layers", "--run-name", "tight")
    train("--run-name", "roomy")
    tight, roomy = (edges.parent / "runs" / name / "model.safetensors" for name in ("tight", "roomy"))
    assert tight.read_bytes() == roomy.read_bytes()
