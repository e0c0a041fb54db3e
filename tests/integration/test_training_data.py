"""LRGA + GatedGCN trains on a slice of every data set of the benchmark, through the public interface."""

import math
from pathlib import Path

import pytest

import lrga
from lrga.models.zoo import PAPER_SETS

SHARED = Path(__file__).resolve().parents[2] / "../shared/data"
PREPARED = {"ZINC": "zinc", "MNIST": "superpixels", "CIFAR10": "superpixels", "TSP": "tsp"}
SIZES = {"TSP": (8, 4, 4)}  # graphs of up to 500 nodes


def source_of(dataset):
    """Where the files of a set that is not generated lie beside the checkout."""
    if dataset not in PREPARED:
        return None
    folder = SHARED / PREPARED[dataset]
    if not folder.is_dir():
        pytest.skip(f"no prepared {dataset} in {folder}")
    return str(folder)


def train_slice(dataset, tmp_path, *, sizes, **options):
    """Trains LRGA + GatedGCN at 100K on a slice, at the paper's protocol but for ``options``."""
    config = lrga.paper.paper_config(
        dataset,
        "gatedgcn",
        device="cpu",
        root=str(tmp_path / "data"),
        source=source_of(dataset),
        data_options={"sizes": sizes},
        **options,
    )
    return lrga.training.train(config, tmp_path / "run")


SLOW = {"CIFAR10": pytest.mark.slow}  # as MNIST, from a file twice as large


@pytest.mark.parametrize("dataset", [pytest.param(name, marks=SLOW.get(name, ())) for name in PAPER_SETS])
def test_the_training_loss_falls_on_a_slice_of(dataset, tmp_path):
    sizes = SIZES.get(dataset, (8, 4, 4))
    result = train_slice(dataset, tmp_path, sizes=sizes, max_epochs=2, batch_size=2)
    assert (result.epochs, result.finished) == (2, True)
    assert all(math.isfinite(value) for value in result.last.to_json().values())
    first, last = (record.train_loss for record in result.history)
    assert last < first
    counted = {"PATTERN": 93_254, "CLUSTER": 93_482, "ZINC": 94_457, "MNIST": 93_395, "CIFAR10": 93_485, "TSP": 97_118}
    assert result.parameters == counted[dataset]
