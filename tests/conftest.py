"""What all tests share: a fixed random state and a fixed number of threads."""

import os

# Before torch is loaded: threads that spin while they wait for each other are many times slower on a busy machine.
os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
# `make test` runs two processes of tests side by side (pytest-xdist): together as many threads as one process has.
# In the environment, so that processes started by tests add in the same order and end bit-equal.
THREADS = 1 if "PYTEST_XDIST_WORKER" in os.environ else 2
os.environ["OMP_NUM_THREADS"] = str(THREADS)

import pytest
import torch

from tests.helpers.browser import browser  # noqa: F401 - one for all tests: a process cannot start a second

# Before Triton is loaded: without a GPU its kernels are tried in its interpreter.
if not torch.cuda.is_available():
    os.environ.setdefault("TRITON_INTERPRET", "1")

torch.set_num_threads(THREADS)
os.fsync = lambda file: None  # no test cuts the power: waiting for the disk is an eighth of a short run


@pytest.fixture(autouse=True)
def seed_everything():
    torch.manual_seed(0)
