"""A two-layer network learns monomials."""

import pytest

from lrga.theory.trained import TRAINED_CLAIMS, TrainingRecord
from reproduction.theory.experiments import train_experiment
from reproduction.theory.monomials import MonomialConfig, name_of

JUDGE = next(claim.judge for claim in TRAINED_CLAIMS if claim.key == "learned-monomials")


@pytest.fixture(scope="module")
def record() -> TrainingRecord:
    config = MonomialConfig(seeds=(0,), monomials=((1, 1), (2, 1)), samples=(8, 512), steps=300, test_samples=500)
    return train_experiment("learned-monomials", config)


def test_the_error_falls_with_the_samples_and_one_that_does_not_is_judged_so(record):
    for name in ("xy", "x²y"):
        few, many = record.mean(name)
        assert many < 0.2
        assert many < few / 3
    assert JUDGE(record).holds
    values = record.to_json()
    values["metrics"] = {"x": [8, 512], "curves": {"xy": [[0.3, 0.19]]}}
    assert not JUDGE(TrainingRecord.from_json(values)).holds


def test_monomials_are_written_as_in_a_book():
    assert name_of((2, 0, 1)) == "x²z"
