"""Saved models on new graphs and pairs."""

import csv
import io
import json
from dataclasses import replace

import pytest
import torch
from link_graphs import communities, config_of
from torch_geometric.data import Data

from lrga.errors import CheckpointError, DataError, DTypeError, NonFiniteError, OptionError, ShapeError
from lrga.io.documents import sealed
from lrga.training import DataConfig, ModelConfig, OptimizerConfig, RunConfig, TrainingConfig, continue_run, train
from lrga.training.evaluate import run_model
from lrga.training.predict import LinkScorer, Predictor, write_table


def write_folder(folder, *, level="graph", columns="x0,x1", names=("blue", "red"), graphs=12):
    """A folder of CSV files; ids are letters, classes have names."""
    folder.mkdir()
    head = {name: ",y" if level == name else "" for name in ("node", "edge", "graph")}
    generator = torch.Generator().manual_seed(3)
    nodes, edges, lines = [], [], []
    width = len(columns.split(","))
    for g in range(graphs):
        lines.append(f"g{g}" + (f",{names[g % len(names)]}" if level == "graph" else ""))
        for n, letter in enumerate("abcd"):
            features = ",".join(f"{v:.3f}" for v in torch.rand(width, generator=generator).tolist())
            nodes.append(f"g{g},{letter},{features}" + (f",{names[n % len(names)]}" if level == "node" else ""))
        for k, (source, target) in enumerate(("ab", "ba", "dc", "ca")):
            edges.append(f"g{g},{source},{target}" + (f",{names[k % len(names)]}" if level == "edge" else ""))
    (folder / "nodes.csv").write_text(f"graph,node,{columns}{head['node']}\n" + "\n".join(nodes) + "\n")
    (folder / "edges.csv").write_text(f"graph,source,target{head['edge']}\n" + "\n".join(edges) + "\n")
    (folder / "graphs.csv").write_text(f"graph{head['graph']}\n" + "\n".join(lines) + "\n")
    return folder


def train_on(source, folder, **options):
    config = TrainingConfig(
        data=DataConfig(name=str(source)),
        model=ModelConfig(model="gatedgcn", hidden=8, layers=2, rank=3),
        optimizer=OptimizerConfig(max_epochs=1, batch_size=4),
        run=RunConfig(device="cpu"),
    )
    return train(config.changed(**options), folder)


def table(predictor, graphs):
    file = io.StringIO()
    count = write_table(predictor.header(), predictor.rows(graphs, batch_size=5), file)
    rows = list(csv.DictReader(io.StringIO(file.getvalue())))
    assert len(rows) == count
    return rows


@pytest.mark.parametrize("level", ["graph", "node", "edge"])
def test_rows_follow_the_input_with_its_ids_and_class_names(tmp_path, level):
    source = write_folder(tmp_path / "data", level=level)
    train_on(source, tmp_path / "run")
    predictor = Predictor.of(tmp_path / "run", device="cpu")
    rows = table(predictor, predictor.read(source))
    ids = {
        "graph": [(f"g{g}",) for g in range(12)],
        "node": [(f"g{g}", n) for g in range(12) for n in "abcd"],
        "edge": [(f"g{g}", s, t) for g in range(12) for s, t in ("ab", "ba", "dc", "ca")],
    }[level]
    columns = {"graph": ["graph"], "node": ["graph", "node"], "edge": ["graph", "source", "target"]}[level]
    assert [tuple(row[c] for c in columns) for row in rows] == ids
    for row in rows:
        scores = {name: float(row[f"score_{name}"]) for name in ("blue", "red")}
        assert sum(scores.values()) == pytest.approx(1, abs=1e-5)
        assert row["prediction"] == max(scores, key=scores.get)


def test_scores_are_the_model_s_graph_by_graph(tmp_path):
    source = write_folder(tmp_path / "data", level="edge")
    result = train_on(source, tmp_path / "run")
    predictor = Predictor.of(tmp_path / "run", device="cpu")
    graphs = predictor.read(source)
    rows = table(predictor, graphs)
    for g in (0, 7):
        batch = graphs.batch([g])
        output = batch.in_original_order(run_model(result.model, batch)).softmax(1)
        found = [float(row["score_red"]) for row in rows if row["graph"] == f"g{g}"]
        assert found == pytest.approx(output[:, 1].tolist(), abs=1e-5)


