"""The training experiments as statements: the shipped records' claims, and fresh training."""

import json
from pathlib import Path

import pytest
import torch

from lrga.theory.statements import STATEMENTS, choose
from lrga.theory.tour import run_tour
from lrga.theory.trained import CLASS_NETWORKS, CSL, TRAINED_CLAIMS, shipped_record, trained_statements
from reproduction.theory import experiments
from reproduction.theory.experiments import EXPERIMENTS, fresh_statements, train_experiment
from reproduction.theory.monomials import MonomialConfig


@pytest.mark.parametrize("claim", TRAINED_CLAIMS, ids=lambda claim: claim.key)
def test_the_shipped_record_supports_the_claim_and_was_made_with_these_options(claim):
    record = shipped_record(claim.key)
    assert claim.judge(record).holds
    options = json.loads(json.dumps(vars(EXPERIMENTS[claim.key][0])))
    assert {**record.config, "seeds": list(record.seeds)} == options
    assert record.seconds > 0
    assert record.environment["packages"]["torch"]
    assert record.environment["cpu"]


def test_statements_show_records_without_training():
    stops = run_tour(trained_statements())
    assert all(stop.measurement.holds for stop in stops)
    assert all("recorded" in stop.measurement.figure for stop in stops)
    assert all(stop.measurement.series is not None for stop in stops)


def test_keys_do_not_collide_with_the_statements_that_need_no_training():
    together = (*STATEMENTS, *trained_statements())
    assert len({s.key for s in together}) == len(together)
    assert [s.key for s in choose(["learned-head", "scale"], together)] == ["scale", "learned-head"]


def test_training_afresh_writes_a_record_tells_its_progress_and_judges_it(monkeypatch, tmp_path):
    small = MonomialConfig(seeds=(3,), monomials=((1, 1),), samples=(8, 200), steps=60, test_samples=100)
    learn = EXPERIMENTS["learned-monomials"][1]
    monkeypatch.setitem(experiments.EXPERIMENTS, "learned-monomials", (small, learn))
    told = []
    (stop,) = run_tour(choose(["learned-monomials"], fresh_statements(tmp_path, say=told.append)))
    assert told == ["learning xy"]
    assert "recorded" not in stop.measurement.figure
    written = json.loads((tmp_path / "learned-monomials.json").read_text())
    assert written["seeds"] == [3]
    assert written["config"]["samples"] == [8, 200]


def test_training_twice_gives_the_same_figures_and_leaves_the_random_state_alone():
    small = MonomialConfig(seeds=(0,), monomials=((1, 1),), samples=(16,), steps=20, test_samples=50)
    state = torch.random.get_rng_state()
    first, second = (train_experiment("learned-monomials", small) for _ in range(2))
    assert first.metrics == second.metrics
    assert torch.equal(torch.random.get_rng_state(), state)


def test_the_chapter_quotes_the_records():
    chapter = (Path(__file__).resolve().parents[2] / "docs" / "explanation" / "theory.md").read_text(encoding="utf-8")
    for key, digits in (("trained-triangles", 2), ("learned-monomials", 3), ("learned-head", 3)):
        record = shipped_record(key)
        for name in record.metrics["curves"]:
            assert " | ".join(f"{value:.{digits}f}" for value in record.mean(name)) in chapter, name
    for key in (CSL, "equivalent-pairs"):
        record = shipped_record(key)
        for entry in record.config["entries"]:
            for name in CLASS_NETWORKS:
                scores = [f"{record.mean(f'{entry}: {name}, {split}')[-1]:.1f}" for split in ("train", "test")]
                row = f"{entry} | {name}" if key != CSL else f"{name} | {record.metrics['parameters'][name]:,}"
                assert f"| {row} | {' | '.join(scores)} |" in chapter
