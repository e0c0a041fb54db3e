"""``lrga theory``: the tour on the command line."""

import json

import pytest

from lrga.errors import OptionError
from lrga.theory import statements
from lrga.theory.tour import Measurement, Statement
from reproduction.theory import experiments
from reproduction.theory.monomials import MonomialConfig
from tests.helpers.commands import lrga


def test_chosen_statements_are_printed_with_their_figures_and_plotted(tmp_path):
    result = lrga("theory", "node-factorisation", "random-factorisation", "--output", str(tmp_path))
    assert "Definition 3 (node-factorisation) holds" in result.stdout
    assert "largest relative error" in result.stdout
    assert sorted(p.name for p in tmp_path.iterdir()) == ["random-factorisation.png", "tour.json"]


def test_json_is_pure_and_progress_goes_to_stderr(tmp_path):
    result = lrga("theory", "scale", "--json", "--output", str(tmp_path))
    report = json.loads(result.stdout)
    assert [row["key"] for row in report["statements"]] == ["scale"]
    assert report["holds"] is True
    assert "1/1" in result.stderr


def test_a_statement_that_fails_is_shown_and_sets_the_exit_code(tmp_path, monkeypatch):
    wrong = Statement("wrong", "Nowhere", "1 = 2", lambda: Measurement("1 ≠ 2", holds=False, values={}))
    monkeypatch.setattr(statements, "choose", lambda keys, known: [wrong])
    assert "FAILS" in lrga("theory", "--output", tmp_path, code=1).stdout


def test_what_takes_training_is_shown_from_records(tmp_path):
    result = lrga("theory", "learned-head", "learned-monomials", "--json", "--output", str(tmp_path))
    rows = json.loads(result.stdout)["statements"]
    assert [row["key"] for row in rows] == ["learned-monomials", "learned-head"]
    assert all("recorded" in row["figure"] for row in rows)
    assert not (tmp_path / "records").exists()


def test_train_trains_afresh_with_progress_and_writes_the_record(tmp_path, monkeypatch):
    small = MonomialConfig(seeds=(0,), monomials=((1, 1),), samples=(8, 256), steps=300, test_samples=200)
    learn = experiments.EXPERIMENTS["learned-monomials"][1]
    monkeypatch.setitem(experiments.EXPERIMENTS, "learned-monomials", (small, learn))
    result = lrga("theory", "learned-monomials", "--train", "--output", str(tmp_path))
    assert "learning xy" in result.stderr
    assert "recorded" not in result.stdout
    assert json.loads((tmp_path / "records" / "learned-monomials.json").read_text())["config"]["steps"] == 300
    assert (tmp_path / "learned-monomials.png").is_file()


def test_an_unknown_statement_is_refused(tmp_path):
    with pytest.raises(OptionError):
        lrga("theory", "proposition 99", "--output", tmp_path)
