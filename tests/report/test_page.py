"""The page of runs, as a file."""

import json
import re
from dataclasses import replace

import pytest

from lrga.errors import DataError
from lrga.experiments.cell import Cell
from lrga.experiments.loading import collect, grouped_rows, load_runs, table_of_runs
from lrga.report.page import write_report
from lrga.speed.record import make_record as make_benchmark
from lrga.training.runs.environment import environment


def data_of(page):
    return json.loads(re.search(r'<script type="application/json" id="data">(.*?)</script>', page)[1])


def test_results_curves_configurations_and_failures_are_in_it(trained, make_record, write_records, tmp_path):
    folder = write_records(
        make_record("good", test=68.123), make_record("bad", seed=2, status="diverged", reason="loss was NaN")
    )
    speed = make_benchmark("attention", [{"case": "lrga", "ms": 1.5}], device="my CPU")
    (folder / "speed.json").write_text(json.dumps(speed))
    (folder / "broken.json").write_text("{")
    found = write_report([folder, trained], tmp_path / "page.html", title="My page")
    page = (tmp_path / "page.html").read_text()
    assert (len(found.runs), len(found.others), len(found.problems)) == (3, 1, 1)
    for text in ("My page", "68.12", "68.44 ± 0.16", "-0.32", "loss was NaN", "broken.json", "my CPU", "max_epochs"):
        assert text in page, text
    data = data_of(page)
    assert {run["name"] for run in data["runs"]} == {"good", "bad", "cluster-run"}
    assert set(data["charts"]) == {"result-0"}


def test_two_hundred_runs_stay_below_seven_megabytes(make_record, write_records, tmp_path):
    import torch

    where = [{"started": f"2026-01-01T00:00:{i:02d}", **environment(torch.device("cpu"))} for i in range(3)]
    records = [
        make_record(f"run-{dataset}-{seed}", dataset=dataset, seed=seed, epochs=200, test=60.12345678 + seed / 7,
                    environment=where)
        for dataset in ("CLUSTER", "PATTERN", "MNIST", "CIFAR10") for seed in range(50)
    ]  # fmt: skip
    found = write_report([write_records(*records)], tmp_path / "page.html")
    assert len(found.runs) == 200
    assert (tmp_path / "page.html").stat().st_size < 7_000_000
    curves = data_of((tmp_path / "page.html").read_text())["runs"]
    assert all((run["curve"]["epoch"][0], run["curve"]["epoch"][-1]) == (1, 200) for run in curves)


def test_logged_values_can_be_chosen_and_have_gaps(make_record, write_records, tmp_path):
    record = make_record("logs", epochs=3)
    record = replace(record, curve=record.curve | {"<norm>": [0.5, None, 0.25]})
    write_report([write_records(record)], tmp_path / "page.html")
    page = (tmp_path / "page.html").read_text()
    assert '<option value="logged:&lt;norm&gt;">&lt;norm&gt;</option>' in page
    assert data_of(page)["runs"][0]["curve"]["<norm>"] == [0.5, None, 0.25]


def test_two_runs_of_one_seed_count_once_and_as_in_the_table_of_an_experiment(make_record, write_records, tmp_path):
    again = replace(make_record("a-again", test=50.0), time="2026-02-01T00:00:00+0000")
    folder = write_records(again, make_record("first", test=60.0), make_record("other", test=62.0, seed=95))
    cell = Cell(labels={}, config=load_runs([folder])[0].config, seeds=(41,))
    (row,) = table_of_runs("", [cell], load_runs([folder])).rows
    (same,) = grouped_rows(collect([folder]).runs)
    assert row.spread() == same.spread()
    assert row.spread().mean == 61.0
    write_report([folder], tmp_path / "page.html")
    assert re.search(r">61.00 ± 1.41</td><td[^>]*>2</td>", (tmp_path / "page.html").read_text())


@pytest.mark.parametrize("name", ["<script>alert(1)</script>", "\"'`& 日本語 κ", "a\\b\nc {{ 7*7 }}"])
def test_names_stay_text(make_record, write_records, tmp_path, name):
    record = make_record(name, dataset=name, reason=name, status="failed", environment=[{"gpu": name}])
    write_report([write_records(record)], tmp_path / "page.html", title=name)
    page = (tmp_path / "page.html").read_text()
    assert "<script>alert" not in page
    assert page.count("<script") == 5
    assert data_of(page)["runs"][0]["dataset"] == name


def test_nothing_but_problems_is_still_a_page_and_no_run_at_all_an_error(tmp_path):
    (tmp_path / "empty").mkdir()
    with pytest.raises(DataError, match="run folders or records"):
        write_report([tmp_path / "empty"], tmp_path / "page.html")
    assert not (tmp_path / "page.html").exists()
    (tmp_path / "x.json").write_text("{")
    write_report([tmp_path], tmp_path / "page.html")
    assert "x.json" in (tmp_path / "page.html").read_text()


def test_starts_alike_are_told_once(make_record, write_records, tmp_path):
    times = [f"2026-01-01T00:00:0{i}+0000" for i in range(6)]
    starts = [{"started": when, "gpu": "other" if when == times[-1] else "H200"} for when in times]
    write_report([write_records(make_record(environment=starts))], tmp_path / "page.html")
    page = (tmp_path / "page.html").read_text()
    assert page.count("H200") == 1
    assert f"{times[0]} and 4 more, last {times[4]}" in page
