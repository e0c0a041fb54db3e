"""The modern recipe: rows within their budget, options that win over it, and a short run from the command line."""

import json

import pytest
import torch

from lrga.data import dataset_specs
from lrga.errors import OptionError
from lrga.experiments.comparison import comparison
from lrga.models.budget import count_of
from lrga.training.presets import make_config
from lrga.training.problems.data import plan_network
from lrga.training.recipes import MAX_PARAMETERS, MODERN
from lrga.training.runs.folder import RunFolder
from tests.helpers.commands import lrga

TWINS = ("PATTERN", "CIFAR10")  # of CLUSTER and MNIST


@pytest.mark.parametrize("dataset", [pytest.param(n, marks=pytest.mark.slow) if n in TWINS else n for n in MODERN])
def test_a_row_keeps_its_budget_and_is_as_large_without_attention(dataset):
    plain, augmented = comparison(dataset, recipe="modern").plan("nowhere").to_json()["cells"]
    assert (plain["lrga"], plain["rank"], augmented["lrga"]) == (False, None, True)
    assert plain["parameters"] == pytest.approx(augmented["parameters"], rel=0.04)
    assert plain["hidden"] > augmented["hidden"]
    if MODERN[dataset].budget is not None:
        assert 0.94 * MAX_PARAMETERS < max(plain["parameters"], augmented["parameters"]) <= MAX_PARAMETERS
    row, config = MODERN[dataset], make_config(dataset, recipe="modern", hidden=8)
    assert dataset in dataset_specs()
    assert "arXiv" in row.source
    assert (config.optimizer.optimizer, config.optimizer.schedule) == (
        "adam" if dataset in ("Cora", "CiteSeer", "PubMed") else "adamw",
        "cosine",
    )
    assert config.optimizer.warmup_epochs > 0
    if config.link is None:
        assert config.model.block == "residual"


def test_options_given_win_and_decide_the_width_with_the_rest():
    config = make_config("CLUSTER", recipe="modern", layers=4, lr=0.01, max_epochs=7, encoding=["lappe:4"])
    assert (config.model.layers, config.optimizer.lr, config.optimizer.max_epochs) == (4, 0.01, 7)
    assert config.model.encoding == ["lappe:4"]
    assert config.model.hidden > make_config("CLUSTER", recipe="modern").model.hidden
    assert make_config("CLUSTER", recipe="modern", hidden=24).model.hidden == 24
    assert config.optimizer.batch_size == MODERN["CLUSTER"].options["batch_size"]


@pytest.mark.parametrize("lrga_too", [True, False])
def test_a_budget_given_wins_over_that_of_the_row(lrga_too):
    for budget, most in ((20_000, 20_000), ("100K", 100_000)):
        config = make_config("PATTERN", recipe="modern", budget=budget, layers=4, lrga=lrga_too)
        parameters = count_of(plan_network(config).build)
        assert 0.85 * most < parameters <= most


def test_what_has_no_recipe_is_refused_with_the_choices():
    with pytest.raises(OptionError, match=r"one of ZINC, .*actor"):
        make_config("actor", recipe="modern")
    with pytest.raises(OptionError, match="modern"):
        make_config("ZINC", recipe="old")
    with pytest.raises(OptionError, match="links of your own data"):
        make_config("edges.csv", recipe="modern", data_options={"task": "link"})
    with pytest.raises(OptionError, match="--recipe modern with --config"):
        make_config(None, make_config("ZINC"), recipe="modern")
    with pytest.raises(OptionError, match="--wiring"):
        make_config("ZINC", recipe="modern", hidden=8, wiring="norm-first")
    with pytest.raises(OptionError, match="--set norm: "):
        make_config("ZINC", norm="rms")


def test_the_paper_is_not_quoted_beside_another_network():
    from lrga.paper.reference import THE_PAPER

    for options in ({"recipe": "modern", "hidden": 8}, {"block": "residual"}, {"model": "gine"}):
        config = make_config("ZINC", **options)
        assert THE_PAPER.number(config) is None
        assert THE_PAPER.protocol(config) is None


def test_a_short_run_resumes_to_the_last_bit_and_predicts(tmp_path, monkeypatch):
    monkeypatch.setenv("LRGA_DATA", str(tmp_path / "data"))
    small = ["--sizes", "6,2,2", "--hidden", 8, "--layers", 2, "--batch-size", 3, "--device", "cpu"]
    words = ["train", "CLUSTER", "--recipe", "modern", *small, "--epochs", 2, "--output", tmp_path, "--quiet"]
    plan = json.loads(lrga(*words, "--dry-run", "--json").stdout)
    assert plan["model"]["encoding"] == ["rwse:20"]
    assert "AdamW, lr 0.0005, cosine, 5 epochs of warm-up" in " ".join(lrga(*words, "--dry-run").stdout.split())
    lrga(*words, "--run-name", "whole")
    lrga(*words, "--run-name", "run", "--time-limit", "1e-9", code=3)
    lrga("train", "--resume", tmp_path / "run", "--quiet")
    weights = [RunFolder(tmp_path / name).weights() for name in ("whole", "run")]
    for name, value in weights[0].items():
        assert torch.equal(value, weights[1][name]), name
    assert len(lrga("predict", tmp_path / "run", "CLUSTER/test", "--device", "cpu").stdout.splitlines()) > 100
