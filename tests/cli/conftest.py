"""The command as its entry point runs it, without the seconds that a process of its own takes to start."""

import sys
from types import SimpleNamespace

import pytest

from lrga.cli.main import run
from tests.helpers.pages import trained  # noqa: F401


@pytest.fixture
def entry_point(monkeypatch, capfd):
    """Calls ``lrga …``: exit code, stdout and stderr."""

    def call(*arguments):
        monkeypatch.setattr(sys, "argv", ["lrga", *map(str, arguments)])
        capfd.readouterr()
        code = 0
        try:
            run()
        except SystemExit as end:
            code = end.code or 0
        out, err = capfd.readouterr()
        return SimpleNamespace(returncode=code, stdout=out, stderr=err)

    return call


@pytest.fixture
def places(tmp_path):
    """Options for the folders of runs and data."""
    return ["--output", str(tmp_path / "runs"), "--data-root", str(tmp_path / "data")]
