"""A campaign small enough for a test: eight graphs, one narrow layer, one epoch."""

import pytest

TINY = ["--sizes", "8,4,4", "--epochs", "1", "--batch-size", "4", "--device", "cpu", "--set", "hidden=8"]
TINY += ["--set", "layers=1"]


@pytest.fixture(scope="session")
def data_root(tmp_path_factory):
    return str(tmp_path_factory.mktemp("data"))


@pytest.fixture
def tiny(data_root):
    """Options of a run that takes a few milliseconds."""
    return {
        "hidden": 8,
        "layers": 1,
        "max_epochs": 1,
        "batch_size": 4,
        "device": "cpu",
        "root": data_root,
        "data_options": {"sizes": (8, 4, 4)},
    }
