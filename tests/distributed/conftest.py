"""One start of real processes for all tests of this folder, whichever worker runs them."""

import json
import os
from pathlib import Path

import pytest
import torch

from lrga.distributed import partition_graph
from lrga.io.lock import FolderLock
from lrga.io.progress import silent
from tests.helpers.processes import run


@pytest.fixture
def ring():
    """Three nodes in a ring, all of them of one part."""
    return partition_graph(torch.tensor([[0, 1, 2], [1, 2, 0]]), 3)


@pytest.fixture(scope="session")
def ranks(tmp_path_factory):
    """What each of three ranks found."""
    base = tmp_path_factory.getbasetemp()
    folder = (base.parent if "PYTEST_XDIST_WORKER" in os.environ else base) / "three-ranks"
    reports = folder / "reports.json"
    with FolderLock(folder, wait=silent):
        if not reports.exists():
            reports.write_text(json.dumps(run(Path(__file__).with_name("ranks.py"), 3, folder)))
    return json.loads(reports.read_text())
