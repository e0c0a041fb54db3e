"""A user's own model, explained."""

import numpy as np
import pytest
import torch
from torch import nn
from torch_geometric.data import Batch, Data
from torch_geometric.nn import GCN, GCNConv, global_mean_pool

import lrga
from lrga.errors import BatchError, DTypeError, ShapeError, UnsupportedError
from lrga.explain import write_explorer
from lrga.explain.explorer import explorer_page
from lrga.explain.own_model import explain_model


class Pooled(nn.Module):
    def __init__(self, out):
        super().__init__()
        self.conv, self.head, self.drop = GCNConv(3, 8), nn.Linear(8, out), nn.Dropout(0.5)

    def forward(self, data):
        return self.head(self.drop(global_mean_pool(self.conv(data.x, data.edge_index).relu(), data.batch)))


@pytest.fixture
def ring():
    torch.manual_seed(0)
    ends = torch.arange(7)
    return Data(x=torch.randn(7, 3), edge_index=torch.stack([ends, (ends + 1) % 7]), y=torch.arange(7) % 2)


def by_node(model, data):
    return model(data.x, data.edge_index, batch=None)


def test_the_rows_of_the_page_are_those_of_the_models_own_attention(ring):
    model = lrga.augment(GCN(3, 8, num_layers=2, out_channels=2), rank=4, heads=2)
    found = explain_model(model, ring, by_node, classes=("even", "odd"))
    attention = model.convs[0].attention
    u, v = attention.factors(ring.x)
    first = u.view(7, 2, 4)[:, 1] @ v.view(7, 2, 4)[:, 1].t()
    np.testing.assert_allclose(found.layers[0].matrix(1), first.detach().numpy(), rtol=1e-5, atol=1e-7)
    assert (found.task.level, found.task.classes, len(found.layers)) == ("node", ("even", "odd"), 2)
    assert (found.predictions == by_node(model.eval(), ring).argmax(dim=1).numpy()).all()
    assert found.labels.tolist() == ring.y.tolist()
    unnamed = explain_model(model, ring, lambda model, data: model(data.x, data.edge_index))  # no batch: one graph
    np.testing.assert_array_equal(unnamed.layers[0].u, found.layers[0].u)


def test_a_model_in_training_is_explained_as_in_evaluation_and_stays_in_training(ring):
    model = lrga.augment(Pooled(1), rank=4)
    ring.y = torch.tensor([0.5])
    found = explain_model(model, ring, name="<b>mine</b>")
    assert model.training
    assert (found.task.level, found.task.kind, found.labels.tolist()) == ("graph", "regression", [0.5])
    assert found.predictions[0] == pytest.approx(model.eval()(ring).item())


def test_a_graph_without_a_label_can_be_explained_and_the_page_escapes_names(ring, tmp_path):
    ring.y = None
    found = explain_model(lrga.augment(Pooled(3), rank=4), ring, name="<script>alert(1)</script>")
    assert (found.labels, found.task.kind) == (None, "classification")
    assert write_explorer(found, tmp_path / "page.html") is found
    assert "<script>alert(1)" not in (tmp_path / "page.html").read_text()


def test_what_cannot_be_explained_is_refused_in_words(ring):
    with pytest.raises(UnsupportedError, match="a plain network"):
        explain_model(Pooled(1), ring)
    model = lrga.augment(GCN(3, 8, num_layers=2, out_channels=2), rank=4)
    with pytest.raises(DTypeError, match="one graph as PyG Data"):
        explain_model(model, [ring])
    with pytest.raises(DTypeError, match="return a tensor"):
        explain_model(model, ring, lambda m, d: (by_node(m, d), None))
    with pytest.raises(ShapeError, match="7 rows"):
        explain_model(model, ring, lambda m, d: by_node(m, d)[:3])
    with pytest.raises(BatchError, match="one graph, got a batch of 2 graphs"):
        explain_model(model, Batch.from_data_list([ring, ring]), lambda m, d: m(d.x, d.edge_index, batch=d.batch))
    with pytest.raises(TypeError) as missing:  # by default the model is called with the Data object alone
        explain_model(model, ring)
    assert "pass a function as third argument" in missing.value.__notes__[0]
    assert explain_model(model, Batch.from_data_list([ring]), by_node).num_nodes == 7


def test_the_title_names_the_data_and_a_notebook_shows_one_line(ring, tmp_path):
    model = lrga.augment(GCN(3, 8, num_layers=2, out_channels=2), rank=4)
    found = explain_model(model, ring, by_node)
    assert repr(found) == "Explanation(GCN, graph 0, 7 nodes, layers: convs.0.attention, convs.1.attention)"
    pages = [explorer_page(one) for one in (found, explain_model(model, ring, by_node, dataset=str(tmp_path / "mols")))]
    for page, title in zip(pages, ("graph 0 of own data", "graph 0 of mols"), strict=True):
        assert f"<title>What GCN attends to: {title}</title>" in page
    assert ">label</th>" in pages[0]
    assert ">label</th>" not in explorer_page(explain_model(lrga.augment(Pooled(1), rank=4), ring))  # no node has one