def test_values_are_predicted_with_several_columns_where_there_are_several_targets(tmp_path):
    data = [Data(x=torch.rand(3, 2), edge_index=torch.tensor([[0, 1], [1, 2]]), y=torch.rand(1, 2)) for _ in range(8)]
    torch.save(data, tmp_path / "graphs.pt")
    train_on(tmp_path / "graphs.pt", tmp_path / "run", model="gcn")
    predictor = Predictor.of(tmp_path / "run", device="cpu")
    rows = table(predictor, predictor.read(tmp_path / "graphs.pt"))
    assert list(rows[0]) == ["graph", "prediction_0", "prediction_1"]
    assert len(rows) == 8


def test_labels_are_predicted_as_a_probability_each(tmp_path):
    y = [[float(i % 2), float(i % 3 > 0), float("nan") if i % 4 else 1.0] for i in range(24)]
    edges = torch.tensor([[0, 1], [1, 2]])
    data = [Data(x=torch.rand(3, 2), edge_index=edges, y=torch.tensor([row])) for row in y]
    splits = {"train": data[:12], "val": data[12:18], "test": data[18:]}
    torch.save(splits, tmp_path / "graphs.pt")
    done = train_on(tmp_path / "graphs.pt", tmp_path / "run", model="gcn", options={"task": "multilabel"})
    assert (done.metric, done.epochs) == ("average_precision", 1)
    predictor = Predictor.of(tmp_path / "run", device="cpu")
    assert (predictor.task.kind, predictor.task.out_channels) == ("multilabel", 3)
    graphs = predictor.read(tmp_path / "graphs.pt")
    rows = table(predictor, graphs)
    assert list(rows[0]) == ["graph", "score_0", "score_1", "score_2"]
    expected = run_model(predictor.model, graphs.batch(slice(None))).sigmoid()
    found = torch.tensor([[float(row[f"score_{i}"]) for i in range(3)] for row in rows])
    torch.testing.assert_close(found, expected.detach(), rtol=1e-4, atol=1e-5)


def test_a_split_of_a_named_set_is_predicted(tmp_path):
    config = TrainingConfig(
        data=DataConfig(name="CLUSTER", root=str(tmp_path), options={"sizes": (8, 3, 2)}),
        model=ModelConfig(hidden=8, layers=1, random_features=True),
        optimizer=OptimizerConfig(max_epochs=1),
    )
    train(config, tmp_path / "run")
    predictor = Predictor.of(tmp_path / "run", device="cpu")
    graphs = predictor.read("cluster/val")
    assert len(graphs) == 3
    assert len(predictor.read("CLUSTER")) == 2
    state = torch.get_rng_state()
    rows = list(predictor.rows(graphs))
    assert len(rows) == graphs.num_nodes
    assert rows == list(predictor.rows(graphs))  # random features are drawn from the run's seed
    assert torch.equal(torch.get_rng_state(), state)
    with pytest.raises(OptionError, match="train, val, test"):
        predictor.read("CLUSTER/all")


def test_a_file_is_written_whole(tmp_path):
    source = write_folder(tmp_path / "data")
    train_on(source, tmp_path / "run")
    predictor = Predictor.of(tmp_path / "run", which="best", device="cpu")
    path = tmp_path / "below" / "out.csv"
    assert write_table(predictor.header(), predictor.rows(predictor.read(source)), path) == 12
    assert len(path.read_text().splitlines()) == 13
    assert [p.name for p in path.parent.iterdir()] == ["out.csv"]
    (tmp_path / "file").write_text("")
    with pytest.raises(CheckpointError, match="to write"):
        write_table(predictor.header(), predictor.rows(predictor.read(source)), tmp_path / "file" / "out.csv")


def test_graphs_with_other_features_are_refused(tmp_path):
    train_on(write_folder(tmp_path / "data"), tmp_path / "run")
    predictor = Predictor.of(tmp_path / "run", device="cpu")
    wider = write_folder(tmp_path / "wider", columns="x0,x1,x2")
    with pytest.raises(DataError, match=r"the node features x0, x1 in .*with x2"):
        predictor.read(wider)


def graphs_of_types(types, edge_types=None):
    edges = torch.tensor([[0, 1], [1, 0]])
    return [
        Data(x=torch.tensor(types), edge_index=edges, edge_attr=edge_types, y=torch.tensor([float(i)]))
        for i in range(8)
    ]


