"""Files around a release agree with the package: versions, supported Pythons, commands of the workflows."""

import re
import tomllib
from pathlib import Path

import pytest
import yaml

from lrga.version import __version__
from tests.packaging.environments import STATEMENTS, floor

ROOT = Path(__file__).resolve().parents[2]
README = (ROOT / "README.md").read_text()
WORKFLOWS = {path.stem: path for path in (ROOT / ".github" / "workflows").glob("*.yml")}


def test_the_citation_names_the_version_of_the_package():
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text())
    assert citation["version"] == __version__
    assert f"## [{__version__}] - {citation['date-released']}" in (ROOT / "CHANGELOG.md").read_text()
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


def test_a_release_is_published_only_after_all_other_jobs():
    jobs = yaml.safe_load(WORKFLOWS["release"].read_text())["jobs"]
    assert set(jobs["publish"]["needs"]) == set(jobs) - {"publish"}
    assert jobs["publish"]["permissions"] == {"id-token": "write"}  # trusted publishing
    assert "workflow_call" in yaml.safe_load(WORKFLOWS["tests"].read_text())[True]  # YAML reads the key `on` as true


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


# What the README says is so; its blocks and commands run in test_documents.py.


def test_no_placeholder_is_left():
    for path in (ROOT / "README.md", *(ROOT / "docs").glob("*.md")):
        assert not re.search(r"@@\w+@@|TODO|FIXME", path.read_text()), path


def test_nowhere_but_in_its_table_does_the_readme_claim_a_speed():
    table = re.search(r"<!-- table: gpu-short -->.*?<!-- end -->", README, re.DOTALL)  # compared with the record
    assert table is not None
    assert not re.search(r"[\d.]+ ?(?:×|times)|times (?:faster|as fast)", README.replace(table[0], ""))


def test_the_readme_fits_two_screens_and_shows_and_points_to_what_is_there():
    assert len(README.splitlines()) <= 150
    for target in re.findall(r"\]\(([^)#:]+)\)", README):
        assert (ROOT / target).exists(), target
    for name in ("report", "explorer"):
        assert f"docs/images/{name}.png" in README
