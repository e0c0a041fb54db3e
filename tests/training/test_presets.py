"""The benchmark's table of epochs, patience and batches."""

import pytest

from lrga.training.presets import benchmark_schedule


@pytest.mark.parametrize(
    ("dataset", "epochs", "patience", "batch"),
    [
        ("PATTERN", 1000, 5, 128),
        ("CLUSTER", 1000, 5, 128),
        ("ZINC", 1000, 10, 128),
        ("MNIST", 1000, 10, 128),
        ("CIFAR10", 1000, 10, 128),
        ("TSP", 500, 10, 64),
    ],
)
def test_a_data_set_is_trained_on_as_the_protocol_says(dataset, epochs, patience, batch):
    schedule = benchmark_schedule(dataset)
    assert (schedule.max_epochs, schedule.patience, schedule.batch_size) == (epochs, patience, batch)
    assert (schedule.lr, schedule.lr_factor, schedule.min_lr, schedule.weight_decay) == (1e-3, 0.5, 1e-5, 0.0)
    assert schedule.recalibrate_norm == 0


@pytest.mark.parametrize(
    ("model", "batch"), [("gcn", 64), ("graphsage", 64), ("gatedgcn", 32), ("gat", 128), ("gin", 128)]
)
def test_large_models_have_smaller_batches_of_block_models(model, batch):
    assert benchmark_schedule("cluster", model, budget="500K").batch_size == batch
    assert benchmark_schedule("ZINC", model, budget="500K").batch_size == 128


def test_the_older_preset_has_less_patience_but_on_tsp():
    assert benchmark_schedule("ZINC", preset="2020").patience == 5
    assert benchmark_schedule("TSP", preset="2020").patience == 10
