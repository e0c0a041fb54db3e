"""One head of 2-FWL, learned with and without LRGA."""

import pytest
import torch

from lrga.theory import NodeFactorization, align, multiply_heads
from lrga.theory.trained import HEAD_NETWORKS, TRAINED_CLAIMS, TrainingRecord
from reproduction.theory.experiments import train_experiment
from reproduction.theory.head import HeadConfig, head_graphs, head_network

JUDGE = next(claim.judge for claim in TRAINED_CLAIMS if claim.key == "learned-head")


def test_the_target_is_the_row_sum_of_an_aligned_head():
    config = HeadConfig()
    data = head_graphs(config, 2, 0).to_data_list()[1]
    factorization = NodeFactorization((data.x.double(),), ((0, 0),))
    (head,) = multiply_heads(align((config.beta,), (config.gamma,), factorization, normalize=None), factorization)
    torch.testing.assert_close(head.sum(dim=1) / config.nodes**2, data.y.view(-1).double(), rtol=1e-4, atol=1e-5)


def test_both_networks_have_the_same_number_of_parameters_to_five_percent():
    plain, augmented = (head_network(name, HeadConfig()).num_parameters for name in HEAD_NETWORKS)
    assert 0.95 < plain / augmented <= 1


@pytest.mark.slow
def test_training_lowers_the_error_of_the_target_below_that_of_its_mean():
    config = HeadConfig(seeds=(0,), sizes=(8, 192), test_graphs=64, steps=120, num_layers=2, hidden_channels=24)
    record = train_experiment("learned-head", config)
    small, large = record.mean("GNN + LRGA")
    assert large < small
    assert large < 0.97


@pytest.mark.parametrize(("plain", "augmented", "holds"), [(0.8, 0.6, True), (0.6, 0.8, False)])
def test_lrga_must_have_the_smaller_error_at_the_largest_set(plain, augmented, holds):
    values = {
        "experiment": "learned-head",
        "config": {},
        "seeds": [0],
        "metrics": {
            "x": [8, 64],
            "curves": {"GNN": [[0.95, plain]], "GNN + LRGA": [[0.95, augmented]]},
            "parameters": {"GNN": 100, "GNN + LRGA": 101},
        },
        "seconds": 1.0,
        "environment": {},
    }
    assert JUDGE(TrainingRecord.from_json(values)).holds is holds
