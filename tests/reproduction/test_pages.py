"""Generated pages and tables say what the records under reproduction/results/ say."""

import re
from functools import cache
from pathlib import Path

import pytest

from lrga.experiments import loading
from lrga.report import sources
from reproduction import make_pages

ROOT = Path(__file__).resolve().parents[2]
RESULTS = ROOT / "docs" / "results" / "index.md"


@pytest.fixture(scope="module")
def maker():
    """Of all pages and tables, the records are read once."""
    read = cache(loading.collect)
    with pytest.MonkeyPatch.context() as patch:
        for module in (loading, sources):
            patch.setattr(module, "collect", lambda paths, say=None: read(tuple(map(str, paths))))
        yield make_pages


def test_pages_and_csv_files_are_what_the_records_say(maker):
    made = maker.contents(draw=False)
    assert len(made) == len(maker.PAGES) + len(maker.CSV)
    stale = [str(path) for path, text in made.items() if path.read_text(encoding="utf-8") != text]
    assert stale == [], "make reproduction-docs"


def test_a_number_that_was_typed_in_is_noticed(maker):
    part = re.search(r"<!-- begin lrga reproduce table table2.*?<!-- end -->", RESULTS.read_text("utf-8"), re.DOTALL)[0]
    typed = re.sub(r"\| 0\.\d+ ± ", "| 0.999 ± ", part, count=1)
    assert "0.999" in typed
    assert maker.refreshed(typed, RESULTS, draw=False) == part


def test_a_picture_that_is_not_the_one_drawn_is_noticed(maker):
    part = re.search(r"<!-- begin lrga plot rank.*?<!-- end -->", RESULTS.read_text(encoding="utf-8"), re.DOTALL)[0]
    other = part.replace("rank.svg", "layer.svg")
    drawn = re.search("sha256 (\\w+) -->", maker.refreshed(other, RESULTS, draw=False)).group(1)
    assert drawn not in part


def test_cells_of_a_grid_are_marked_by_their_distance_from_the_published_number(maker):
    row = {"mean": 70.0, "published": {"mean": 71.0}, "metric": "accuracy (%)", "difference": -1.0}
    assert maker.cell(row | {"standard_errors": -1.9}) == '<span class="near">70.00</span> (71.00)'
    assert 'class="worse">70.00 ▼' in maker.cell(row | {"standard_errors": -2.1})
    error = {"mean": 0.3, "published": {"mean": 0.4}, "metric": "MAE", "difference": -0.1, "standard_errors": -5.0}
    assert maker.cell(error) == '<span class="better">0.300 ▲</span> (0.400)'
    assert 'class="missing"' in maker.cell(row | {"mean": None})


def test_numbers_in_the_findings_are_in_the_tables():
    text = RESULTS.read_text(encoding="utf-8")
    findings = re.search(r"## Findings\n(.*?)\n## ", text, re.DOTALL)[1]
    tables = "".join((ROOT / "docs" / "tables" / f"{name}.csv").read_text() for name in ("rank-2022", "table1-2022"))
    known = set(re.findall(r"\d+\.\d+", text.replace(findings, "")))
    known |= {f"{float(value):.2f}" for value in re.findall(r"\d+\.\d+", tables)}
    numbers = re.findall(r"\d+\.\d+", findings)
    assert len(numbers) >= 10
    assert [number for number in numbers if number not in known] == []


def test_pictures_are_small():
    for name in ("learning-curves", "rank", "pairs", "ablation-heads", "ablation-epochs"):
        assert 5_000 < (ROOT / "docs" / "images" / f"{name}.svg").stat().st_size < 400_000


def test_landed_records_are_sound_and_small():
    landed = loading.load_runs([ROOT / "reproduction" / "results"])
    assert len(landed) >= 8
    for entry in landed:
        assert Path(entry.place).name.startswith(entry.record.run)
        assert Path(entry.place).stat().st_size < 60_000
        assert entry.record.data.get("sha256")
        assert entry.record.environment[-1].get("commit")
