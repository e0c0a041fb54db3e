"""An augmented model inside PyTorch's wrappers for several processes, in real processes."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest


@pytest.fixture(scope="module")
def reports(tmp_path_factory):
    folder = tmp_path_factory.mktemp("wrapped")
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2"]
    script = Path(__file__).with_name("wrapped_ranks.py")
    environment = os.environ | {"OMP_NUM_THREADS": "1"}
    subprocess.run([*command, str(script), str(folder)], check=True, timeout=300, env=environment)
    return [json.loads((folder / f"{rank}.json").read_text()) for rank in range(2)]


@pytest.mark.parametrize("wrapper", ["DDP", "FSDP", "fully_shard", "fully_shard of each layer"])
def test_a_wrapped_augmented_model_gives_the_values_and_gradients_of_one_process(reports, wrapper):
    for report in reports:
        assert report[wrapper] < 1e-6
        assert "provide_batch" in report[f"{wrapper} without batch"]
