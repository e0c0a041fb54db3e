"""Few options in, a full configuration out."""

import os

import pytest

from lrga.errors import OptionError
from lrga.training.options import configure, make_config, parse_budget, parse_split
from lrga.training.unused import runs_of_a_table


def test_a_named_set_comes_with_the_benchmark_s_schedule_and_what_is_given_wins():
    config = make_config("CLUSTER", model="gcn", budget="500k", lr=0.01, patience=None)
    assert (config.model.budget, config.optimizer.batch_size, config.optimizer.patience) == ("500K", 64, 5)
    assert config.optimizer.lr == 0.01


def test_a_named_set_comes_with_its_dropout_and_what_is_given_wins():
    assert [make_config(name).model.dropout for name in ("CLUSTER", "Cora", "my_graphs")] == [0.0, 0.5, 0.0]
    assert make_config("Cora", dropout=0.0).model.dropout == 0.0


def test_own_data_have_a_smaller_batch():
    assert make_config("my_graphs").optimizer.batch_size == 32


def test_data_options_that_are_none_are_left_out():
    config = make_config("ZINC", data_options={"sizes": (8, 4, 4), "seed": None}, root="here")
    assert config.data.options == {"sizes": [8, 4, 4]}
    assert config.data.root == os.path.abspath("here")


def test_own_files_are_named_in_full_so_that_a_run_continues_from_anywhere(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "mine").mkdir()
    assert make_config("mine").data.name == str(tmp_path / "mine")
    assert make_config("module:factory").data.name == "module:factory"
    (tmp_path / "zinc").mkdir()
    assert make_config("zinc").data.name == "ZINC"


def test_an_unknown_option_is_refused():
    with pytest.raises(OptionError, match="width"):
        make_config("ZINC", width=3)


def test_another_configuration_is_the_base_where_there_is_one():
    base = make_config("ZINC", lr=0.5, data_options={"sizes": (8, 4, 4)})
    assert configure(None, base) == base
    changed = configure("MNIST", base, data_options={"seed": 1}, lr=0.25, budget="250k")
    assert (changed.data.name, changed.data.options) == ("MNIST", {"sizes": [8, 4, 4], "seed": 1})
    assert (changed.optimizer.lr, changed.model.budget) == (0.25, 250_000)
    assert configure("ZINC") == make_config("ZINC")
    with pytest.raises(OptionError, match="lrga train"):
        configure(None)


@pytest.mark.parametrize(
    ("text", "budget"),
    [("100k", "100K"), ("500K", "500K"), ("42000", 42_000), ("250k", 250_000), ("1.5M", 1_500_000), ("1,000", 1_000)],
)
def test_budgets_are_read_as_people_write_them(text, budget):
    assert parse_budget(text) == budget


@pytest.mark.parametrize("text", ["", "much", "-5", "10kk"])
def test_other_budgets_are_refused(text):
    with pytest.raises(OptionError):
        parse_budget(text)


def test_fractions_are_read():
    assert parse_split("0.5, 0.25,0.25") == (0.5, 0.25, 0.25)
    with pytest.raises(OptionError):
        parse_split("half")


def test_of_a_table_an_option_must_concern_some_of_the_runs():
    with runs_of_a_table():
        plain, augmented = (make_config("ZINC", lrga=lrga, rank=5) for lrga in (False, True))
    assert augmented.model.rank == 5
    assert not plain.model.lrga

    @runs_of_a_table()
    def heads_of_gcn():
        return [make_config("ZINC", model="gcn", lrga=lrga, heads=4) for lrga in (False, True)]

    with pytest.raises(OptionError, match="--heads: only gat"):
        heads_of_gcn()
    with pytest.raises(OptionError, match="--rank: the network has no low-rank attention"):
        make_config("ZINC", lrga=False, rank=5)
