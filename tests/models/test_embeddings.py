import pytest
import torch
from torch.nn.functional import logsigmoid

from lrga.errors import OptionError, ShapeError
from lrga.models.budget import count_of
from lrga.models.embeddings import DeepWalk, MatrixFactorization, Node2Vec, build_embedding

NODES = {"ogbl-ppa": (576_289, 58), "ogbl-collab": (235_868, 128), "ogbl-ddi": (4_267, 0)}


def test_node2vec_on_ddi_has_exactly_the_published_count():
    assert count_of(lambda: build_embedding("ogbl-ddi", "node2vec")) == 645_249


@pytest.mark.parametrize("dataset", NODES)
def test_counts_are_tables_and_predictor(dataset):
    nodes, features = NODES[dataset]
    predictor = lambda width: width * 256 + 256 + 256 * 257 + 257  # noqa: E731
    assert count_of(lambda: build_embedding(dataset, "node2vec")) == nodes * 128 + predictor(128 + features)
    assert count_of(lambda: build_embedding(dataset, "deepwalk")) == 2 * nodes * 128 + predictor(128 + features)
    assert count_of(lambda: build_embedding(dataset, "mf")) == nodes * 256 + predictor(256)


@pytest.mark.parametrize("pull", [0.0, 0.3])
@pytest.mark.parametrize("kind", [Node2Vec, DeepWalk])
def test_walk_loss_is_the_skip_gram_loss_with_negatives_and_draws_near_together_what_is_pulled(kind, pull):
    model = kind(6, 4)
    walks, negatives = torch.tensor([[0, 1, 2], [3, 4, 5]]), torch.tensor([[0, 5, 5], [3, 0, 1]])
    table = model.embedding.weight
    context = table
    if kind is DeepWalk:
        context = torch.nn.init.normal_(model.context.weight)
    near = [logsigmoid(table[w[0]] @ context[j]) for w in walks.tolist() for j in w[1:]]
    far = [logsigmoid(-table[w[0]] @ context[j]) for w in negatives.tolist() for j in w[1:]]
    apart = [(table[w[0]] - context[j]).square().sum() for w in walks.tolist() for j in w[1:]]
    expected = pull / 2 * torch.stack(apart).mean() - torch.stack(near).mean() - torch.stack(far).mean()
    torch.testing.assert_close(model.walk_loss(walks, negatives, pull=pull), expected)


@pytest.mark.parametrize("pull", [0.0, 0.3])
@pytest.mark.parametrize("window", [2, 3, 5, 8, 9])
@pytest.mark.parametrize("kind", [Node2Vec, DeepWalk])
def test_windows_count_as_walks_of_their_own(kind, window, pull):
    torch.manual_seed(0)
    model = kind(20, 4).double()
    if kind is DeepWalk:
        torch.nn.init.normal_(model.context.weight)
    walks, others = torch.randint(20, (6, 9)), torch.randint(20, (6, 9))
    parts = [part.unfold(1, window, 1).flatten(0, 1) for part in (walks, others)]
    found, expected = model.walk_loss(walks, others, window=window, pull=pull), model.walk_loss(*parts, pull=pull)
    torch.testing.assert_close(found, expected)
    tables = [model.embedding.weight, *([model.context.weight] if kind is DeepWalk else [])]
    torch.testing.assert_close(torch.autograd.grad(found, tables), torch.autograd.grad(expected, tables))


def test_walks_train_the_vectors_and_pairs_only_the_predictor_or_in_a_factorisation_both():
    model = Node2Vec(6, 4, hidden_channels=8)
    model(torch.tensor([[0, 1], [2, 3]])).sum().backward()
    assert model.embedding.weight.grad is None
    assert model.predictor.lins[0].weight.grad is not None
    model.walk_loss(torch.tensor([[0, 1, 2]]), torch.tensor([[0, 4, 5]])).backward()
    assert model.embedding.weight.grad.abs().sum() > 0
    model = MatrixFactorization(6, 4, hidden_channels=8)
    model(torch.tensor([[0, 1], [2, 3]])).sum().backward()
    assert model.embedding.weight.grad.abs().sum() > 0
    assert model.predictor.lins[0].weight.grad is not None


def test_node_features_are_joined_to_the_vectors():
    model = Node2Vec(6, 4, hidden_channels=8, num_features=3).eval()
    x, pairs = torch.randn(6, 3), torch.tensor([[0, 1], [2, 3]])
    joined = torch.cat([x, model.embedding.weight], dim=1)
    torch.testing.assert_close(model(pairs, x), model.predictor(joined[pairs[0]], joined[pairs[1]]))
    with pytest.raises(ShapeError, match=r"\[6, 3\]"):
        model(pairs)


@pytest.mark.parametrize("kind", [Node2Vec, DeepWalk, MatrixFactorization])
def test_reset_draws_anew(kind):
    model = kind(6, 4)
    before = [p.clone() for p in model.parameters() if p.dim() > 1 and p.any()]  # contexts of DeepWalk begin at zero
    model.reset_parameters()
    after = [p for p in model.parameters() if p.dim() > 1 and p.any()]
    assert all(not torch.equal(a, b) for a, b in zip(before, after, strict=True))


def test_wrong_input_is_refused():
    with pytest.raises(ShapeError, match="transpose"):
        MatrixFactorization(6, 4)(torch.zeros(5, 2, dtype=torch.int64))
    model = MatrixFactorization(5, 4)
    with pytest.raises(ShapeError, match="transpose"):
        model.score(model.encode(None), torch.tensor([[0, 1], [1, 2], [2, 3]]))
    with pytest.raises(ShapeError, match="walk"):
        Node2Vec(6, 4).walk_loss(torch.tensor([[0]]), torch.tensor([[0]]))
    for window in (1, 4):
        with pytest.raises(ShapeError, match=f"a window of 2 to 3 nodes.*{window}"):
            Node2Vec(6, 4).walk_loss(torch.tensor([[0, 1, 2]]), torch.tensor([[0, 1, 2]]), window=window)
    with pytest.raises(OptionError, match="node2vec, deepwalk, mf"):
        build_embedding("ogbl-ddi", "line")


def test_encoded_tables_score_as_the_pairs_do():
    pairs, x = torch.tensor([[0, 1, 4], [2, 3, 0]]), torch.randn(5, 3)
    for model in (MatrixFactorization(5, 8), Node2Vec(5, 8, num_features=3), DeepWalk(5, 8)):
        features = x if model.num_features else None
        expected = model(pairs) if features is None else model(pairs, features)
        h = model.encode(features)
        torch.testing.assert_close(model.score(h, pairs), expected)
        assert h.requires_grad == (type(model) is MatrixFactorization)
        assert len(model.parameter_groups()) == (2 if type(model) is MatrixFactorization else 1)


def test_deepwalk_begins_with_small_vectors_and_no_contexts():
    torch.manual_seed(0)
    model = DeepWalk(50, 16)
    for _ in range(2):
        assert 0 < float(model.embedding.weight.detach().abs().max()) <= 1 / 16
        assert not model.context.weight.any()
        torch.nn.init.ones_(model.context.weight)
        model.reset_parameters()