def test_types_that_the_model_never_saw_are_refused(tmp_path):
    torch.save(graphs_of_types([0, 2], torch.tensor([0, 1])), tmp_path / "known.pt")
    train_on(tmp_path / "known.pt", tmp_path / "run")
    predictor = Predictor.of(tmp_path / "run", device="cpu")
    assert len(predictor.read(tmp_path / "known.pt")) == 8
    for name, graphs, message in (
        ("other", graphs_of_types([0, 3], torch.tensor([0, 1])), "node types 0 to 2.*type 3"),
        ("real", graphs_of_types([0.5, 2.5], torch.tensor([0, 1])), "node types 0 to 2.*real numbers"),
        ("edges", graphs_of_types([0, 2], torch.tensor([0, 2])), "edge types 0 to 1.*type 2"),
        ("none", graphs_of_types([0, 2]), "edge types 0 to 1.*none"),
    ):
        torch.save(graphs, tmp_path / f"{name}.pt")
        with pytest.raises(DataError, match=message):
            predictor.read(tmp_path / f"{name}.pt")


def test_whole_numbers_stand_for_real_ones(tmp_path):
    real = [
        Data(x=torch.tensor([[0.5], [1.0]]), edge_index=torch.tensor([[0], [1]]), y=torch.tensor([float(i)]))
        for i in range(8)
    ]
    torch.save(real, tmp_path / "real.pt")
    train_on(tmp_path / "real.pt", tmp_path / "run")
    whole = [Data(x=torch.tensor([[2], [1]]), edge_index=torch.tensor([[0], [1]])) for _ in range(2)]
    torch.save(whole, tmp_path / "whole.pt")
    predictor = Predictor.of(tmp_path / "run", device="cpu")
    assert len(table(predictor, predictor.read(tmp_path / "whole.pt"))) == 2


def test_predictions_that_are_not_finite_are_not_written(tmp_path):
    source = write_folder(tmp_path / "data")
    train_on(source, tmp_path / "run")
    predictor = Predictor.of(tmp_path / "run", device="cpu")
    with torch.no_grad():
        next(predictor.model.parameters()).fill_(float("nan"))
    with pytest.raises(NonFiniteError, match="batch 1"):
        list(predictor.rows(predictor.read(source)))


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    folder = tmp_path_factory.mktemp("runs") / "run"
    data = replace(communities(), node_ids=tuple(f"n{i}" for i in range(60)))
    train(config_of(max_epochs=20, dropout=0.0), folder, data=data)
    return folder, data


@pytest.fixture
def scorer(run):
    return LinkScorer.of(run[0], data=run[1], device="cpu")


def test_scores_are_the_models_probabilities_whatever_the_batch(scorer):
    pairs = torch.randint(60, (50, 2))
    with torch.no_grad():
        expected = scorer.model.score(scorer.h, pairs.t()).sigmoid()
    torch.testing.assert_close(scorer.score(pairs, batch_size=7), expected)
    assert bool(((expected > 0) & (expected < 1)).all())


@pytest.mark.parametrize("block", [1, 7, 1000])
def test_the_top_links_are_the_best_of_all_that_are_not_known(scorer, block):
    node = 4
    edges = torch.cat([split.edge for split in scorer.data.splits.values()]).tolist()
    known = {b for a, b in edges if a == node} | {a for a, b in edges if b == node} | {node}
    others = [j for j in range(60) if j not in known]
    scores = scorer.score(torch.tensor([[node, j] for j in others]))
    expected = [others[i] for i in torch.argsort(scores, descending=True, stable=True)[:5].tolist()]
    found = scorer.top(node, 5, block=block)
    assert [j for j, _ in found] == expected
    assert len(scorer.top(node, 500, block=block)) == len(others)


def test_pairs_of_a_file_are_scored_by_their_names(scorer, tmp_path):
    (tmp_path / "pairs.csv").write_text("source,target\nn3,n6\nn3,n7\n")
    pairs = scorer.read(tmp_path / "pairs.csv")
    assert pairs.tolist() == [[3, 6], [3, 7]]
    text = io.StringIO()
    assert write_table(scorer.header(), scorer.rows(pairs), text) == 2
    lines = text.getvalue().splitlines()
    assert lines[0] == "source,target,score"
    assert lines[1].startswith("n3,n6,0.")
    assert write_table(scorer.header(), scorer.rows(pairs), tmp_path / "new" / "out.csv") == 2
    assert (tmp_path / "new" / "out.csv").read_text() == text.getvalue()
    (tmp_path / "pairs.csv").write_text("n3,n6\nn3,nobody\n")
    with pytest.raises(DataError, match="line 2"):
        scorer.read(tmp_path / "pairs.csv")
    with pytest.raises(DataError, match="nobody"):
        scorer.number("nobody")


