import copy
import math
import pickle
from typing import NamedTuple

import pytest
import torch
from torch import nn
from torch_geometric.data import Batch, Data
from torch_geometric.nn import GCN, GCNConv

import lrga
from lrga.errors import DTypeError, OptionError, ShapeError
from lrga.nn.random_features import DISTRIBUTIONS
from tests.helpers.models import model_of

EDGES = torch.tensor([[0, 1, 2, 3], [1, 0, 3, 2]])


class Echo(nn.Module):
    """Returns the features it is given."""

    def forward(self, x, *args, **kwargs):
        return x.x if isinstance(x, Data) else x


def seeded(seed=7):
    return torch.Generator().manual_seed(seed)


@pytest.mark.parametrize("name", DISTRIBUTIONS)
def test_distributions_have_mean_zero_and_variance_one_over_d(name):
    drawn = lrga.RandomFeatures(Echo(), 4, distribution=name, mode="replace")(torch.empty(50_000, 1))
    assert drawn.shape == (50_000, 4)
    assert abs(drawn.mean().item()) < 5 * math.sqrt(0.25 / 200_000)
    assert abs(drawn.var().item() - 0.25) < 0.01
    if name == "uniform":
        assert drawn.abs().max() <= math.sqrt(3 / 4)
    if name == "rademacher":
        assert drawn.unique().tolist() == [-0.5, 0.5]


def test_features_are_appended_or_put_in_place_integers_only_that():
    x = torch.randn(5, 3)
    both = lrga.RandomFeatures(Echo(), 4)(x)
    assert both.shape == (5, 7)
    assert torch.equal(both[:, :3], x)
    assert lrga.RandomFeatures(Echo(), 2)(x.double()).dtype == torch.float64
    assert lrga.RandomFeatures(Echo(), 4, mode="replace")(x).shape == (5, 4)
    x = torch.zeros(4, 1, dtype=torch.int64)
    assert lrga.RandomFeatures(Echo(), 2, mode="replace")(x).shape == (4, 2)
    with pytest.raises(DTypeError, match="embed categories.*replace"):
        lrga.RandomFeatures(Echo(), 2)(x)


@pytest.mark.parametrize("training", [True, False])
def test_every_pass_draws_anew_in_training_and_evaluation(training):
    model = lrga.RandomFeatures(Echo(), 4, mode="replace").train(training)
    x = torch.empty(5, 1)
    assert not torch.equal(model(x), model(x))


def test_a_generator_or_without_one_the_global_seed_makes_draws_reproducible():
    x = torch.randn(5, 3)
    first, second = (lrga.RandomFeatures(Echo(), 4, generator=seeded()) for _ in range(2))
    for _ in range(2):
        assert torch.equal(first(x), second(x))
    assert not torch.equal(first(x), lrga.RandomFeatures(Echo(), 4, generator=seeded(8))(x))
    model, found = lrga.RandomFeatures(Echo(), 4), []
    for _ in range(2):
        torch.manual_seed(3)
        found.append(model(x))
    assert torch.equal(*found)


@pytest.mark.parametrize("distribution", ["normal", torch.rand, lambda n, d: torch.rand(n, d)])
def test_held_features_stay(distribution):
    model = lrga.RandomFeatures(Echo(), 4, mode="replace", resample=False, distribution=distribution)
    x = torch.empty(6, 1)
    held = model(x)
    assert torch.equal(model(x), held)
    assert torch.equal(model(torch.empty(9000, 1))[:6], held)
    assert held.std() > 0.1


def test_held_features_follow_the_graph_not_the_batch_and_are_saved_with_the_weights():
    model = lrga.RandomFeatures(Echo(), 4, mode="replace", resample=False)
    alone = model(torch.empty(3, 1))
    batch = torch.tensor([1, 0, 1, 0, 1])
    together = model(torch.empty(5, 1), batch=batch)
    assert torch.equal(together[batch == 1], alone)
    assert torch.equal(together[batch == 0], alone[:2])
    model.model = model_of(lambda self, x, edge_index, batch: x)  # and with a batch by position
    assert torch.equal(model(torch.empty(5, 1), EDGES, batch), together)
    model = lrga.RandomFeatures(Echo(), 4, mode="replace", resample=False)
    twin = lrga.RandomFeatures(Echo(), 4, mode="replace", resample=False)
    x = torch.empty(6, 1)
    assert not torch.equal(twin(x), model(x))
    twin.load_state_dict(model.state_dict())
    assert torch.equal(twin(x), model(x))


def test_samples_average_the_outputs_in_evaluation_only():
    square = model_of(lambda self, x: {"square": x.square(), "shape": x.shape})
    model = lrga.RandomFeatures(square, 2, mode="replace", samples=4, generator=seeded())
    x = torch.empty(3, 1)
    averaged = model.eval()(x)["square"]
    generator = seeded()
    draws = [torch.randn(3, 2, generator=generator).div(math.sqrt(2)).square() for _ in range(4)]
    torch.testing.assert_close(averaged, torch.stack(draws).mean(0))
    assert model(x)["shape"] == (3, 2)
    model.generator = seeded()
    torch.testing.assert_close(model.train()(x)["square"], draws[0])


