"""The record of where a run was made."""

import json
import re

import torch

from lrga.training.runs.environment import commit, environment
from lrga.version import __version__


def test_versions_and_hardware_are_told_as_json():
    facts = json.loads(json.dumps(environment(torch.device("cpu"))))
    assert facts["lrga"] == __version__
    assert facts["packages"]["torch"].split("+")[0] == torch.__version__.split("+")[0]
    assert facts["cpu_threads"] == torch.get_num_threads()
    assert facts["gpu"] is None
    assert facts["cpu"]


def test_a_commit_is_one_or_none():
    found = commit()
    assert found is None or re.fullmatch(r"[0-9a-f]{40}\+?", found)


def test_a_package_outside_a_repository_has_no_commit(tmp_path, monkeypatch):
    copied = tmp_path / "lrga" / "__init__.py"
    copied.parent.mkdir()
    copied.write_text("")
    monkeypatch.setattr("lrga.training.runs.environment.__file__", str(copied))
    assert commit() is None


def test_a_copy_without_history_may_name_its_commit(monkeypatch):
    monkeypatch.setenv("LRGA_COMMIT", "abc123")
    assert commit() == "abc123"
