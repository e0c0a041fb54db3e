"""A configuration under several seeds: numbers of each, their mean, and how to go on."""

import statistics

from lrga.training.runs.seeds import train_seeds


def test_mean_and_deviation_are_those_of_the_runs(make_config, make_splits, tmp_path):
    done = train_seeds(make_config(), (41, 95, 12), tmp_path, data=make_splits())
    tests = [outcome.test for outcome in done.outcomes]
    assert (done.mean, done.std) == (statistics.fmean(tests), statistics.stdev(tests))
    written = done.to_json()
    assert [run["seed"] for run in written["runs"]] == [41, 95, 12]
    assert [run["test"] for run in written["runs"]] == tests
    assert done.title.startswith("test accuracy (%): ")
    assert [row[0] for row in done.rows()] == ["41", "95", "12"]
    assert not done.failed
    assert all(folder.is_dir() for folder in done.folders)


def test_runs_with_a_name_are_continued(make_config, make_splits, tmp_path):
    splits = make_splits()
    paused = train_seeds(make_config(), (41, 95), tmp_path, "both", data=splits, time_limit=1e-9)
    assert paused.folders == (tmp_path / "both" / "seed41", tmp_path / "both" / "seed95")
    assert paused.mean is None
    assert paused.title == "no run has an epoch yet"
    assert f"lrga train --resume {paused.folders[0]}" in paused.notes()[0]
    done = train_seeds(make_config(), (41, 95), tmp_path, "both", data=splits)
    assert [outcome.epochs for outcome in done.outcomes] == [3, 3]


def test_a_run_that_fails_is_named(make_config, make_splits, tmp_path):
    splits = make_splits()
    splits["train"].columns["x"].values[0] = 3e38  # the first layer overflows
    done = train_seeds(make_config(), (41, 95), tmp_path, data=splits)
    assert done.failed
    assert done.rows()[0] == ("41", "", "", "", "", "NonFiniteError")
    assert "seed 41 failed: expected a finite loss" in done.notes()[0]
    assert "NonFiniteError" in done.to_json()["runs"][1]["error"]
