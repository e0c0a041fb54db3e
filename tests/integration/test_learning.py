"""Every data set is learned from: the public interface on a slice of it, and the numbers move the right way."""

import math
from pathlib import Path

import pytest

import lrga
from lrga.errors import DataError
from lrga.models.zoo import PAPER_SETS
from lrga.training import train
from lrga.training.presets import make_config

pytestmark = pytest.mark.usefixtures("one_thread")
SHARED = Path(__file__).resolve().parents[2] / "../shared/data"
PREPARED = {"ZINC": "zinc", "MNIST": "superpixels", "CIFAR10": "superpixels", "TSP": "tsp"}
COUNTS = {"PATTERN": 93_254, "CLUSTER": 93_482, "ZINC": 94_457, "MNIST": 93_395, "CIFAR10": 93_485, "TSP": 97_118}
SLOW = {"CIFAR10": pytest.mark.slow}  # as MNIST, from a file twice as large


def source_of(dataset):
    """Where the files of a set that is not generated lie beside the checkout."""
    if dataset not in PREPARED:
        return None
    folder = SHARED / PREPARED[dataset]
    if not folder.is_dir():
        pytest.skip(f"no prepared {dataset} in {folder}")
    return str(folder)


def run(dataset, tmp_path, *, sizes, **options):
    options = {"data_options": {"sizes": sizes}, "root": str(tmp_path / "data"), "device": "cpu", "seed": 41} | options
    return train(make_config(dataset, **options), tmp_path / "run").history


@pytest.mark.parametrize("dataset", [pytest.param(name, marks=SLOW.get(name, ())) for name in PAPER_SETS])
def test_the_training_loss_falls_on_a_slice_of(dataset, tmp_path):
    """LRGA + GatedGCN at 100K, at the paper's protocol but for what makes it short."""
    options = {"source": source_of(dataset), "data_options": {"sizes": (8, 4, 4)}, "max_epochs": 2, "batch_size": 2}
    config = lrga.paper.paper_config(dataset, "gatedgcn", device="cpu", root=str(tmp_path / "data"), **options)
    result = lrga.training.train(config, tmp_path / "run")
    assert (result.epochs, result.finished, result.parameters) == (2, True, COUNTS[dataset])
    assert all(math.isfinite(value) for value in result.last.to_json().values())
    first, last = (record.train_loss for record in result.history)
    assert last < first


@pytest.mark.slow  # the test above trains on smaller slices
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


def test_a_source_without_the_files_is_refused(tmp_path):
    with pytest.raises((DataError, FileNotFoundError), match=r"train\.pickle"):
        run("ZINC", tmp_path, source=str(tmp_path), sizes=(8, 4, 4))
