"""Every data set is learned from: a few epochs on a slice of it, and the numbers move the right way."""

from pathlib import Path

import pytest
import torch

from lrga.errors import DataError, MissingDependencyError
from lrga.training import train
from lrga.training.presets import make_config

SHARED = Path(__file__).resolve().parents[2] / "../shared/data"
PREPARED = {"ZINC": "zinc", "MNIST": "superpixels", "CIFAR10": "superpixels", "TSP": "tsp"}


@pytest.fixture(autouse=True)
def one_thread():
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


def source_of(dataset):
    folder = SHARED / PREPARED[dataset]
    if not folder.is_dir():
        pytest.skip(f"the prepared files of {dataset} are not beside this checkout")
    return str(folder)


def run(dataset, tmp_path, **options):
    sizes = options.pop("sizes")
    config = make_config(
        dataset, data_options={"sizes": sizes}, root=str(tmp_path / "data"), device="cpu", seed=41, **options
    )
    return train(config, tmp_path / "run").history


@pytest.mark.slow  # test_training_data.py trains on smaller slices
def test_lrga_gatedgcn_of_the_100k_budget_learns_zinc(tmp_path):
    history = run(
        "ZINC", tmp_path, source=source_of("ZINC"), model="gatedgcn", budget="100k", sizes=(800, 200, 200),
        batch_size=32, max_epochs=3,
    )  # fmt: skip
    train_errors = [record.train_metric for record in history]
    assert train_errors == sorted(train_errors, reverse=True)
    assert train_errors[-1] < 0.75 * train_errors[0]
    assert history[-1].test_metric < history[0].test_metric


@pytest.mark.parametrize("dataset", ["PATTERN", "CLUSTER"])
def test_generated_block_models_are_learned_from(tmp_path, dataset):
    history = run(dataset, tmp_path, sizes=(96, 16, 16), hidden=24, layers=2, batch_size=8, max_epochs=5, lr=5e-3,
                  recalibrate_norm=5)  # fmt: skip
    assert history[-1].train_loss < 0.97 * history[0].train_loss
    assert history[-1].val_metric > history[0].val_metric


@pytest.mark.slow
@pytest.mark.parametrize("dataset", ["MNIST", "CIFAR10", "TSP"])
def test_slices_of_prepared_data_are_learned_from(tmp_path, dataset):
    sizes = (32, 8, 8) if dataset == "TSP" else (192, 32, 32)
    try:
        history = run(dataset, tmp_path, source=source_of(dataset), sizes=sizes, hidden=24, layers=2, batch_size=8,
                      max_epochs=4, lr=5e-3)  # fmt: skip
    except MissingDependencyError as error:
        pytest.skip(f"an extra is not installed: {error}")
    assert history[-1].train_loss < 0.97 * history[0].train_loss


def test_a_source_without_the_files_is_refused(tmp_path):
    with pytest.raises((DataError, FileNotFoundError), match=r"zinc12k\.npz"):
        run("ZINC", tmp_path, source=str(tmp_path), sizes=(8, 4, 4))
