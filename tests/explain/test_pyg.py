"""PyG's Explainer on models with low-rank global attention."""

import pytest
import torch
from torch import nn
from torch_geometric.data import Batch, Data
from torch_geometric.explain import Explainer, unfaithfulness
from torch_geometric.nn import GCN, global_mean_pool

import lrga
from lrga.errors import OptionError, UnsupportedError
from lrga.explain import GlobalAttentionExplainer
from tests.helpers.models import model_of

COLOURS, MOTIF = 3, 3


def planted(generator):
    """Chains of four nodes without an edge between them, and, somewhere among them, a coloured triangle.

    Every node must tell the triangle's colour, which only its corners show: no edge carries it to the chains.
    """
    chains = int(torch.randint(4, 8, (), generator=generator))
    colour = int(torch.randint(COLOURS, (), generator=generator))
    n = 4 * chains + MOTIF
    left = torch.arange(4 * chains).view(-1, 4)[:, :3].flatten()
    corners = 4 * chains + torch.arange(MOTIF)
    edges = torch.cat([torch.stack([left, left + 1]), torch.stack([corners, corners.roll(1)])], dim=1)
    x = torch.cat([torch.rand(n, 2, generator=generator), torch.zeros(n, COLOURS)], dim=1)
    x[corners, 2 + colour] = 1
    place = torch.randperm(n, generator=generator)  # node i of above is node place[i]
    motif = torch.zeros(n, dtype=torch.bool)
    motif[place[corners]] = True
    edge_index = torch.cat([place[edges], place[edges].flip(0)], dim=1)
    return Data(x=x[place.argsort()], edge_index=edge_index, y=torch.full((n,), colour), motif=motif)


