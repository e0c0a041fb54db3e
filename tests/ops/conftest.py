"""What tests of several kernels share."""

import pytest
import torch


@pytest.fixture
def poisoned():
    """Memory that is not initialised is filled with NaN: a number that a kernel does not write is seen."""
    torch.use_deterministic_algorithms(True, warn_only=True)
    yield
    torch.use_deterministic_algorithms(False)
