"""A cell names its runs by what they compute, and knows where it leaves the paper's protocol."""

import pytest

from lrga.errors import OptionError
from lrga.experiments.cell import Cell, check_seeds, essence, model_label, refuse_taken, run_name
from lrga.paper.protocols import paper_config, table1
from lrga.training.runs.folder import RunFolder


def test_options_that_change_the_result_change_the_name_of_a_run_which_is_a_sound_folder_name():
    config = paper_config("ZINC")
    changes = [{"lr": 0.1}, {"rank": 5}, {"seed": 95}, {"options": {"sizes": [3, 2, 1]}}, {"name": "MNIST"}]
    names = [run_name(config.changed(**change)) for change in changes]
    assert len({run_name(config), *names}) == 6
    from lrga.training.presets import make_config

    name = run_name(make_config("some/where/my_graphs.pt"))
    assert name.startswith("my_graphs-lrga-gcn-100k-seed41-")
    assert "/" not in run_name(make_config("package.module:make"))


@pytest.mark.parametrize(
    "change",
    [{"root": "elsewhere"}, {"source": "there"}, {"device": "cpu"}, {"checkpoint_minutes": 1.0}, {"tensorboard": True}],
)
def test_where_a_run_is_made_changes_neither_its_name_nor_whether_it_can_be_continued(change, tmp_path):
    config = paper_config("ZINC")
    assert run_name(config.changed(**change)) == run_name(config)
    RunFolder(tmp_path).continue_with(config)
    RunFolder(tmp_path).check_same(config.changed(**change))  # training agrees on what may differ


def test_a_cell_makes_one_run_for_each_seed_or_for_a_plain_number():
    cell = table1("TSP", "gat")
    assert [config.run.seed for config in cell.runs()] == [41, 42, 9, 23]
    assert len({run_name(config) for config in cell.runs()}) == 4
    assert check_seeds(7) == (7,)


def test_deviations_list_what_differs_from_the_protocol_and_nothing_else():
    cell = table1("CLUSTER", max_epochs=2, device="cpu", data_options={"sizes": (5, 2, 2)})
    assert cell.deviations() == {"options": ({"sizes": [5, 2, 2]}, {}), "max_epochs": (2, 1000)}
    assert table1("CLUSTER", preset="2020").deviations() == {}
    assert table1("CLUSTER", log_metrics=["accuracy"]).deviations() == {}
    assert Cell(labels={}, config=paper_config("ZINC", lr=1.0), seeds=(1,)).deviations() == {}


def test_essence_keeps_every_option_but_places():
    kept = essence(paper_config("ZINC"))
    assert set(kept) == {"data", "model", "optimizer", "run"}
    assert set(kept["data"]) == {"name", "options"}
    assert set(kept["run"]) == {"seed", "loss", "metric", "standardize_targets", "label_smoothing", "log_metrics"}


@pytest.mark.parametrize("seeds", [[], [41, 41], [-1], ["41"], [True]])
def test_bad_seeds_are_refused(seeds):
    with pytest.raises((OptionError, TypeError)):
        check_seeds(seeds)


def test_labels_write_models_as_the_paper_does():
    assert model_label(paper_config("ZINC", "sage", lrga=False)) == "GraphSAGE"
    assert model_label(paper_config("ZINC", "GatedGCN")) == "LRGA + GatedGCN"


def test_options_that_a_campaign_decides_itself_are_refused_with_what_to_use():
    refuse_taken({"lr": 1.0}, seed="seeds")
    with pytest.raises(OptionError, match="seeds instead of seed"):
        refuse_taken({"seed": 1}, seed="seeds")


def test_runs_keep_their_names_when_options_are_added():
    """The records under reproduction/results/ were named before these options came."""
    from lrga.paper.protocols import paper_config

    config = paper_config("CLUSTER", "gcn", lrga=False, preset="2022")
    assert run_name(config) == "cluster-plain-gcn-100k-seed41-df9e8b77bc"
    assert run_name(config.changed(recompute_layers=True)) == run_name(config)
    assert run_name(config.changed(resample_features=False)) != run_name(config)