@pytest.fixture(scope="module")
def trained():
    torch.manual_seed(0)
    generator = torch.Generator().manual_seed(0)
    model = lrga.augment(GCN(2 + COLOURS, 16, 2, COLOURS), rank=6, init="paper")
    optimizer = torch.optim.Adam(model.parameters(), lr=0.02)
    for _ in range(60):
        batch = Batch.from_data_list([planted(generator) for _ in range(24)])
        loss = nn.functional.cross_entropy(model(batch.x, batch.edge_index, batch=batch.batch), batch.y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    return model.eval()


def explainer_of(model, method="gradient", level="node", mode="multiclass_classification", **options):
    return Explainer(
        model,
        GlobalAttentionExplainer(method),
        **({"explanation_type": "model", "node_mask_type": "object"} | options),
        model_config={"mode": mode, "task_level": level, "return_type": "raw"},
    )


@pytest.mark.parametrize("method", ["gradient", "attention"])
def test_a_motif_that_no_edge_reaches_is_ranked_first(trained, method):
    generator, explainer = torch.Generator().manual_seed(1), explainer_of(trained, method)
    for _ in range(10):
        graph = planted(generator)
        node = int((~graph.motif).nonzero()[0])
        assert trained(graph.x, graph.edge_index, batch=None)[node].argmax() == graph.y[node]
        found = explainer(graph.x, graph.edge_index, batch=None, index=node)
        assert found.node_mask.shape == (graph.num_nodes, 1)
        assert float(found.node_mask.max()) == 1
        first = found.node_mask.squeeze(1).topk(MOTIF).indices
        assert graph.motif[first].all(), found.node_mask.squeeze(1)


def test_the_measures_of_pyg_take_the_explanation(trained):
    graph = planted(torch.Generator().manual_seed(2))
    explainer = explainer_of(trained)
    one_graph = torch.zeros(graph.num_nodes, dtype=torch.long)  # PyG's measures lose an argument that is None
    found = explainer(graph.x, graph.edge_index, batch=one_graph, index=0)
    assert 0 <= unfaithfulness(explainer, found) <= 1
    assert found.get_explanation_subgraph().num_nodes <= graph.num_nodes


@pytest.mark.parametrize("method", ["gradient", "attention"])
def test_other_graphs_of_a_batch_have_no_part(trained, method):
    generator = torch.Generator().manual_seed(3)
    graphs = [planted(generator) for _ in range(3)]
    batch = Batch.from_data_list(graphs)
    index = int(batch.ptr[1])
    found = explainer_of(trained, method)(batch.x, batch.edge_index, batch=batch.batch, index=index).node_mask
    alone = explainer_of(trained, method)(graphs[1].x, graphs[1].edge_index, batch=None, index=0).node_mask
    assert not found[batch.batch != 1].any()
    torch.testing.assert_close(found[batch.batch == 1], alone, rtol=1e-3, atol=1e-5)


def test_scores_are_those_of_the_whole_matrix():
    """Of one layer with two heads, where graphs are predicted: against the definition with N x N matrices."""
    torch.manual_seed(0)

    def forward(self, x, edge_index, batch=None):
        return global_mean_pool(self.head(self.attention(x, batch)), batch)

    attention = lrga.LowRankGlobalAttention(4, 3, heads=2)
    model = model_of(forward, attention=attention, head=nn.Linear(12, 1)).eval()
    x, edges = torch.randn(7, 4), torch.empty(2, 0, dtype=torch.long)
    u, v = model.attention.factors(x)
    matrix, z = torch.einsum("ihk,jhk->hij", u, v), model.attention.values(x)
    weight = model.head.weight.view(2, 2, 3)[:, 0] / 7  # of what is attended to
    expected = torch.einsum("hij,jhk,hk->j", matrix, z, weight).abs()
    found = explainer_of(model, level="graph", mode="regression")(x, edges).node_mask.squeeze(1)
    torch.testing.assert_close(found, expected / expected.max())
    found = explainer_of(model, "attention", level="graph", mode="regression")(x, edges).node_mask.squeeze(1)
    torch.testing.assert_close(found, matrix.sum((0, 1)) / matrix.sum((0, 1)).max())


def test_frozen_models_and_labels_are_explained(trained):
    graph = planted(torch.Generator().manual_seed(4))
    node = int((~graph.motif).nonzero()[0])
    expected = explainer_of(trained)(graph.x, graph.edge_index, batch=None, index=node).node_mask
    try:
        trained.requires_grad_(False)
        explainer = explainer_of(trained, explanation_type="phenomenon")
        found = explainer(graph.x, graph.edge_index, batch=None, index=node, target=graph.y).node_mask
    finally:
        trained.requires_grad_(True)
    torch.testing.assert_close(found, expected)
    assert all(p.grad is None or p.grad.isfinite().all() for p in trained.parameters())


def test_what_cannot_be_explained_is_refused(trained):
    with pytest.raises(OptionError, match="node_mask_type='object'"):
        explainer_of(trained, node_mask_type="attributes")
    with pytest.raises(OptionError, match="edge_mask_type='object'"):
        explainer_of(trained, edge_mask_type="object")
    with pytest.raises(OptionError, match="method='gradient'"):
        explainer_of(trained, "attention", explanation_type="phenomenon")
    with pytest.raises(OptionError, match="'gradient', 'attention'"):
        GlobalAttentionExplainer("rollout")
    graph = planted(torch.Generator().manual_seed(5))
    with pytest.raises(UnsupportedError, match="augment"):
        explainer_of(GCN(2 + COLOURS, 8, 1, COLOURS))(graph.x, graph.edge_index)


def test_scores_of_integer_features_are_not_truncated():
    class Typed(nn.Module):
        def __init__(self):
            super().__init__()
            self.types, self.gnn = nn.Embedding(4, 5), lrga.augment(GCN(5, 8, 2, 3), rank=4, init="paper")

        def forward(self, x, edge_index, batch=None):
            return self.gnn(self.types(x.squeeze(1)), edge_index, batch=batch)

    x, edge_index = torch.tensor([[0], [1], [2], [3]]), torch.tensor([[0, 1, 2], [1, 2, 3]])
    mask = explainer_of(Typed().eval())(x, edge_index, batch=None, index=0).node_mask
    assert mask.is_floating_point()
    assert ((mask > 0) & (mask < 1)).any()