@pytest.mark.parametrize(
    "sampler",
    [torch.rand, lambda n, d: torch.full((n, d), 0.5), lambda n, d, generator: torch.rand(n, d, generator=generator)],
)
def test_any_sampler_can_be_given(sampler):
    drawn = lrga.RandomFeatures(Echo(), 4, distribution=sampler, mode="replace", generator=seeded())(torch.empty(5, 1))
    assert drawn.shape == (5, 4)
    assert (drawn >= 0).all()


def test_data_objects_are_copied_not_changed():
    data = Data(x=torch.randn(4, 3), edge_index=EDGES)
    assert lrga.RandomFeatures(Echo(), 2)(data).shape == (4, 5)
    assert data.x.shape == (4, 3)
    batch = Batch.from_data_list([data, data])
    assert lrga.RandomFeatures(Echo(), 2)(batch).shape == (8, 5)
    bare = Data(edge_index=EDGES, num_nodes=4)
    assert lrga.RandomFeatures(Echo(), 2)(bare).shape == (4, 2)


def test_random_networks_are_equivariant_in_expectation():
    """Proposition 2: P GNN([X, R]) and GNN(P [X, R]) have the same mean.

    Means over 1,000 draws of each; tolerance five standard errors of their difference, entry by entry. A single draw
    is not equivariant: it misses by more than ten.
    """
    conv = GCNConv(1 + 3, 2).double()
    x = torch.randn(4, 1, dtype=torch.float64)
    edge_index = torch.tensor([[0, 1, 1, 2, 2, 3], [1, 0, 2, 1, 3, 2]])
    order = torch.tensor([2, 0, 3, 1])
    inverse = torch.argsort(order)

    network = model_of(lambda self, x, edge_index: torch.tanh(conv(x, edge_index)))
    model = lrga.RandomFeatures(network, 3, generator=seeded())
    with torch.no_grad():
        here = torch.stack([model(x, edge_index)[order] for _ in range(1000)])
        there = torch.stack([model(x[order], inverse[edge_index]) for _ in range(1000)])
    error = (here.var(0) / 1000 + there.var(0) / 1000).sqrt()
    assert ((here.mean(0) - there.mean(0)).abs() <= 5 * error).all()
    assert ((here[0] - there[0]).abs() > 10 * error).any()


@pytest.mark.parametrize("duplicate", [copy.deepcopy, lambda m: pickle.loads(pickle.dumps(m))])
@pytest.mark.parametrize("options", [{}, {"resample": False}, {"generator": seeded()}])
def test_copies_draw_the_same(duplicate, options):
    model = lrga.RandomFeatures(GCN(3 + 4, 8, 2, 2), 4, **options)
    twin = duplicate(model)
    x = torch.randn(4, 3)
    torch.manual_seed(5)
    first = model(x, EDGES)
    torch.manual_seed(5)
    assert torch.equal(twin(x, EDGES), first)


def test_reset_draws_the_model_and_the_held_seed_anew():
    model = lrga.RandomFeatures(GCN(4, 8, 2, 2), 4, mode="replace", resample=False)
    weight, seed = model.model.convs[0].lin.weight.clone(), model.held_seed.clone()
    model.reset_parameters()
    assert not torch.equal(model.model.convs[0].lin.weight, weight)
    assert model.held_seed != seed


@pytest.mark.parametrize(
    ("options", "error", "words"),
    [
        ({"channels": 0}, OptionError, "channels of at least 1"),
        ({"channels": 2, "distribution": "cauchy"}, OptionError, "'normal', 'uniform', 'rademacher'"),
        ({"channels": 2, "mode": "add"}, OptionError, "'concat', 'replace'"),
        ({"channels": 2, "samples": 0}, OptionError, "samples"),
        ({"channels": 2, "samples": 3, "resample": False}, OptionError, "drawn once"),
    ],
)
def test_bad_options_are_refused_in_words(options, error, words):
    with pytest.raises(error, match=words):
        lrga.RandomFeatures(Echo(), **options)


def test_a_sampler_of_another_shape_is_refused():
    with pytest.raises(ShapeError, match=r"\[4, 2\].*\[4, 3\]"):
        lrga.RandomFeatures(Echo(), 2, distribution=lambda n, d: torch.ones(n, d + 1))(torch.randn(4, 1))
    with pytest.raises(DTypeError, match="list"):
        lrga.RandomFeatures(Echo(), 2)([1.0, 2.0])
    with pytest.raises(DTypeError, match="str"):
        lrga.RandomFeatures("model", 4)


def test_named_tuples_are_averaged():
    class Pair(NamedTuple):
        value: torch.Tensor
        name: str

    model = model_of(lambda self, x: Pair(x, "x"))
    mean = lrga.RandomFeatures(model, 4, mode="replace", samples=400).eval()(torch.empty(5, 1))
    assert mean.name == "x"
    assert mean.value.abs().max() < 0.2
