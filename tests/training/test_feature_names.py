"""Names of feature columns travel with the model: predictions go by name, not by place."""

import json

import pytest
import torch
from torch_geometric.data import Data

from lrga.data.own.reading import load_custom
from lrga.errors import CheckpointError, DataError
from lrga.explain.attention import explain
from lrga.training import DataConfig, ModelConfig, OptimizerConfig, RunConfig, TrainingConfig, continue_run, train
from lrga.training.predict import Predictor
from lrga.training.problems.data import load_training_data

NODES, EDGES = ("size", "charge", "age"), ("length", "cost")


def write_folder(folder, *, nodes=NODES, edges=EDGES, y=True):
    """Twelve graphs; a column has the same values wherever it stands."""
    folder.mkdir()
    generator = torch.Generator().manual_seed(2)
    values = {name: torch.rand(48, generator=generator) for name in (*NODES, *EDGES, "more")}
    rows = {"nodes": [",".join(["graph", "node", *nodes])], "edges": [",".join(["graph", "source", "target", *edges])]}
    for i in range(48):
        g, n = divmod(i, 4)
        rows["nodes"].append(",".join([f"g{g}", f"n{n}", *(f"{values[name][i]:.4f}" for name in nodes)]))
        rows["edges"].append(
            ",".join([f"g{g}", f"n{n}", f"n{(n + 1) % 4}", *(f"{values[name][i]:.4f}" for name in edges)])
        )
    rows["graphs"] = ["graph" + ",y" * y] + [f"g{g}" + f",{'ab'[g % 2]}" * y for g in range(12)]
    for name, lines in rows.items():
        (folder / f"{name}.csv").write_text("\n".join(lines) + "\n")
    return folder


def train_on(source, folder, *, model="gatedgcn", **options):
    config = TrainingConfig(
        data=DataConfig(name=str(source)),
        model=ModelConfig(model=model, hidden=32, layers=2, rank=3),
        optimizer=OptimizerConfig(max_epochs=5, batch_size=4, lr=1e-2),
        run=RunConfig(device="cpu"),
    )
    return train(config.changed(**options), folder)


@pytest.fixture
def own_predictor(tmp_path):
    """Of a run of one's own, to be changed."""
    train_on(write_folder(tmp_path / "data"), tmp_path / "run", max_epochs=1)
    return Predictor.of(tmp_path / "run", device="cpu")


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """The folder of a run and of its data, to be read."""
    folder = tmp_path_factory.mktemp("trained")
    train_on(write_folder(folder / "data"), folder / "run")
    return folder


@pytest.fixture
def predictor(trained):
    return Predictor.of(trained / "run", device="cpu")


def test_columns_in_another_order_are_put_into_the_model_s(predictor, trained, tmp_path):
    other = write_folder(tmp_path / "other", nodes=("age", "size", "charge"), edges=("cost", "length"), y=False)
    assert "y" not in (other / "graphs.csv").read_text()
    expected = list(predictor.rows(predictor.read(trained / "data")))
    assert len({tuple(row[1:]) for row in expected}) > 6  # graphs are told apart, so the order of the columns matters
    assert list(predictor.rows(predictor.read(other))) == expected
    assert predictor.read(other).meta.get("notes", []) == []


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"nodes": ("size", "age")}, r"size, charge, age in .*without charge"),
        ({"nodes": (*NODES, "more")}, r"with more"),
        ({"nodes": ("size", "charge", "more")}, r"without age and with more"),
        ({"nodes": ()}, r"without size, charge, age"),
        ({"edges": ("length", "more")}, r"edge features length, cost .*without cost and with more"),
        ({"edges": ()}, r"edge features length, cost .*without length, cost"),
    ],
)
def test_missing_and_unknown_columns_are_refused_by_name(predictor, tmp_path, change, message):
    other = write_folder(tmp_path / "other", **change)
    with pytest.raises(DataError, match=message):
        predictor.read(other)


def test_columns_that_the_model_does_not_read_may_be_anything(tmp_path):
    train_on(write_folder(tmp_path / "data"), tmp_path / "run", model="gcn")
    predictor = Predictor.of(tmp_path / "run", device="cpu")
    other = write_folder(tmp_path / "other", edges=("more",))
    assert list(predictor.rows(predictor.read(other))) == list(predictor.rows(predictor.read(tmp_path / "data")))


def test_a_feature_in_place_of_none_is_refused(tmp_path):
    train_on(write_folder(tmp_path / "data", nodes=()), tmp_path / "run", model="gcn")
    predictor = Predictor.of(tmp_path / "run", device="cpu")
    with pytest.raises(DataError, match="with size"):
        predictor.read(write_folder(tmp_path / "other", nodes=("size",)))


def test_a_run_without_names_predicts_and_says_so(own_predictor, tmp_path):
    facts = json.loads((tmp_path / "run" / "model.json").read_text())
    assert facts.pop("features") == {"node": list(NODES), "edge": list(EDGES)}
    del facts["config"], facts["sha256"]  # as an older version wrote it
    (tmp_path / "run" / "model.json").write_text(json.dumps(facts))
    older = Predictor.of(tmp_path / "run", device="cpu")
    graphs = older.read(tmp_path / "data")
    assert list(older.rows(graphs)) == list(own_predictor.rows(own_predictor.read(tmp_path / "data")))
    assert [note for note in graphs.meta["notes"] if "node features of the run are unknown" in note]


def test_graphs_without_names_are_taken_in_their_order_and_it_is_said(predictor, tmp_path):
    ring = torch.stack([torch.arange(4), torch.arange(4).roll(1)])
    torch.save([Data(x=torch.rand(4, 3), edge_index=ring, edge_attr=torch.rand(4, 2))], tmp_path / "new.pt")
    assert "are unknown" in predictor.read(tmp_path / "new.pt").meta["notes"][0]


def test_a_run_does_not_go_on_under_other_names(own_predictor, tmp_path):
    nodes = tmp_path / "data" / "nodes.csv"
    nodes.write_text(nodes.read_text().replace("size,charge", "charge,size"))
    with pytest.raises(CheckpointError, match="the features that"):
        continue_run(tmp_path / "run", max_epochs=6)


def test_the_run_s_own_data_are_explained_by_name(own_predictor, tmp_path):
    before = explain(tmp_path / "run", graph=0)
    for path in (tmp_path / "data").iterdir():
        path.unlink()
    (tmp_path / "data").rmdir()
    write_folder(tmp_path / "data", nodes=("age", "size", "charge"), edges=("cost", "length"))
    after = explain(tmp_path / "run", graph=0)
    assert (before.layers[0].u == after.layers[0].u).all()
    assert before.confidence.tolist() == after.confidence.tolist()


def test_names_travel_with_splits_passed_from_python(tmp_path):
    data = load_custom(write_folder(tmp_path / "data"))
    assert load_training_data(DataConfig(name="own"), given=data.splits).features == {
        "node": list(NODES),
        "edge": list(EDGES),
    }
