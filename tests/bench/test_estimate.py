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


def record(
    example, dataset, model, *, seconds, epochs=100, budget="100K", lrga=True, engine="captured", gpu="a GPU", **more
):
    config = paper_config(dataset, model, budget=budget, lrga=lrga, **more)
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
    assert cell.source == "scaled from ZINC, same model"


def test_the_nearest_runs_are_taken(example):
    runs = [record(example, "ZINC", "gatedgcn", seconds=200), record(example, "PATTERN", "gcn", seconds=500, epochs=50)]
    found = {c.dataset: c for c in estimate_hours(cells(model="gcn", budget="100K", lrga=True), runs).cells}
    assert found["PATTERN"].source == "measured"
    assert found["TSP"].source == "scaled from same model"
    assert found["ZINC"].epochs == 100  # its own data set's
    assert found["TSP"].epochs == 100  # of the data set that is as patient
    plain = cells_of("table3")[:1]
    more = [*runs, record(example, "CLUSTER", "gcn", seconds=500, epochs=80)]
    assert estimate_hours(plain, more).cells[0].epochs == 50  # PATTERN's own
    assert estimate_hours(cells(dataset="TSP", budget="100K", model="gcn", lrga=True), more[1:]).cells[0].epochs == 65


def test_the_same_model_comes_before_the_same_network_and_data(example):
    runs = [
        record(example, "ZINC", "gatedgcn", seconds=10, lrga=False),
        record(example, "ZINC", "gatedgcn", seconds=60),
        record(example, "PATTERN", "gcn", seconds=500, lrga=False),
    ]
    found = {(c.dataset, c.model, c.budget): c for c in estimate_hours(cells(), runs).cells}
    small = found["ZINC", "GatedGCN", "100K"]
    large = found["ZINC", "GatedGCN", "500K"]
    assert (small.source, large.source) == ("measured", "scaled from ZINC, same model")
    ratio = [work_of(paper_config("ZINC", "gatedgcn", budget=b, lrga=False)) for b in ("500K", "100K")]
    assert large.seconds_per_epoch == pytest.approx(0.1 * ratio[0] / ratio[1])
    wanted = {
        ("PATTERN", "LRGA + GCN", "100K"): "scaled from PATTERN, gcn",
        ("TSP", "GCN", "100K"): "scaled from same model",
        ("TSP", "LRGA + GCN", "100K"): "scaled from gcn",
        ("PATTERN", "GAT", "100K"): "scaled from PATTERN, plain",
        ("PATTERN", "LRGA + GAT", "100K"): "scaled from PATTERN",
        ("MNIST", "GAT", "100K"): "scaled from all",
    }
    assert {key: found[key].source for key in wanted} == wanted


def test_of_several_runs_the_least_seconds_count(example):
    runs = [record(example, "ZINC", "gcn", seconds=s, epochs=n) for s, n in ((900, 100), (240, 120), (500, 80))]
    (cell,) = estimate_hours(cells(dataset="ZINC", model="gcn", budget="100K", lrga=True), runs).cells
    assert (cell.seconds_per_epoch, cell.epochs) == (2.0, 100)


def test_a_run_that_shared_its_device_is_charged_its_part(example):
    def timed(run, begin, end):
        environment = [{**run.environment[-1], "started": f"2020-06-01T{begin}+0000"}]
        return replace(run, environment=environment, time=f"2020-06-01T{end}+0000")

    wanted = cells(dataset="ZINC", model="gcn", budget="100K", lrga=True)
    run = timed(record(example, "ZINC", "gcn", seconds=600), "10:00:00", "10:10:00")
    other = timed(record(example, "ZINC", "gat", seconds=900), "10:05:00", "10:20:00")
    alone, two = estimate_hours(wanted, [run]), estimate_hours(wanted, [run, other])
    assert (alone.cells[0].seconds_per_epoch, alone.at_a_time, alone.sharing) == (6.0, 1.0, "")
    assert two.cells[0].seconds_per_epoch == pytest.approx(4.5)  # five minutes alone, five with the other
    assert two.at_a_time == pytest.approx(1500 / 1200)
    assert "1.2 at a time" in two.notes[0]
    assert estimate_hours(wanted, [run], beside=[run, other]).cells == two.cells
    elsewhere = replace(other, environment=[{**other.environment[-1], "gpu": "another GPU"}])
    assert estimate_hours(wanted, [run], beside=[run, elsewhere]).cells == alone.cells


def test_a_run_that_averages_norms_afresh_is_no_measure_of_one_that_does_not(example):
    runs = [
        record(example, "ZINC", "gcn", seconds=300),
        record(example, "ZINC", "gcn", seconds=200, recalibrate_norm=20),
    ]
    found = estimate_hours(cells(dataset="ZINC", model="gcn", budget="100K", lrga=True), runs)
    assert (found.cells[0].source, found.cells[0].seconds_per_epoch) == ("measured", 3.0)
    assert found.off is None  # one network


