"""docs/reproduction.md and the README say what the records under reproduction/results/ say."""

import re
from pathlib import Path

import pytest

from lrga.experiments.loading import load_runs
from reproduction import make_pages

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs" / "reproduction.md"


@pytest.fixture(scope="module")
def maker():
    return make_pages


@pytest.mark.parametrize("name", ["docs/reproduction.md", "docs/data-sets.md", "README.md"])
def test_the_page_is_what_the_records_say(name, maker):
    page = ROOT / name
    text = page.read_text(encoding="utf-8")
    assert maker.refreshed(text, page, draw=False) == text, "make reproduction-docs"


def test_a_number_that_was_typed_in_is_noticed(maker):
    page = ROOT / "docs" / "reproduction.md"
    begin = "<!-- begin lrga reproduce table table1 reproduction/results --markdown -->"
    table = re.search(rf"{begin}.*?<!-- end -->", page.read_text(encoding="utf-8"), re.DOTALL).group()
    typed = re.sub(r"\| \d\d\.\d\d ± ", "| 99.99 ± ", table, count=1)
    assert "99.99" in typed
    assert maker.refreshed(typed, page, draw=False) == table


def test_a_picture_that_is_not_the_one_drawn_is_noticed(maker):
    part = re.search(r"<!-- begin lrga plot rank.*?<!-- end -->", PAGE.read_text(encoding="utf-8"), re.DOTALL).group()
    assert maker.refreshed(part, PAGE, draw=False) == part
    other = part.replace("rank.svg", "layer.svg")
    drawn = re.search("sha256 (\\w+) -->", maker.refreshed(other, PAGE, draw=False)).group(1)
    assert drawn not in part


def test_every_experiment_has_its_part_and_pictures_are_small():
    text = (ROOT / "docs" / "reproduction.md").read_text(encoding="utf-8")
    for name, more in (
        ("table1", ""),
        ("table2", ""),
        ("table3", ""),
        ("table3", "--plain "),
        ("rank", ""),
        ("ablation", ""),
    ):
        assert f"<!-- begin lrga reproduce table {name} reproduction/results {more}--markdown -->" in text
    for picture in ("learning-curves.svg", "rank.svg"):
        path = ROOT / "docs" / "images" / picture
        assert 5_000 < path.stat().st_size < 400_000
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    assert "<!-- begin lrga reproduce table table1 reproduction/results --budget 500k --markdown --done -->" in readme


def test_landed_records_are_sound_and_small():
    landed = load_runs([ROOT / "reproduction" / "results"])
    assert len(landed) >= 8
    for entry in landed:
        assert Path(entry.place).name.startswith(entry.record.run)
        assert Path(entry.place).stat().st_size < 60_000
        assert entry.record.data.get("sha256")
        assert entry.record.environment[-1].get("commit")
