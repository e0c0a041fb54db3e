"""An augmented model inside PyTorch's wrappers for several processes, in real processes."""

from pathlib import Path

import pytest

from tests.helpers.processes import run


@pytest.fixture(scope="module")
def reports(tmp_path_factory):
    return run(Path(__file__).with_name("wrapped_ranks.py"), 2, tmp_path_factory.mktemp("wrapped"))


@pytest.mark.parametrize("wrapper", ["DDP", "FSDP", "fully_shard", "fully_shard of each layer"])
def test_a_wrapped_augmented_model_gives_the_values_and_gradients_of_one_process(reports, wrapper):
    for report in reports:
        assert report[wrapper] < 1e-6
        assert "provide_batch" in report[f"{wrapper} without batch"]