def test_another_graph_is_refused(run):
    with pytest.raises(CheckpointError, match="another graph with the same name"):
        LinkScorer.of(run[0], data=communities(seed=5), device="cpu")


@pytest.mark.parametrize("name", ["1_7", "60", "-1", "1.0", ""])
def test_only_whole_numbers_of_the_graph_name_a_node_without_names(scorer, name):
    numbered = replace(scorer, data=replace(scorer.data, node_ids=None))
    assert numbered.number("17") == numbered.number(17) == 17
    with pytest.raises(DataError, match="a node from 0 to 59"):
        numbered.number(name)


def test_links_are_ranked_where_all_probabilities_round_to_one(scorer):
    class Steep(torch.nn.Module):
        def score(self, h, pairs):
            return 100.0 + pairs[1]

    found = replace(scorer, model=Steep()).top(4, 3, block=7)
    nodes = [node for node, _ in found]
    assert [score for _, score in found] == [1.0, 1.0, 1.0]
    assert nodes == sorted(nodes, reverse=True)
    assert nodes[0] == max(set(range(60)) - set(torch.nonzero(scorer._known(4)).flatten().tolist()))


@pytest.mark.parametrize(
    ("ask", "error", "message"),
    [
        (lambda s: s.score(torch.tensor([[0, 1, 2], [1, 2, 3]])), ShapeError, r"\[P, 2\]"),
        (lambda s: s.score(torch.tensor([[0.0, 1.0]])), DTypeError, "integers"),
        (lambda s: s.score(torch.tensor([[0, 60]])), DataError, "0 to 59, got 60"),
        (lambda s: s.score(torch.tensor([[0, -1]])), DataError, "got -1"),
        (lambda s: s.score(torch.tensor([[0, 1]]), batch_size=0), OptionError, "batch_size"),
        (lambda s: s.top(60), DataError, "got 60"),
        (lambda s: s.top(-1), DataError, "got -1"),
        (lambda s: s.top("n1"), DataError, "number\\(\\)"),
    ],
)
def test_pairs_and_nodes_that_there_are_not_are_refused(scorer, ask, error, message):
    with pytest.raises(error, match=message):
        ask(scorer)
    assert scorer.score(torch.empty(0, 2, dtype=torch.int64)).shape == (0,)


def test_a_file_whose_first_pair_reads_like_a_header_is_scored_whole(scorer, tmp_path):
    ids = ("node1", "node2", *scorer.data.node_ids[2:])
    named = replace(scorer, data=replace(scorer.data, node_ids=ids))
    (tmp_path / "pairs.csv").write_text("node1,node2\n" + "n3,n4\n" * 5)
    assert named.read(tmp_path / "pairs.csv").tolist() == [[0, 1], *[[3, 4]] * 5]


def test_targets_of_csv_files_keep_their_names(tmp_path):
    folder = tmp_path / "mols"
    folder.mkdir()
    nodes = "".join(f"m{g},{n},{g + n}\n" for g in range(12) for n in range(3))
    (folder / "nodes.csv").write_text("graph,node,mass\n" + nodes)
    (folder / "edges.csv").write_text("graph,source,target\nm0,0,1\nm0,1,0\n")
    (folder / "graphs.csv").write_text("graph,y:gap,y:mu\n" + "".join(f"m{g},{g}.5,{-g}\n" for g in range(12)))
    run = tmp_path / "run"
    train_on(folder, run, model="gin")
    log = (run / "log.txt").read_text()
    assert "graph regression, 2 targets (gap, mu);" in log
    assert Predictor.of(run).header() == ["graph", "prediction_gap", "prediction_mu"]

    facts = json.loads((run / "model.json").read_text())  # a run of a version without the names
    older = {key: value for key, value in facts.items() if key != next(reversed(facts))}  # without the checksum
    older["features"] = {"node": ["mass"], "edge": []}
    (run / "model.json").write_text(json.dumps(sealed(older)))
    assert Predictor.of(run).header() == ["graph", "prediction_0", "prediction_1"]
    assert continue_run(run, max_epochs=2).epochs == 2
