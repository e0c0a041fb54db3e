"""DeepSets trained to count triangles, beside the constructed weights."""

import numpy as np
import pytest
import torch

from lrga.theory import TriangleDeepSets, count_triangles
from lrga.theory.trained import TRAINED_CLAIMS, TrainingRecord
from lrga.theory.zoo import from_adjacency
from reproduction.theory.experiments import train_experiment
from reproduction.theory.triangles import (
    FAMILIES,
    TriangleConfig,
    constructed_error,
    node_features,
    triangles,
)

JUDGE = next(claim.judge for claim in TRAINED_CLAIMS if claim.key == "trained-triangles")


@pytest.mark.parametrize("family", FAMILIES)
def test_triangles_are_those_that_are_counted_exactly(family):
    graphs = FAMILIES[family](TriangleConfig(), 5, np.random.default_rng(0))
    assert triangles(graphs).tolist() == [count_triangles(from_adjacency(g.numpy())) for g in graphs]


def test_regular_graphs_have_one_degree_and_many_numbers_of_triangles():
    graphs = FAMILIES["regular"](TriangleConfig(), 50, np.random.default_rng(0))
    assert torch.equal(graphs, graphs.transpose(1, 2))
    assert (graphs.sum(dim=2) == 4).all()
    assert triangles(graphs).std() > 3


def test_the_constructed_error_is_that_of_the_constructed_network():
    graphs = FAMILIES["random"](TriangleConfig(), 20, np.random.default_rng(0))
    error = constructed_error(graphs, 4)
    torch.manual_seed(0)
    features = node_features(graphs, 4).double()
    counted = torch.stack([TriangleDeepSets(4)(h) for h in features])
    target = triangles(graphs).double()
    torch.manual_seed(0)
    assert constructed_error(graphs, 4) == pytest.approx(
        float((counted - target).square().mean().sqrt() / target.std()), rel=1e-4
    )
    assert error > 0.5


@pytest.mark.slow
def test_training_beats_the_constructed_weights_at_small_d_and_the_guess_of_the_mean():
    config = TriangleConfig(
        seeds=(0,), channels=(4, 32), train_graphs=300, test_graphs=150, steps=250, families=("random",)
    )
    record = train_experiment("trained-triangles", config)
    assert JUDGE(record).holds
    assert record.mean("random: trained")[-1] < 0.9


def test_on_regular_graphs_degrees_say_nothing():
    config = TriangleConfig(
        seeds=(0,), channels=(4,), train_graphs=200, test_graphs=200, steps=60, families=("regular",)
    )
    record = train_experiment("trained-triangles", config)
    assert record.mean("regular: trained on degrees")[0] > 0.9


def test_trained_weights_that_are_worse_are_judged_so():
    curves = {"random: constructed": [[4.0, 0.5]], "random: trained": [[0.6, 0.7]]}
    values = {
        "experiment": "trained-triangles",
        "config": {"families": ["random"]},
        "seeds": [0],
        "metrics": {"x": [4, 64], "curves": {**curves, "random: trained on degrees": [[0.1, 0.1]]}},
        "seconds": 1.0,
        "environment": {},
    }
    assert not JUDGE(TrainingRecord.from_json(values)).holds
