"""Finding runs and records, whole or broken."""

import json
import shutil
from pathlib import Path

import pytest

from lrga.errors import DataError, DataMissingError
from lrga.report.page import page_of
from lrga.report.sources import gather
from lrga.speed.record import make_record as make_benchmark

RESULTS = Path(__file__).resolve().parents[2] / "reproduction" / "results"


def test_the_records_of_this_project_are_found():
    found = gather([RESULTS])
    assert len(found.runs) >= 8
    assert len(found.others) >= 4  # benchmarks
    assert not [problem for problem in found.problems if "speed" in problem.place]
    assert {run.config.data.name for run in found.runs} >= {"CLUSTER", "PATTERN", "ZINC"}


def test_a_run_folder_a_record_and_a_folder_of_both_are_read(trained, make_record, write_records):
    folder = write_records(make_record("one"), make_record("two", seed=95))
    shutil.copytree(trained, folder / "three")
    assert [run.name for run in gather([folder]).runs] == ["one", "two", "cluster-run"] or sorted(
        run.name for run in gather([folder]).runs
    ) == ["one", "three", "two"]
    assert [run.name for run in gather([folder / "000.json"]).runs] == ["one"]
    assert [run.name for run in gather([trained]).runs] == ["cluster-run"]
    assert len(gather([folder, folder, folder / "000.json"]).runs) == 3


def test_a_data_set_beside_the_runs_is_passed_over(trained, tmp_path):
    shutil.copytree(trained, tmp_path / "run")
    (tmp_path / "data" / "CLUSTER").mkdir(parents=True)
    (tmp_path / "data" / "CLUSTER" / "manifest.json").write_text('{"files": {}}')
    found = gather([tmp_path])
    assert (len(found.runs), found.problems) == (1, [])


def test_nothing_there_is_an_error_in_words(tmp_path):
    with pytest.raises(DataMissingError, match="no such file"):
        gather([tmp_path / "nowhere"])
    with pytest.raises(DataError, match="lrga train"):
        gather([tmp_path])
    with pytest.raises(DataError, match="no path"):
        gather([])


def test_long_reading_is_told_of(make_record, write_records, monkeypatch):
    folder, told = write_records(make_record("one")), []
    gather([folder], say=told.append)
    monkeypatch.setattr("lrga.experiments.loading.PATIENCE", 0.0)
    gather([folder], say=told.append)
    assert told == ["1 files and folders read"]


def test_broken_files_become_problems(trained, make_record, write_records, tmp_path):
    folder = write_records(make_record("good"))
    (folder / "bad.json").write_text("{")
    (folder / "odd.json").write_text('{"hello": 1}')
    (folder / "deep.json").write_text("[" * 100_000)
    (folder / "latin.json").write_bytes(b'{"a": "\xff"}')
    changed = make_record("changed").to_json() | {"status": "unheard of"}
    (folder / "changed.json").write_text(json.dumps(changed))
    future = make_record("future").to_json() | {"format": 99}
    (folder / "future.json").write_text(json.dumps(future))
    (folder / "started").mkdir()
    (folder / "started" / "metrics.jsonl").write_text("")  # no configuration
    found = gather([folder])
    assert [run.name for run in found.runs] == ["good"]
    named = {Path(problem.place).name for problem in found.problems}
    assert named == {"bad.json", "odd.json", "deep.json", "latin.json", "changed.json", "future.json", "started"}


def test_a_folder_and_its_record_are_one_run(trained, make_record, tmp_path):
    from lrga.experiments.recording import make_record as record_of
    from lrga.training.runs.folder import RunFolder

    record = record_of(RunFolder(trained).config(), trained, status="finished", reason="max_epochs")
    (tmp_path / "records").mkdir()
    (tmp_path / "records" / "a.json").write_text(json.dumps(record.to_json()))
    assert len(gather([trained, tmp_path]).runs) == 1
    assert len(gather([tmp_path, trained]).runs) == 1


def test_how_an_unfinished_run_failed_is_known_from_its_record(trained, tmp_path):
    from lrga.experiments.recording import make_record as record_of
    from lrga.training.runs.folder import RunFolder

    folder = shutil.copytree(trained, tmp_path / "cluster-run")
    (folder / "result.json").unlink()
    record = record_of(RunFolder(folder).config(), folder, status="diverged", reason="loss was NaN")
    (tmp_path / "records").mkdir()
    (tmp_path / "records" / "a.attempt-1.json").write_text(json.dumps(record.to_json()))
    (run,) = gather([tmp_path]).runs
    assert (run.record.status, run.record.reason, run.record.epochs) == ("diverged", "loss was NaN", 2)
    assert gather([tmp_path]).failed == [run]


def test_of_several_attempts_the_last_counts(make_record, tmp_path):
    for number in (1, 2, 10):
        record = make_record("a", status="failed", reason=f"attempt {number}")
        (tmp_path / f"a.attempt-{number}.json").write_text(json.dumps(record.to_json()))
    (run,) = gather([tmp_path]).runs
    assert run.record.reason == "attempt 10"
    (tmp_path / "a.json").write_text(json.dumps(make_record("a").to_json()))
    (run,) = gather([tmp_path]).runs
    assert run.finished


def test_different_runs_of_one_name_are_told_apart(make_record, write_records):
    folder = write_records(make_record("same", lr=0.1), make_record("same", lr=0.2))
    names = [run.name for run in gather([folder]).runs]
    assert len(set(names)) == 2
    assert all(name.startswith("same (") for name in names)


def test_an_integer_that_no_float_holds_is_damage_and_no_crash(make_record, tmp_path):
    huge = 10**400
    sound = make_record().to_json()
    for number, damage in enumerate(({"last": {**sound["last"], "lr": huge}}, {"seconds": huge})):
        (tmp_path / f"{number}.json").write_text(json.dumps({**sound, **damage}))
    speed = make_benchmark("x", [{"case": "a", "ms": 1}], device="cpu")
    (tmp_path / "speed.json").write_text(json.dumps({**speed, "rows": [{"case": "a", "ms": huge}]}))
    curve = {**sound["curve"], "lr": [huge] * len(sound["curve"]["epoch"])}
    (tmp_path / "curve.json").write_text(json.dumps({**sound, "curve": curve}))
    found = gather([tmp_path])
    assert len(found.problems) == 3
    assert not found.others
    page = page_of(found)
    assert '"val_metric":[' in page
    assert '"lr":[' not in page
