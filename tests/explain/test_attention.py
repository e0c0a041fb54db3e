"""What the attention of a run attends to: nodes, graphs, edges and links."""

import json
import re

import numpy as np
import pytest
import torch
from torch_geometric.data import Data
from torch_geometric.nn import GCN

import lrga
from lrga.errors import CheckpointError, DataMissingError, OptionError, UnsupportedError
from lrga.explain import attention
from lrga.explain.attention import LayerFactors, explain, parse_layers, recorded_factors
from lrga.explain.explorer import explorer_page
from lrga.training import load_run, train
from lrga.training.predict import Predictor
from lrga.training.presets import make_config
from lrga.training.problems.data import load_training_data
from lrga.training.runs.folder import RunFolder


def test_the_factors_are_those_of_the_network_on_that_graph(trained):
    found = explain(trained, graph=2)
    model, config = load_run(trained)
    data = load_training_data(config.data).splits["test"][2]
    assert found.num_nodes == data.num_nodes
    assert [layer.u.shape for layer in found.layers] == [(data.num_nodes, 2, 5)] * 2
    # by hand: the first layer reads what the encoder gives
    with torch.no_grad():
        u, v = model.layers[0].attention.factors(model.encoder(data.x))
    matrix = u[:, 1] @ v[:, 1].T
    np.testing.assert_allclose(found.layers[0].matrix(1), matrix.numpy(), atol=1e-6)
    np.testing.assert_allclose(found.layers[0].row(3, 1), matrix[3].numpy(), atol=1e-6)


def test_labels_and_predictions_are_those_of_predict(trained):
    found = explain(trained, graph=1)
    predictor = Predictor.of(trained, device="cpu")
    rows = [row for row in predictor.rows(predictor.read("CLUSTER/test")) if row[0] == 1]
    assert [int(row[2]) for row in rows] == found.predictions.tolist()
    data = load_training_data(RunFolder(trained).config().data).splits["test"][1]
    assert found.labels.tolist() == data.y.tolist()
    pairs = {tuple(sorted(pair)) for pair in data.edge_index.t().tolist() if pair[0] != pair[1]}
    assert {tuple(pair) for pair in found.edges.tolist()} == pairs
    assert found.degree.sum() == 2 * len(pairs)


def test_the_spectrum_is_that_of_the_matrix():
    rng = np.random.default_rng(0)
    for nodes in (3, 40):
        u, v = rng.random((2, nodes, 1, 5)).astype(np.float32)
        layer = LayerFactors("l", u, v)
        values = np.linalg.svd(layer.matrix(), compute_uv=False)
        count = min(nodes, 5)
        np.testing.assert_allclose(layer.spectrum()[:count], values[:count], rtol=1e-6, atol=1e-9)


def test_only_the_layers_that_were_asked_for(trained):
    assert [layer.name for layer in explain(trained, layers=[2]).layers] == ["layers.1.attention"]
    for layers in ([0], [3], []):
        with pytest.raises(OptionError, match="1 to 2"):
            explain(trained, layers=layers)


@pytest.mark.parametrize("graph", [-1, 4, 10**9])
def test_a_graph_that_is_not_there_is_refused(trained, graph):
    with pytest.raises(OptionError, match="0 to 3"):
        explain(trained, graph=graph)


def test_what_cannot_be_explained_is_refused_in_words(trained, tmp_path):
    with pytest.raises(CheckpointError, match="no such folder"):
        explain(tmp_path / "nowhere")
    with pytest.raises(OptionError, match="train, val, test"):
        explain(trained, split="all")
    config = RunFolder(trained).config()
    train(config.changed(lrga=False, max_epochs=1), tmp_path / "plain")
    with pytest.raises(UnsupportedError, match="plain network"):
        explain(tmp_path / "plain")


