"""Files around a release agree with the package: versions, supported Pythons, commands of the workflows."""

import re
import tomllib
from pathlib import Path

import pytest
import yaml

from lrga.version import __version__
from tests.packaging.environments import STATEMENTS, floor

ROOT = Path(__file__).resolve().parents[2]
WORKFLOWS = {path.stem: path for path in (ROOT / ".github" / "workflows").glob("*.yml")}


def test_the_citation_names_the_version_of_the_package():
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text())
    assert citation["version"] == __version__
    assert citation["license"] == "MIT"
    assert citation["preferred-citation"]["authors"][0]["family-names"] == "Puny"


@pytest.mark.parametrize(("workflow", "job"), [("tests", "test"), ("release", "wheel")])
def test_workflows_run_every_supported_python_on_three_systems(workflow, job):
    matrix = yaml.safe_load(WORKFLOWS[workflow].read_text())["jobs"][job]["strategy"]["matrix"]
    supported = re.findall(r'"Programming Language :: Python :: (3\.\d+)"', (ROOT / "pyproject.toml").read_text())
    assert matrix["python"] == supported
    assert {name.split("-")[0] for name in matrix["os"]} == {"ubuntu", "macos", "windows"}


def test_workflows_call_make_targets_that_exist():
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    called = {name for path in WORKFLOWS.values() for name in re.findall(r"- run: make (\S+)", path.read_text())}
    assert called
    assert called <= targets


@pytest.mark.parametrize(
    "path", sorted((ROOT / ".github" / "ISSUE_TEMPLATE").glob("*.yml")), ids=lambda path: path.stem
)
def test_issue_templates_ask_for_something(path):
    template = yaml.safe_load(path.read_text())
    assert template["name"]
    assert template["description"]
    assert any(part["validations"]["required"] for part in template["body"])


def test_every_extra_is_tried_in_an_environment_of_its_own():
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert set(STATEMENTS) == set(settings["optional-dependencies"]) - {"dev"}
    for package in ("torch", "torch-geometric"):
        assert re.fullmatch(r"\d+\.\d+\.\d+", floor(package)), "a version that can be installed"
