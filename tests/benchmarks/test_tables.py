"""The tables of docs/performance.md are what the records say."""

import importlib
import json

import pytest


@pytest.fixture(scope="module")
def tables():
    return importlib.import_module("tables")


RECORD = {
    "device": "NVIDIA H200", "torch": "2.11", "triton": "3.6", "torch_geometric": "2.8",
    "copy_tb_s": {"memory": 4.15, "cache": 11.0},
    "library_products": {"projection": 210.0, "gradient of the weight": 120.0, "all_three_ms": 1.05},
    "targets": [{"what": "large graph", "wanted": "2.5×", "got": "1.45×", "reached": False}],
    "rows": [
        {"case": "large", "method": "lrga", "precision": "tf32", "launch": "replay", "nodes": 576_289,
         "both_ms": 3.0123, "floor_ms": 0.54, "workspace_mb": 55.4, "times_faster": 1.45,
         "profile": [{"kernel": "gradient_rows", "calls": 3, "us": 812.5}]},
        {"case": "step LRGA + GCN", "method": "PyG", "precision": "tf32", "launch": "eager", "nodes": 7_600,
         "both_ms": 41.8, "floor_ms": 0.3, "times_faster": 1.0},
    ],
}  # fmt: skip


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "speed").mkdir()
    (tmp_path / "speed" / "gpu-h200.json").write_text(json.dumps(RECORD))
    return tmp_path


def test_the_document_is_what_the_records_say(tables):
    text = tables.DOCUMENT.read_text(encoding="utf-8")
    assert text == tables.refreshed(text), "run: python benchmarks/tables.py"


def test_the_document_shows_every_table(tables):
    shown = [match["name"] for match in tables.BLOCK.finditer(tables.DOCUMENT.read_text(encoding="utf-8"))]
    assert sorted(shown) == sorted(tables.TABLES)


def test_numbers_of_a_record_reach_the_table(tables, folder):
    text = "a\n<!-- table: gpu-large -->\nold\n<!-- end -->\nb\n"
    found = tables.refreshed(text, folder)
    assert "| lrga | tf32 | replay | 3.01 | 0.54 | 55 | 1.45 |" in found
    assert "old" not in found
    assert "PyG" not in found
    assert tables.refreshed(found, folder) == found
    assert "| PyG | tf32 | eager | 41.80 | 0.3 | – | 1.00 |" in tables.TABLES["gpu-gcn"](folder)
    assert "not in the record" in tables.TABLES["gpu-small"](folder)


def test_a_missed_target_is_shown_as_missed(tables, folder):
    assert "| large graph | 2.5× | 1.45× | **no** |" in tables.TABLES["gpu-targets"](folder)
    assert "| large, tf32: `gradient_rows` | 3 | 812 |" in tables.TABLES["gpu-profiles"](folder)
    assert "210" in tables.TABLES["gpu-facts"](folder)


def test_without_records_the_command_that_makes_them_is_named(tables, tmp_path):
    assert "benchmarks/gpu.py" in tables.TABLES["gpu-large"](tmp_path)
    assert tables.TABLES["attention-cpu"](tmp_path) == tables.TABLES["hours"](tmp_path) == "No record yet."


def test_an_unknown_table_is_refused(tables, tmp_path):
    with pytest.raises(SystemExit, match="no table 'speed'"):
        tables.refreshed("<!-- table: speed -->\n<!-- end -->", tmp_path)


def test_check_tells_a_stale_document(tables, monkeypatch, tmp_path):
    page = tmp_path / "performance.md"
    page.write_text("<!-- table: attention-cpu -->\nstale\n<!-- end -->\n", encoding="utf-8")
    monkeypatch.setattr(tables, "DOCUMENT", page)
    with pytest.raises(SystemExit, match="not what the records say"):
        tables.main(["--check"])
    tables.main([])
    with pytest.raises(SystemExit) as end:
        tables.main(["--check"])
    assert end.value.code == 0
