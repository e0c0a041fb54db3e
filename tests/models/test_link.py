import pytest
import torch
import torch.nn.functional as F

from lrga.errors import OptionError, ShapeError
from lrga.models.budget import count_of
from lrga.models.link import LinkGNN, LinkModel, LinkPredictor, build_link_model

N, D = 6, 4
EDGES = torch.tensor([[0, 1, 2, 3, 4], [1, 0, 3, 2, 5]])
COUNTS = {
    ("gcn", True): {"ogbl-ppa": 814_249, "ogbl-collab": 1_069_489, "ogbl-ddi": 1_576_081},
    ("gcn", False): {"ogbl-ppa": 278_529, "ogbl-collab": 296_449, "ogbl-ddi": 1_289_985},
    ("graphsage", False): {"ogbl-ppa": 424_449, "ogbl-collab": 460_289, "ogbl-ddi": 1_421_057},
}


@pytest.mark.parametrize(("model", "lrga"), COUNTS)
def test_counts_are_exactly_the_published_ones(model, lrga):
    for dataset, expected in COUNTS[model, lrga].items():
        assert count_of(lambda d=dataset: build_link_model(d, model, lrga=lrga)) == expected


@pytest.mark.parametrize("skip", [True, False])
def test_an_augmented_layer_is_as_the_authors_released_it(skip):
    gnn = LinkGNN(D, 3, 2, rank=2, skip=skip).double().eval()
    gnn.norms[0].running_mean.normal_()
    x = torch.randn(N, D, dtype=torch.float64)
    h = x
    for i in range(2):
        m1, m2, m3, m4 = F.relu(gnn.attentions[i].project(h)).split(2, dim=1)
        eta = m1.sum(0) @ m2.sum(0) / N + 1e-6
        attended = torch.cat([m1 @ m2.t() @ m3 / eta, m4], dim=1)
        parts = [attended, gnn.convs[i](h, EDGES).relu(), *([h] if skip else [])]
        h = gnn.mixes[i](torch.cat(parts, dim=1))
        if i == 0:
            h = gnn.norms[0](h.relu())
    torch.testing.assert_close(gnn(x, EDGES), h, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("conv", ["gcn", "graphsage"])
def test_plain_network_is_a_stack_of_convolutions(conv):
    gnn = LinkGNN(D, 3, 2, conv=conv).eval()
    x = torch.randn(N, D)
    expected = gnn.convs[1](gnn.convs[0](x, EDGES).relu(), EDGES)
    torch.testing.assert_close(gnn(x, EDGES), expected)


def test_weights_are_drawn_xavier_normal_and_biases_zero():
    gnn = LinkGNN(64, 64, 2, rank=32)
    for module in (*gnn.attentions, *gnn.mixes):
        for name, parameter in module.named_parameters():
            if name.endswith("bias"):
                assert torch.equal(parameter, torch.zeros_like(parameter))
            else:
                rows, columns = parameter.shape
                assert float(parameter.detach().std()) == pytest.approx((2 / (rows + columns)) ** 0.5, rel=0.05)


def test_edge_weights_change_gcn_and_are_refused_elsewhere():
    x, weight = torch.randn(N, D), torch.rand(5) + 0.5
    gnn = LinkGNN(D, 3, 2, rank=2).eval()
    assert not torch.allclose(gnn(x, EDGES), gnn(x, EDGES, weight))
    with pytest.raises(OptionError, match="graphsage"):
        LinkGNN(D, 3, 2, conv="graphsage")(x, EDGES, weight)


def test_model_scores_pairs_with_given_or_learned_features():
    pairs = torch.tensor([[0, 1, 2], [3, 4, 5]])
    learned = LinkModel(LinkGNN(D, 3, 2, rank=2), LinkPredictor(3, 8, 2), num_nodes=N)
    assert learned(None, EDGES, pairs).shape == (3,)
    given = LinkModel(LinkGNN(D, 3, 2), LinkPredictor(3, 8, 2)).eval()
    x = torch.randn(N, D)
    h = given.encode(x, EDGES)
    torch.testing.assert_close(given(x, EDGES, pairs), given.predictor(h[pairs[0]], h[pairs[1]]))
    torch.testing.assert_close(given(x, EDGES, pairs), given(x, EDGES, pairs.flip(0)))  # a product has no direction
    for model, features in ((learned, x), (given, None)):
        with pytest.raises(ShapeError):
            model(features, EDGES, pairs)


def test_predictor_is_an_mlp_of_the_product():
    predictor = LinkPredictor(D, 5, 3).eval()
    a, b = torch.randn(2, 7, D)
    h = a * b
    for i, lin in enumerate(predictor.lins):
        h = lin(h.relu() if i else h)
    torch.testing.assert_close(predictor(a, b), h.squeeze(-1))


def test_ddi_learns_an_embedding_the_others_do_not_and_it_is_clipped_by_itself():
    with torch.device("meta"):
        assert build_link_model("ogbl-ddi").embedding.weight.shape == (4267, 256)
        assert build_link_model("OGBL-collab").embedding is None
        assert build_link_model("ogbl-ppa", rank=25, hidden=150, skip=False, dropout=0.1).gnn.rank == 25
    model = build_link_model("ogbl-ddi", hidden=8, rank=2)
    groups = model.parameter_groups()
    assert len(groups) == 3
    assert sum(p.numel() for group in groups for p in group) == sum(p.numel() for p in model.parameters())
    assert groups[2][0] is model.embedding.weight


@pytest.mark.parametrize("kind", ["dot", "concat"])
def test_other_predictors(kind):
    predictor = LinkPredictor(D, 5, 2, kind=kind).eval()
    a, b = torch.randn(2, 7, D)
    if kind == "dot":
        assert not list(predictor.parameters())
        torch.testing.assert_close(predictor(a, b), (a * b).sum(1))
    else:
        wide = predictor.lins[1](predictor.lins[0](torch.cat([a, b], 1)).relu()).squeeze(1)
        torch.testing.assert_close(predictor(a, b), wide)
        assert not torch.allclose(predictor(a, b), predictor(b, a))


@pytest.mark.parametrize("kind", ["hadamard", "dot", "concat"])
def test_features_and_pairs_of_another_shape_are_refused(kind):
    predictor = LinkPredictor(D, 5, 2, kind=kind)
    for source, target in ((torch.ones(3, D), torch.ones(1, D)), (torch.ones(3, 5), torch.ones(3, 5))):
        with pytest.raises(ShapeError, match=r"\[P, 4\] of both nodes"):
            predictor(source, target)
    model = LinkModel(LinkGNN(D, D, 2), predictor, num_nodes=N)
    h = model.encode(None, EDGES)
    with pytest.raises(ShapeError, match="transpose"):  # of these three pairs the first two would be scored as columns
        model.score(h, torch.tensor([[0, 1], [1, 2], [2, 3]]))
    with pytest.raises(ShapeError, match=r"x of shape \[N, 4\]"):
        model.gnn(torch.ones(N, 5), EDGES)


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: LinkPredictor(0, 5, 2), "channels of at least 1"),
        (lambda: LinkPredictor(D, 0, 2), "channels of at least 1"),
        (lambda: LinkGNN(D, 0, 2), "channels of at least 1"),
        (lambda: LinkGNN(6, 9, 2, conv="gat"), "multiple of 4"),
        (lambda: LinkPredictor(D, 5, 2, kind="bilinear"), "'hadamard', 'dot', 'concat'"),
        (lambda: build_link_model("ogbl-vessel"), "ogbl-ppa, ogbl-collab, ogbl-ddi"),
        (lambda: build_link_model("ogbl-ddi", "gcnii"), "'gcn', 'graphsage', 'gat', 'gin', 'gatedgcn'"),
    ],
)
def test_unknown_names_and_widths_of_nothing_are_refused(make, words):
    with pytest.raises(OptionError, match=words):
        make()


def test_a_matrix_of_edges_is_checked():
    gnn, x = LinkGNN(D, 3, 1), torch.randn(N, D)
    with pytest.raises(ShapeError, match=r"\[6, 6\].*\[2, 5\].*long"):
        gnn(x, EDGES.float())
    with pytest.raises(OptionError, match="edge weights as entries"):  # it was ignored
        gnn(x, torch.zeros(N, N), torch.ones(5))
