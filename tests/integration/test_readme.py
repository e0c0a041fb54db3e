"""What the README says is so; its blocks and commands run in test_documents.py."""

import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
README = (ROOT / "README.md").read_text()


def test_the_files_it_points_to_are_there():
    for target in re.findall(r"\]\(([^)#:]+)\)", README):
        assert (ROOT / target).exists(), target


def test_no_placeholder_is_left():
    for path in (ROOT / "README.md", *(ROOT / "docs").glob("*.md")):
        assert not re.search(r"@@\w+@@|TODO|FIXME", path.read_text()), path


def test_nowhere_but_in_its_table_does_the_readme_claim_a_speed():
    table = re.search(r"<!-- table: gpu-short -->.*?<!-- end -->", README, re.DOTALL)  # compared with the record
    assert table is not None
    assert not re.search(r"[\d.]+ ?(?:×|times)|times (?:faster|as fast)", README.replace(table[0], ""))


def test_it_fits_two_screens():
    assert len(README.splitlines()) <= 150


def test_the_screenshots_are_shown():
    for name in ("report", "explorer"):
        assert f"docs/images/{name}.png" in README
