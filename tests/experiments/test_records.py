"""A record is written whole, once, and is believed only where it can be true."""

import json
from dataclasses import replace

import pytest

from lrga.errors import CheckpointError, DataError
from lrga.experiments.cell import run_name
from lrga.experiments.records import FOLDER, RunRecord, find_record, read_record, read_records, write_record
from lrga.paper.protocols import paper_config
from lrga.tasks import METRICS
from tests.helpers.records import EPOCH, record_of

RECORD = record_of(paper_config("ZINC"), run="zinc-run", reason="max_epochs", seconds=2.0)


def test_a_record_comes_back_as_it_was_written(tmp_path):
    path = write_record(RECORD, tmp_path)
    assert path == tmp_path / FOLDER / "zinc-run.json"
    assert read_record(path) == find_record(tmp_path, "zinc-run") == RECORD
    assert (RECORD.test, RECORD.parameters) == (0.45, 7)
    assert [p.name for p in (tmp_path / FOLDER).iterdir()] == ["zinc-run.json"]  # nothing temporary is left


def test_a_finished_record_is_never_overwritten(tmp_path):
    write_record(RECORD, tmp_path)
    write_record(replace(RECORD, seconds=99.0), tmp_path)
    assert find_record(tmp_path, "zinc-run").seconds == 2.0


def test_a_file_system_without_links_keeps_records_too(tmp_path, monkeypatch):
    def no_links(source, target):
        raise PermissionError(1, "Operation not permitted")

    monkeypatch.setattr("os.link", no_links)
    write_record(RECORD, tmp_path)
    write_record(replace(RECORD, seconds=99.0), tmp_path)
    write_record(replace(RECORD, status="failed"), tmp_path)
    assert find_record(tmp_path, "zinc-run") == RECORD
    assert sorted(p.name for p in (tmp_path / FOLDER).iterdir()) == ["zinc-run.attempt-1.json", "zinc-run.json"]


def test_attempts_are_kept_and_the_latest_counts_until_the_run_is_finished(tmp_path):
    for reason in ("first", "second"):
        write_record(replace(RECORD, status="failed", reason=reason), tmp_path)
    assert find_record(tmp_path, "zinc-run").reason == "second"
    for _ in range(9):  # the tenth comes after the ninth, not after the first
        write_record(replace(RECORD, status="time-limited", reason="late"), tmp_path)
    assert find_record(tmp_path, "zinc-run").reason == "late"
    write_record(RECORD, tmp_path)
    assert find_record(tmp_path, "zinc-run").status == "finished"
    assert len(list((tmp_path / FOLDER).iterdir())) == 12


def test_one_record_is_read_for_each_run(tmp_path):
    assert read_records(tmp_path) == []
    assert find_record(tmp_path, "zinc-run") is None
    write_record(replace(RECORD, status="failed"), tmp_path)
    write_record(RECORD, tmp_path)
    write_record(replace(RECORD, run="other"), tmp_path)
    assert [record.run for record in read_records(tmp_path)] == ["other", "zinc-run"]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"status": "done"}, "status 'done', none of finished"),
        ({"metric": "luck"}, "metric 'luck'"),
        ({"epochs": -1}, "-1 epochs"),
        ({"epochs": "2"}, "epochs = '2'"),
        ({"last": None}, "a finished run without numbers"),
        ({"last": {**EPOCH, "test_metric": "high"}}, "test_metric of last = 'high'"),
        ({"best": {"epoch": 1}}, "best with epoch"),
        ({"config": {"data": {}}}, "an invalid configuration"),
        ({"format": 2}, "format 2"),
        ({"extra": 1}, "unknown or missing: extra"),
        ({"metric": "accuracy"}, "metric 'accuracy', but the metric of ZINC is 'mae_by_batch'"),
        ({"best": None}, "a finished run without numbers"),
        ({"model": {}}, "a finished run without a number of parameters"),
        ({"data": {}}, "a finished run without a name of its data"),
        ({"data": {"name": "ZINC", "sha256": 5}}, "sha256 5 of its data"),
        ({"environment": [1]}, "environment with 1"),
        ({"published": {}}, "published = {}"),
        ({"curve": {"epoch": 5}}, "epoch of the curve = 5"),
        ({"curve": {"epoch": ["1", "2"]}}, "epoch of the curve = "),
        ({"last": RECORD.last | {"numbers": {"norm": "large"}}}, "norm of last = 'large'"),
        ({"last": RECORD.last | {"numbers": [1]}}, "numbers of last = "),
    ],
)
def test_a_record_that_cannot_be_true_is_refused_by_name(change, message, tmp_path):
    path = tmp_path / "record.json"
    path.write_text(json.dumps(RECORD.to_json() | change))
    with pytest.raises(DataError, match=message) as caught:
        read_record(path)
    assert str(path) in str(caught.value)


def test_a_missing_field_a_broken_file_and_no_file_are_refused(tmp_path):
    path = tmp_path / "record.json"
    values = RECORD.to_json()
    del values["seed"]
    path.write_text(json.dumps(values))
    with pytest.raises(DataError, match="unknown or missing: seed"):
        read_record(path)
    path.write_text(json.dumps(RECORD.to_json())[:100])
    with pytest.raises(DataError, match="JSON in"):
        read_record(path)
    path.write_text("[]")
    with pytest.raises(DataError, match="a JSON object"):
        read_record(path)
    with pytest.raises(DataError, match="no such file"):
        read_record(tmp_path / "none.json")
    with pytest.raises(DataError, match="a folder.*pass one of the files in it"):
        read_record(tmp_path)


def test_a_folder_that_cannot_hold_records_is_reported(tmp_path):
    (tmp_path / FOLDER).write_text("a file where a folder is needed")
    with pytest.raises(CheckpointError, match="to write"):
        write_record(RECORD, tmp_path)


def test_a_record_has_the_name_of_its_configuration():
    config = paper_config("ZINC")
    for change in ({"seed": 95}, {"lr": 0.5}):
        other = config.changed(**change)
        values = replace(RECORD, run=run_name(config), config=other.to_json(), seed=other.run.seed).to_json()
        with pytest.raises(DataError, match=f"belongs to '{run_name(other)}'"):
            RunRecord.from_json(values)
        assert RunRecord.from_json(values | {"run": run_name(other)}).run == run_name(other)


def test_a_record_that_contradicts_itself_is_refused():
    curve = {"epoch": [1, 2], "test_metric": [0.9, 0.45]}
    RunRecord.from_json(replace(RECORD, curve=curve).to_json())
    impossible = {
        "0.1 in the last epoch": {"curve": curve, "last": EPOCH | {"test_metric": 0.1}},
        "different lengths": {"curve": curve | {"test_metric": [0.45]}},
        "no column of epochs": {"curve": {"test_metric": [0.9, 0.45]}},
        "but 41 in its configuration": {"seed": 95},
        "time 'yesterday'": {"time": "yesterday"},
        "time None": {"environment": [{"started": None}]},
    }
    for words, values in impossible.items():
        with pytest.raises(DataError, match=words):
            RunRecord.from_json(replace(RECORD, **values).to_json())


@pytest.mark.parametrize("metric", ["mae", "mae_by_batch"])
def test_the_name_that_version_0_1_gave_to_a_mean_over_batches_is_read(metric, tmp_path):
    (tmp_path / "record.json").write_text(json.dumps(RECORD.to_json() | {"metric": metric}))
    assert METRICS[read_record(tmp_path / "record.json").metric].name == "MAE"
