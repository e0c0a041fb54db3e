"""One thread: the matrices of these tests are small."""

import pytest


@pytest.fixture(autouse=True)
def small_matrices(one_thread):
    pass