@pytest.mark.parametrize("level", ["graph", "edge"])
def test_tasks_of_graphs_and_edges_are_explained(tmp_path, level):
    edges = torch.tensor([[0, 1, 2, 3, 0], [1, 2, 3, 0, 0]])
    y = {"graph": torch.tensor([1.5]), "edge": torch.tensor([0, 1, 1, 0, 1])}[level]
    graph = lrga.data.PackedGraphs.from_data_list(
        [Data(x=torch.rand(4, 3), edge_index=edges, y=y) for _ in range(4)], y_level=level
    )
    splits = dict.fromkeys(("train", "val", "test"), graph)
    config = lrga.training.TrainingConfig(
        data=lrga.training.DataConfig(name="own"),
        model=lrga.training.ModelConfig(hidden=6, layers=1, rank=2),
        optimizer=lrga.training.OptimizerConfig(max_epochs=1, batch_size=2),
        run=lrga.training.RunConfig(device="cpu"),
    )
    train(config, tmp_path / "run", data=splits)
    with pytest.raises(DataMissingError):  # graphs that were passed in cannot be found again
        explain(tmp_path / "run")
    saved = [graph[i] for i in range(4)]
    torch.save(saved, tmp_path / "graphs.pt")
    found = explain(tmp_path / "run", source=tmp_path / "graphs.pt", graph=3)
    assert len(found.edges) == 4  # each once, no loops
    assert len(found.predictions) == {"graph": 1, "edge": 4}[level]
    if level == "edge" and found.labels is not None:
        # (0, 1) → 0, (0, 3) is the edge 3 → 0 with 0, (1, 2) → 1, (2, 3) → 1
        assert found.labels.tolist() == [0, 0, 1, 1]


def test_an_augmented_model_is_recorded_too_and_hooks_are_gone_after_the_block():
    model, given = lrga.augment(GCN(3, 8, 2), rank=4), (torch.randn(6, 3), torch.tensor([[0, 1], [1, 0]]))
    with recorded_factors(model) as found, torch.no_grad(), lrga.batch_context(None):
        model(*given)
    model(*given, batch=None)
    assert [layer.u.shape for layer in found] == [(6, 1, 4)] * 2


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    """A run with LRGA and one without, on a list of edges between named nodes."""
    root = tmp_path_factory.mktemp("links")
    generator = torch.Generator().manual_seed(0)
    pairs = {tuple(sorted(pair)) for pair in torch.randint(0, 40, (160, 2), generator=generator).tolist()}
    lines = [f"n{a},n{b}" for a, b in sorted(pairs) if a != b]
    (root / "edges.csv").write_text("source,target\n" + "\n".join(lines) + "\n")
    for name, with_lrga in (("lrga", True), ("plain", False)):
        rank = {"rank": 3} if with_lrga else {}
        config = make_config(str(root / "edges.csv"), data_options={"task": "link"}, lrga=with_lrga, hidden=8,
                             max_epochs=1, device="cpu", **rank)  # fmt: skip
        train(config, root / name)
    return root


def test_factors_pairs_and_predictions_are_those_of_the_network(runs):
    found = explain(runs / "lrga")
    assert [layer.u.shape for layer in found.layers] == [(found.num_nodes, 1, 3)] * 2
    assert found.node_ids[0].startswith("n")
    assert len(found.pairs) == len(found.labels) == len(found.predictions)
    assert set(found.labels.tolist()) == {0, 1}
    judged, known = ({tuple(sorted(pair)) for pair in part.tolist()} for part in (found.pairs, found.edges))
    assert not judged & known
    model, _ = lrga.training.load_run(runs / "lrga")
    with torch.no_grad():
        u, v = model.gnn.attentions[0].factors(model.embedding.weight)
    np.testing.assert_allclose(found.layers[0].matrix(), (u @ v.T).numpy(), atol=1e-6)


def test_the_page_has_the_graph_behind_its_pairs(runs):
    found = explain(runs / "lrga", layers=[1])
    page = explorer_page(found)
    data = json.loads(re.search(r'id="data">(.*?)</script>', page)[1])
    assert data["classes"] == ["no link", "link"]
    assert data["background"] is not None
    assert "pairs predicted correctly" in page


def test_what_is_not_there_is_refused_in_words(runs, monkeypatch):
    with pytest.raises(OptionError, match="only graph"):
        explain(runs / "lrga", graph=1)
    with pytest.raises(OptionError, match="train, val, test"):
        explain(runs / "lrga", split="all")
    with pytest.raises(UnsupportedError, match="plain network"):
        explain(runs / "plain")
    monkeypatch.setattr(attention, "MAX_NODES", 3)
    with pytest.raises(UnsupportedError, match="at most 3 nodes"):
        explain(runs / "lrga")


def test_layers_are_numbers_with_commas():
    assert parse_layers(None) is None
    assert parse_layers("1, 3") == [1, 3]
    for text in ("", "a", "1,,2", "1.5"):
        with pytest.raises(OptionError, match="1,4"):
            parse_layers(text)
