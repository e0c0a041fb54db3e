"""One start of four real processes for all tests of this folder, whichever worker runs them: it costs a minute."""

import importlib.util
import json
import os
from pathlib import Path

import pytest

from lrga.io.lock import FolderLock
from lrga.io.progress import silent


def _load(name):
    spec = importlib.util.spec_from_file_location(name, Path(__file__).with_name(f"{name}.py"))
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="session")
def launch():
    """The module that starts processes."""
    return _load("launch")


@pytest.fixture(scope="session")
def ranks(launch, tmp_path_factory):
    """What each of four ranks found; groups of 1, 2 and 3 of them are among the checks."""
    names = (
        "collectives",
        "norm",
        "attention",
        "models",
        "some fifty",
        "variants",
        "traffic",
        "no_halo",
        "links",
        "link traffic",
        "augmented",
        "disagreement",
    )
    base = tmp_path_factory.getbasetemp()
    folder = (base.parent if "PYTEST_XDIST_WORKER" in os.environ else base) / "four-ranks"
    reports = folder / "reports.json"
    with FolderLock(folder, wait=silent):
        if not reports.exists():
            reports.write_text(json.dumps(launch.run("ranks.py", 4, folder, *names)))
    return json.loads(reports.read_text())
