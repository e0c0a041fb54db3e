"""The tables of the documents are what the records say."""

import json
from functools import partial

import pytest
import tables

UNKNOWN = {"commit": None, "date": None, "load": None}
RECORD = {
    **UNKNOWN, "benchmark": "gpu", "device": "NVIDIA H200", "torch": "2.11", "lrga": "2", "precision": None,
    "settings": {
        "triton": "3.6", "torch_geometric": "2.8", "copy through memory, TB/s": 4.15, "copy through cache, TB/s": 11.0,
        "projection, TFLOP/s": 210.0, "gradient of the weight, TFLOP/s": 120.0, "three products, ms": 1.05,
    },
    "rows": [
        {"case": "large", "method": "lrga", "precision": "tf32", "launch": "replay", "nodes": 576_289,
         "both_ms": 3.0123, "floor_ms": 0.54, "workspace_mb": 75.4,
         "baseline": "authors' arithmetic, eager, tf32", "ratio": 1.45},
        {"case": "step LRGA + GCN", "method": "PyG", "precision": "tf32", "launch": "eager", "nodes": 7_600,
         "both_ms": 41.8, "floor_ms": 0.3, "baseline": "PyG, eager, tf32", "ratio": 1.0},
    ],
    "profiles": [{"case": "large", "precision": "tf32", "kernel": "gradient_rows", "calls": 3, "us": 812.5}],
}  # fmt: skip


def write(folder, name, rows, settings, **facts):
    record = {**RECORD, "device": "D", "torch": "2", "rows": rows, "settings": settings, **facts}
    (folder / "speed").mkdir(exist_ok=True)
    (folder / "speed" / f"{name}.json").write_text(json.dumps(record))


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "speed").mkdir()
    (tmp_path / "speed" / "gpu-h200.json").write_text(json.dumps(RECORD))
    return tmp_path


def test_the_documents_show_every_table_as_the_records_say_and_nothing_by_hand():
    for document in tables.DOCUMENTS:
        text = document.read_text(encoding="utf-8")
        assert text == tables.refreshed(text), "run: python benchmarks/tables.py"
    text = "".join(document.read_text(encoding="utf-8") for document in tables.DOCUMENTS)
    assert sorted(match["name"] for match in tables.BLOCK.finditer(text)) == sorted(tables.TABLES)
    for document in tables.DOCUMENTS:
        assert "nothing else running" not in tables.BLOCK.sub("", document.read_text(encoding="utf-8"))


def test_a_figure_is_drawn_from_its_record_and_its_checksum_follows_the_numbers(tmp_path):
    for name, (source, points, draw, _) in tables.FIGURES.items():
        record = tables.read(source, tables.RECORDS)
        drawn = tables.save_figure(tmp_path / f"{name}.svg", partial(draw, points(record)), width=9.0, height=3.6)
        assert (tables.IMAGES / f"{name}.svg").is_file()
        assert drawn.read_text().startswith("<?xml")
        assert tables.TABLES[f"figure-{name}"](tmp_path) == "No record yet."
    (tmp_path / "speed").mkdir()
    changed = json.loads((tables.RECORDS / "speed" / "scale-h200.json").read_text())
    changed["rows"][0]["seconds"] *= 2
    (tmp_path / "speed" / "scale-h200.json").write_text(json.dumps(changed))
    shown = tables.TABLES["figure-scale"]
    assert shown(tmp_path) != shown(tables.RECORDS)
    assert "../images/scale.svg" in shown(tmp_path)


def test_growth_and_the_share_of_attention_are_shown(tmp_path):
    rows = [
        {"nodes": 10_000, "method": "GCN", "seconds": 0.002, "peak_bytes": 2**20},
        {"nodes": 10_000, "method": "LRGA + GCN", "seconds": 0.005, "peak_bytes": 3 * 2**20, "attention_share": 0.4},
        {"nodes": 100_000, "method": "GCN", "seconds": 0.02, "peak_bytes": 2**21},
        {"nodes": 200_000, "method": "GCN", "seconds": 0.04, "peak_bytes": 2**23},
    ]
    shape = {"layers": 2, "width": 64, "rank": 32, "edges_per_node": 20}
    write(tmp_path, "scale-cpu", [{"case": "step", **row} for row in rows], shape, precision="float32")
    found = tables.TABLES["scale-cpu"](tmp_path)
    assert "| 10,000 | 2.00 | 5.00 | 1.00 | 3.00 | 40% |" in found
    assert "| 100,000 | 20.00 | – | 2.00 | – | – |" in found
    assert "from 100,000 nodes on: GCN 1.00 (memory 2.00)." in found
    assert "benchmarks/scale.py --device cuda" in tables.TABLES["scale-h200"](tmp_path)


def test_the_pipeline_at_full_size_is_shown(tmp_path):
    assert "ogb_pipeline.py" in tables.TABLES["ppa"](tmp_path)
    rows = [
        {"case": "lrga reproduce run", "seconds": 90.0, "peak_bytes": 4 * 2**30, "gpu_peak_bytes": None},
        {"case": "of these training", "seconds": 60.0},
    ]
    sizes = {"nodes": 10, "directed_edges": 40, "parameters": 1234, "epochs": 1}
    write(tmp_path, "ogb-pipeline-h200", rows, {**sizes, "--batch-size": 77})
    write(tmp_path, "ogb-pipeline-cpu", rows, sizes, device="C")
    page = tables.TABLES["ppa"](tmp_path)
    assert page.count("| 90.00 | 4.00 | – |") == 2
    assert page.startswith("C, torch 2: 10 nodes, 40 directed edges, LRGA + GCN of 1,234 parameters.")
    assert "1,234 parameters, `--batch-size 77`." in page