def test_how_far_estimates_are_off_comes_from_the_records(example):
    wanted = cells(dataset="ZINC", model="gcn")
    small, large = (work_of(paper_config("ZINC", "gcn", budget=budget)) for budget in ("100K", "500K"))
    runs = [record(example, "ZINC", "gcn", seconds=100)]
    alone = estimate_hours(wanted, runs)
    assert alone.off is None
    assert "unknown" in alone.notes[-1]
    runs.append(record(example, "ZINC", "gcn", seconds=100 * large / small * 3, budget="500K"))
    two = estimate_hours(wanted, runs)
    assert two.off == pytest.approx(3.0)
    assert two.notes[-1].endswith("are off by at most a factor of 3.0.")
    assert two.to_json()["off_by_at_most"] == two.off
    exact = estimate_hours(
        wanted, [runs[0], record(example, "ZINC", "gcn", seconds=100 * large / small, budget="500K")]
    )
    assert exact.off == pytest.approx(1.0)
    both = estimate_hours(cells(dataset="ZINC", model="gcn", lrga=True), runs)
    assert both.notes[-1] == "Every cell was measured."


def test_data_sets_that_were_not_run_are_as_far_off_as_measured_ones_from_each_other(example):
    wanted = cells(dataset="MNIST", model="gcn", lrga=True)
    works = {name: work_of(paper_config(name, "gcn")) for name in ("ZINC", "PATTERN", "CLUSTER", "MNIST")}
    runs = [record(example, "ZINC", "gcn", seconds=100)]
    alone = estimate_hours([*wanted, *cells(dataset="ZINC", model="gcn")], runs)
    assert alone.off is None
    assert alone.across
    assert "single" in alone.notes[-1]
    for name, slower in (("PATTERN", 4), ("CLUSTER", 6)):
        runs.append(record(example, name, "gcn", seconds=100 * works[name] / works["ZINC"] * slower))
    found = estimate_hours(wanted, runs)
    assert found.cells[0].seconds_per_epoch == pytest.approx(works["MNIST"] / works["ZINC"] * 4)  # the middle one
    assert found.off == pytest.approx(5.0)  # ZINC from the middle of the other two
    assert found.notes[-1] == "Estimates of measured cells from other data sets are off by at most a factor of 5.0."


def test_the_factor_of_the_shipped_records_is_that_of_leaving_each_out():
    records, every = find_records(RESULTS.parent), find_records(RESULTS.parent, every=True)
    found = estimate_hours(cells(), records, beside=every)
    assert found.off is not None
    measured = {(c.dataset, c.model, c.budget): c.seconds_per_epoch for c in found.cells if c.source == "measured"}
    assert len(measured) > 3
    for left_out in cells():
        if (left_out.labels["dataset"], left_out.labels["model"], left_out.labels["budget"]) not in measured:
            continue
        others = [r for r in records if r.config["model"] != left_out.config.to_json()["model"]
                  or r.config["data"]["name"] != left_out.config.data.name]  # fmt: skip
        (again,) = estimate_hours([left_out], others, beside=every).cells
        true = measured[again.dataset, again.model, again.budget]
        assert 1 / found.off - 1e-9 <= again.seconds_per_epoch / true <= found.off + 1e-9


def test_a_run_begun_in_plain_steps_is_not_one_in_captured_steps(example):
    mixed = record(example, "ZINC", "gcn", seconds=100)
    mixed = replace(mixed, environment=[{"gpu": "a GPU", "engine": "plain"}, *mixed.environment])
    (cell,) = cells(dataset="ZINC", model="gcn", budget="100K", lrga=True)
    found = estimate_hours([cell], [mixed, record(example, "ZINC", "gcn", seconds=300)])
    assert (found.engine, found.runs, found.cells[0].seconds_per_epoch) == ("captured", 1, 3.0)
    assert estimate_hours([cell], [mixed]).engine == "plain"


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
    (tmp_path / "paused.json").write_text(json.dumps(replace(example, run="paused", status="time-limited").to_json()))
    assert [r.run for r in find_records(tmp_path)] == [example.run]
    assert {r.run for r in find_records(tmp_path, every=True)} == {example.run, "paused"}


def test_a_folder_without_records_is_refused(tmp_path):
    (tmp_path / "torn").mkdir()
    (tmp_path / "torn" / "torn.json").write_text("{")
    with pytest.raises(DataError, match="none, and 1 other or damaged files"):
        find_records(tmp_path / "torn")
    (tmp_path / "torn" / "torn.json").unlink()
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
