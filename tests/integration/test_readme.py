"""What the README says is so; its blocks and commands run in test_documents.py."""

import json
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


def test_the_speeds_are_those_of_the_records():
    record = json.loads((ROOT / "reproduction" / "results" / "speed" / "attention-cpu.json").read_text())
    for method in ("padded LRGA", "authors' arithmetic", "PyG Performer", "PyG SGFormer", "MultiheadAttention"):
        (line,) = re.findall(rf"^\| {re.escape(method)} \|.*$", README, re.MULTILINE)
        for cell, case in zip(line.split("|")[2:5], ("uniform", "skewed", "large"), strict=True):
            (row,) = (r for r in record["rows"] if (r["case"], r["method"]) == (case, method))
            expected = f"{row['ratio']:.1f}×" if row["skipped"] is None else None
            assert cell.strip() == expected or (expected is None and cell.strip() in ("–", "out of memory"))


def test_nowhere_else_does_the_readme_claim_a_speed():
    rest = README
    for made in (r"\| padded LRGA .*?\n\n", r"<!-- table: gpu-short -->.*?<!-- end -->"):  # each compared with records
        table = re.search(made, rest, re.DOTALL)
        assert table is not None
        rest = rest.replace(table[0], "")
    assert not re.search(r"[\d.]+ ?(?:×|times)|times (?:faster|as fast)", rest)


def test_the_screenshots_are_shown():
    for name in ("report", "explorer"):
        assert f"docs/images/{name}.png" in README
