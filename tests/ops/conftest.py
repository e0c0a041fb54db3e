"""What tests of several kernels share."""

import pytest
import torch


@pytest.fixture
def poisoned():
    """Memory that is not initialised is filled with NaN: a number that a kernel does not write is seen."""
    before = torch.are_deterministic_algorithms_enabled()
    torch.use_deterministic_algorithms(True, warn_only=True)
    yield
    torch.use_deterministic_algorithms(before)


@pytest.fixture
def without_tf32():
    """Products of float32 are exact; a test may allow TF32 until it ends."""
    before = torch.backends.cuda.matmul.allow_tf32
    torch.backends.cuda.matmul.allow_tf32 = False
    yield
    torch.backends.cuda.matmul.allow_tf32 = before
