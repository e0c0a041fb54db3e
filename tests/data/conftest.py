"""What the tests of data share."""

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))
from data_files import make_ogb


@pytest.fixture
def ogb_folder(tmp_path):
    """Makes a set: ``ogb_folder("ogbl-ppa")`` is its folder."""
    return lambda name, **options: make_ogb(tmp_path / name, name, **options)
