"""Records are found wherever they lie, and counted once."""

import json
import shutil
from pathlib import Path

import pytest

from lrga.errors import DataError, DataMissingError
from lrga.experiments.campaign import Campaign
from lrga.experiments.cell import Cell, earlier_name, run_name
from lrga.experiments.loading import key_of, load_runs, rows_of
from lrga.experiments.records import write_record
from lrga.paper.protocols import paper_config, table1
from tests.helpers.records import record_of

RESULTS = Path(__file__).resolve().parents[2] / "reproduction" / "results"


def record(seed=41, test=0.45, status="finished", when="2020-06-01T00:00:00+0000", **options):
    config = paper_config("ZINC", "gcn", seed=seed, **options)
    return record_of(config, test=test, run=f"zinc-seed{seed}", status=status, time=when)


def test_records_are_told_from_other_files(tmp_path):
    write_record(record(), tmp_path / "a")
    write_record(record(95), tmp_path / "b" / "deep")
    (tmp_path / "speed.json").write_text(json.dumps({"rows": [{"ms": 1.0}]}))
    assert [entry.record.seed for entry in load_runs([tmp_path, tmp_path / "a"])] == [41, 95]


def test_missing_folders_and_damaged_files_are_said(tmp_path):
    with pytest.raises(DataMissingError, match="no such file or folder"):
        load_runs([tmp_path / "nothing"])
    (tmp_path / "half.json").write_text('{"run": ')
    with pytest.raises(DataError, match=r"half\.json"):
        load_runs([tmp_path])
    (tmp_path / "half.json").write_text(json.dumps({"format": 1, "run": "x", "status": "finished", "config": {}}))
    with pytest.raises(DataError, match="unknown or missing"):
        load_runs([tmp_path])
    (tmp_path / "half.json").unlink()
    for ending, text in (("", "[]"), (".attempt-2", json.dumps({"seed": 41}))):
        path = tmp_path / f"{run_name(paper_config('ZINC'))}{ending}.json"
        path.write_text(text)
        with pytest.raises(DataError, match="the name of a record"):
            load_runs([tmp_path])
        path.unlink()


def test_a_run_counts_once_by_the_first_that_is_finished(tmp_path):
    write_record(record(test=0.1, status="time-limited", when="2020-06-03T00:00:00+0000"), tmp_path / "a")
    write_record(record(test=0.2), tmp_path / "b")
    write_record(record(test=0.3, when="2020-06-02T00:00:00+0000"), tmp_path / "c")
    write_record(record(7, test=0.4), tmp_path / "c")  # no seed of the protocol's
    row = rows_of([table1("ZINC", "gcn")], load_runs([tmp_path]))[0]
    assert [found.test for found in row.finished] == [0.2, 0.4]
    assert [outcome.status for outcome in row.outcomes] == ["finished", "pending", "pending", "pending", "finished"]


def test_other_options_are_another_cell(tmp_path):
    write_record(record(wiring="norm-first"), tmp_path)
    rows = rows_of([table1("ZINC", "gcn"), table1("ZINC", "gcn", wiring="norm-first")], load_runs([tmp_path]))
    assert [len(row.finished) for row in rows] == [0, 1]
    config = paper_config("ZINC", "gcn")
    assert (
        key_of(config)
        == key_of(config.changed(seed=7, device="cuda", recompute_layers=True))
        != key_of(config.changed(lr=1))
    )


def test_every_landed_record_is_found_by_the_campaign_that_would_make_it_again(tmp_path):
    landed = [entry for entry in load_runs([RESULTS]) if entry.record.status == "finished"]
    assert len(landed) > 100
    for entry in landed:
        assert entry.record.run in {run_name(entry.config), earlier_name(entry.config)}
    old = next(entry for entry in landed if entry.record.run != run_name(entry.config))
    (tmp_path / "records").mkdir()
    shutil.copy(old.place, tmp_path / "records")
    cell = Cell(labels={}, config=old.config, seeds=(old.record.seed,))
    assert Campaign([cell], tmp_path).outcomes()[0].status == "finished"
