"""Hours are those measured, or scaled by work from the nearest runs."""

import json
from dataclasses import replace
from pathlib import Path

import pytest

from lrga.bench.estimate import estimate_hours, find_records, work_of
from lrga.bench.protocols import cells_of, paper_config
from lrga.bench.records import read_record
from lrga.errors import DataError, OptionError

RESULTS = Path(__file__).resolve().parents[2] / "results" / "table1"


@pytest.fixture(scope="module")
def example():
    return read_record(next(iter(sorted(RESULTS.glob("cluster-lrga-gcn-100k*.json")))))


def record(example, dataset, model, *, seconds, epochs=100, budget="100K", lrga=True, engine="captured", gpu="a GPU"):
    config = paper_config(dataset, model, budget=budget, lrga=lrga)
    return replace(
        example,
        run=f"{dataset}-{model}-{budget}-{lrga}-{seconds}",
        config=config.to_json(),
        epochs=epochs,
        seconds=seconds,
        environment=[{"gpu": gpu, "engine": engine}],
    )


def cells(**wanted):
    return cells_of("table1", **wanted)


def test_a_cell_that_was_run_has_its_own_seconds(example):
    runs = [record(example, "ZINC", "gatedgcn", seconds=200, epochs=100)]
    (cell,) = estimate_hours(cells(dataset="ZINC", model="gatedgcn", budget="100K", lrga=True), runs).cells
    assert (cell.source, cell.seconds_per_epoch, cell.epochs, cell.seeds) == ("measured", 2.0, 100, 4)
    assert cell.hours == pytest.approx(4 * 200 / 3600)


def test_other_cells_are_scaled_by_their_work(example):
    runs = [record(example, "ZINC", "gatedgcn", seconds=200)]
    (cell,) = estimate_hours(cells(dataset="ZINC", model="gatedgcn", budget="500K", lrga=True), runs).cells
    ratio = work_of(paper_config("ZINC", "gatedgcn", budget="500K")) / work_of(paper_config("ZINC", "gatedgcn"))
    assert ratio > 2
    assert cell.seconds_per_epoch == pytest.approx(2 * ratio)
    assert cell.source == "scaled from ZINC, gatedgcn"


def test_the_nearest_runs_are_taken(example):
    runs = [record(example, "ZINC", "gatedgcn", seconds=200), record(example, "PATTERN", "gcn", seconds=500, epochs=50)]
    found = {c.dataset: c for c in estimate_hours(cells(model="gcn", budget="100K", lrga=True), runs).cells}
    assert found["PATTERN"].source == "measured"
    assert found["TSP"].source == "scaled from gcn"
    assert found["ZINC"].epochs == 100  # its own data set's
    assert found["TSP"].epochs == 75  # of all


def test_captured_runs_of_one_device_are_preferred(example):
    runs = [
        record(example, "ZINC", "gcn", seconds=900, engine="plain"),
        record(example, "ZINC", "gcn", seconds=800, engine="plain", budget="500K"),
        record(example, "ZINC", "gcn", seconds=100),
    ]
    found = estimate_hours(cells(dataset="ZINC", model="gcn", budget="100K", lrga=True), runs)
    assert (found.engine, found.device, found.cells[0].seconds_per_epoch) == ("captured", "a GPU", 1.0)


def test_more_of_anything_is_more_work():
    plain = work_of(paper_config("CLUSTER", "gcn"))
    assert work_of(paper_config("CLUSTER", "gatedgcn")) > plain
    assert work_of(paper_config("CLUSTER", "gcn", budget="500K")) > plain
    assert work_of(paper_config("PATTERN", "gcn")) > plain
    assert work_of(paper_config("ZINC", "gcn")) < plain


def test_records_are_found_among_other_files(tmp_path, example):
    (tmp_path / "a").mkdir()
    (tmp_path / "a" / "run.json").write_text(json.dumps(example.to_json()))
    (tmp_path / "speed.json").write_text('{"rows": []}')
    (tmp_path / "torn.json").write_text("{")
    assert [r.run for r in find_records(tmp_path)] == [example.run]


def test_a_folder_without_records_is_refused(tmp_path):
    for place in (tmp_path, tmp_path / "nowhere"):
        with pytest.raises(DataError, match="records of finished runs"):
            find_records(place)


def test_link_prediction_is_refused(example, tmp_path):
    (tmp_path / "ddi.json").write_text(next((RESULTS.parent / "table2").glob("*.json")).read_text())
    with pytest.raises(DataError, match="link prediction alone"):
        find_records(tmp_path)
    with pytest.raises(OptionError, match="link prediction"):
        estimate_hours(cells_of("table2", dataset="ogbl-ddi"), [example])


def test_the_whole_table_from_the_shipped_records_fits_a_page():
    estimate = estimate_hours(cells(), find_records(RESULTS))
    text = estimate.to_text()
    assert len(estimate.cells) == len(cells())
    assert max(map(len, text.splitlines())) <= 100
    assert f"{estimate.hours:.1f} hours in all" in text
    assert json.dumps(estimate.to_json())
