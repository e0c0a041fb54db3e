"""Records of the training experiments."""

import json

import pytest

from lrga.errors import DataError, DataMissingError
from lrga.theory.trained import TRAINED_CLAIMS, TrainingRecord, shipped_record
from reproduction.theory.experiments import write_training


def record(**changes):
    values = {
        "experiment": "some",
        "config": {"width": 4},
        "seeds": [0, 1],
        "metrics": {"x": [1, 2], "curves": {"a": [[1.0, 2.0], [3.0, 6.0]]}},
        "seconds": 1.5,
        "environment": {"cpu": "some"},
    }
    return values | changes


def test_a_record_survives_its_file_and_averages_over_seeds(tmp_path):
    first = TrainingRecord.from_json(record())
    path = write_training(first, tmp_path / "new")
    assert TrainingRecord.from_json(json.loads(path.read_text())) == first
    assert first.mean("a") == [2.0, 4.0]


@pytest.mark.parametrize(
    "changes",
    [
        {"more": 1},
        {"metrics": {"x": [1, 2]}},
        {"metrics": {"x": [1, 2], "curves": {"a": [[1.0, 2.0]]}}},
        {"metrics": {"x": [1, 2], "curves": {"a": [[1.0], [2.0]]}}},
    ],
)
def test_a_damaged_record_is_refused(changes):
    with pytest.raises(DataError):
        TrainingRecord.from_json(record(**changes))


def test_something_else_than_a_record_is_refused():
    with pytest.raises(DataError, match="list"):
        TrainingRecord.from_json([])


def test_an_experiment_without_record_is_named():
    with pytest.raises(DataMissingError, match="--train"):
        shipped_record("lemma-9")


def test_a_folder_that_cannot_be_written_to_is_named(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(DataError, match="--output"):
        write_training(TrainingRecord.from_json(record()), tmp_path / "file")


def test_shipped_records_are_small():
    from importlib.resources import files

    for claim in TRAINED_CLAIMS:
        assert len(files("lrga.theory").joinpath("records", f"{claim.key}.json").read_bytes()) < 20_000
