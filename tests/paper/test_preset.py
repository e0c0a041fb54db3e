"""The preset ``paper``: one choice for each network on all data sets, the default of the tables."""

from pathlib import Path

import pytest

from lrga.errors import OptionError
from lrga.experiments.cell import run_name
from lrga.experiments.comparison import comparison
from lrga.experiments.loading import load_runs, rows_of
from lrga.experiments.notes import general_notes
from lrga.models.zoo import MODELS
from lrga.paper.preset import CHOICES, choices
from lrga.paper.protocols import cells_of, paper_config, rank_ablation, table1, table3
from lrga.training.presets import make_config

RESULTS = Path(__file__).parents[2] / "reproduction" / "results"
SETS = ("PATTERN", "CLUSTER", "ZINC", "MNIST", "CIFAR10", "TSP")


@pytest.mark.parametrize(("model", "lrga"), CHOICES)
def test_a_network_has_the_same_layers_and_wiring_on_all_data_sets(model, lrga):
    found = {
        (config.model.preset, config.model.wiring)
        for name in SETS
        for budget in ("100K", "500K")
        for config in [paper_config(name, model, lrga=lrga, budget=budget)]
    }
    choice = CHOICES[model, lrga]
    assert found == {(choice.layers, choice.wiring or "authors-code")}


def test_every_network_of_the_tables_has_a_choice_with_a_reason():
    assert set(CHOICES) == {(model, lrga) for model in MODELS for lrga in (False, True)}
    assert all(row["reason"] for row in choices().to_json())


@pytest.mark.parametrize("model", list(MODELS))
def test_patience_is_the_later_schedule_of_the_data_set_whatever_the_layers(model):
    found = [paper_config(name, model, lrga=False).optimizer.patience for name in SETS]
    assert found == [5, 5, 10, 10, 10, 10]


def test_what_is_asked_for_wins_over_the_preset():
    config = paper_config("ZINC", "gat", wiring="outer-residual", patience=7)
    assert (config.model.preset, config.model.wiring, config.optimizer.patience) == ("2022", "outer-residual", 7)
    assert table1("ZINC", "gat", wiring="outer-residual").deviations() == {"wiring": ("outer-residual", "outer-norm")}


@pytest.mark.parametrize("preset", ["2022", "2020"])
def test_one_generation_of_layers_can_be_asked_for(preset):
    for cell in [*cells_of("table1", preset=preset), *cells_of("table3", preset=preset), rank_ablation(preset=preset)]:
        assert (cell.config.model.preset, cell.config.model.wiring) == (preset, "authors-code")
        assert not cell.deviations()
    assert paper_config("ZINC", preset="2020").optimizer.patience == 5


def test_an_unknown_preset_is_refused_with_the_three_that_are():
    with pytest.raises(OptionError, match="'paper', '2022', '2020'"):
        table1("ZINC", preset="2021")


def test_the_preset_is_no_change_of_the_protocol_nor_of_the_name_of_a_run():
    for cell in [*cells_of("table1"), *cells_of("table3"), *cells_of("rank")]:
        assert not cell.deviations()
    given = table1("ZINC", "gcn", preset="2020", patience=10)
    assert run_name(table1("ZINC", "gcn").config) == run_name(given.config)


def test_training_and_comparisons_keep_the_later_layers():
    assert make_config("ZINC", model="gcn").model.preset == "2022"
    assert [cell.config.model.preset for cell in comparison("ZINC", "gcn").cells] == ["2022", "2022"]
    assert [cell.config.model.preset for cell in comparison("ZINC", "gcn", preset="2020").cells] == ["2020", "2020"]


def test_records_of_experiments_with_the_same_settings_count_in_the_main_table():
    landed = load_runs([RESULTS / "claims"])
    (row,) = rows_of([table1("CLUSTER", "gat", budget="100K")], landed)
    assert {record.seed for record in row.finished} == {41, 95}
    (row,) = rows_of([table3("gin")], landed)
    assert [record.model["preset"] for record in row.finished] == ["2020"]


def test_notes_say_which_network_has_which_layers():
    line = general_notes(cells_of("table1", dataset="ZINC"), [])[0]
    assert "layers of preset 2020 (GCN) and 2022 (GAT, GatedGCN)" in line
    assert "LRGA wiring authors-code (GCN, GatedGCN) and outer-norm (GAT)" in line
    assert "layers and patience of preset 2020" in general_notes([table1("ZINC", preset="2020")], [])[0]
