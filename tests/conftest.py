"""What all tests share: a fixed random state and a fixed number of threads."""

import pytest
import torch

torch.set_num_threads(2)


@pytest.fixture(autouse=True)
def seed_everything():
    torch.manual_seed(0)