def test_numbers_of_a_record_reach_the_table(folder):
    text = "a\n<!-- table: gpu-large -->\nold\n<!-- end -->\nb\n"
    found = tables.refreshed(text, folder)
    assert "| lrga | tf32 | replay | 3.01 | 0.54 | 75 | 1.45 |" in found
    assert "old" not in found
    assert "PyG" not in found
    assert tables.refreshed(found, folder) == found
    assert "| LRGA + GCN: PyG | tf32 | eager | 41.80 | 0.3 | – | 1.00 |" in tables.TABLES["gpu-steps"](folder)
    assert "not in the record" in tables.TABLES["gpu-small"](folder)
    assert "210" in tables.TABLES["gpu-facts"](folder)


def test_missing_and_foreign_records_and_unknown_tables_are_named(tmp_path):
    assert "benchmarks/gpu.py" in tables.TABLES["gpu-large"](tmp_path)
    assert tables.TABLES["attention-cpu"](tmp_path) == "No record yet."
    write(tmp_path, "gpu-h200", [{"ms": 1.0}], {})
    with pytest.raises(SystemExit, match="is not a valid benchmark record: row 1: it has no case"):
        tables.TABLES["gpu-large"](tmp_path)
    with pytest.raises(SystemExit, match="got 'speed'"):
        tables.refreshed("<!-- table: speed -->\n<!-- end -->", tmp_path)


def test_check_tells_a_stale_document(monkeypatch, tmp_path):
    page = tmp_path / "performance.md"
    page.write_text("<!-- table: attention-cpu -->\nstale\n<!-- end -->\n", encoding="utf-8")
    monkeypatch.setattr(tables, "DOCUMENTS", (page,))
    with pytest.raises(SystemExit, match="differs from the records"):
        tables.main(["--check"])
    tables.main([])
    assert "stale" not in page.read_text(encoding="utf-8")
    tables.main(["--check"])  # says nothing now


TIMES = {
    ("step LRGA + GCN", "lrga", "eager"): 25.0, ("step LRGA + GCN", "lrga", "replay"): 2.0,
    ("step LRGA + GCN", "PyG", "eager"): 50.0, ("large", "lrga", "eager"): 4.0, ("large", "lrga", "replay"): 2.0,
    ("large", "authors' arithmetic", "eager"): 6.0, ("large", "authors' arithmetic", "replay"): 5.0,
    ("large", "PyG SGFormer", "eager"): 20.0, ("small", "lrga", "replay"): 0.1, ("small", "padded LRGA", "eager"): 4.0,
    ("step LRGA + GatedGCN", "lrga", "replay"): 8.0, ("step LRGA + GatedGCN", "PyG", "eager"): 80.0,
}  # fmt: skip


def test_the_readme_names_both_launches_of_every_row_and_shows_our_eager_time():
    names = ("case", "method", "launch", "both_ms")
    rows = [dict(zip(names, (*key, ms), strict=True), precision="tf32") for key, ms in TIMES.items()]
    shown = tables.gpu_short({**RECORD, "rows": rows})
    heading, _, *rows = (line.strip("| ").split(" | ") for line in shown.splitlines() if line.startswith("|"))
    assert heading[1:] == ["baseline, eager", "baseline, replayed", "lrga, eager", "lrga, replayed", "times faster"]
    cells = {row[1]: row[2:] for row in reversed(rows)}
    assert len(rows) == 5
    assert cells["plain PyTorch and PyG"] == ["50.00", "–", "25.00", "2.00", "2.0× eager, 25.0× replayed"]
    assert cells["authors' arithmetic"] == ["6.00", "5.00", "4.00", "2.00", "1.5× eager, 3.0× replayed"]
    assert cells["PyG SGFormer"] == ["20.00", "–", "4.00", "2.00", "5.0× eager, 10.0× replayed"]
    assert cells["padded LRGA"] == ["4.00", "–", "–", "0.1", "40.0× replayed"]  # of a record without the eager time


LOAD = {"average": 0.1, "cores": 16, "gpu": None}
QUIET_GPU = {"utilization_percent": 0, "processes": 0}


@pytest.mark.parametrize(
    ("record", "said"),
    [
        (UNKNOWN, "Not recorded: commit, date, load."),
        ({**UNKNOWN, "load": {**LOAD, "average": 0.98}}, "Record: load average 0.98. Not recorded: commit, date."),
        (
            {"commit": "abc123", "date": "2026-11-16T19:00:00+00:00", "load": {**LOAD, "gpu": QUIET_GPU}},
            "Record: commit abc123, date 2026-11-16, load average 0.10, GPU load 0 %, other GPU processes: 0, "
            "nothing else running.",
        ),
    ],
)
def test_a_table_says_how_its_record_was_made(record, said):
    assert tables.conditions(record) == said


@pytest.mark.parametrize(
    ("record", "quiet"),
    [
        ({"load": None}, False),
        ({"load": {"average": 0.0, "cores": None, "gpu": None}}, False),  # not known when it was measured
        ({"load": LOAD}, True),
        ({"load": {**LOAD, "average": 1.7}}, False),
        ({"load": {**LOAD, "average": None}}, False),
        ({"load": {**LOAD, "gpu": QUIET_GPU}}, True),
        ({"load": {**LOAD, "gpu": {**QUIET_GPU, "processes": 1}}}, False),
        ({"load": {**LOAD, "gpu": {**QUIET_GPU, "utilization_percent": 40}}}, False),
    ],
)
def test_nothing_else_running_is_said_only_where_the_load_shows_it(record, quiet):
    assert tables.is_quiet(record) is quiet
    assert ("nothing else running" in tables.conditions({**UNKNOWN, **record})) is quiet
