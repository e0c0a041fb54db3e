"""The paper's protocol is frozen here: whoever changes an option of it must change these tests too."""

import re
from pathlib import Path

import pytest

from lrga.errors import OptionError
from lrga.experiments.cell import run_name
from lrga.paper.printed import published
from lrga.paper.protocols import (
    RANKS,
    SEEDS,
    TITLES,
    cells_of,
    experiment_name,
    paper_config,
    rank_ablation,
    table1,
    table3,
)


def test_the_option_set_of_a_protocol_is_frozen():
    assert paper_config("CLUSTER", "gcn", budget="500K").to_json() == {
        "data": {"name": "CLUSTER", "root": None, "source": None, "options": {}},
        "model": {
            "model": "gcn",
            "budget": "500K",
            "lrga": True,
            "hidden": None,
            "layers": None,
            "heads": None,
            "rank": 30,
            "attention_heads": 1,
            "edge_features": True,
            "preset": "2020",
            "wiring": "authors-code",
            "dropout": 0.0,
            "residual": True,
            "batch_norm": True,
            "readout": None,
            "encoding": None,
            "block": "benchmark",
            "norm": "batch",
            "attention_dropout": None,
            "head_layers": 3,
            "normalize": "graph",
            "qk_norm": False,
            "gate": False,
            "random_features": False,
            "resample_features": True,
            "backend": "auto",
        },
        "optimizer": {
            "optimizer": "adam",
            "lr": 1e-3,
            "schedule": "plateau",
            "schedule_per": "step",
            "warmup_epochs": 0.0,
            "lr_factor": 0.5,
            "patience": 5,
            "min_lr": 1e-5,
            "max_epochs": 1000,
            "batch_size": 64,
            "fanouts": None,
            "eval_batch_size": None,
            "weight_decay": 0.0,
            "selective_decay": False,
            "momentum": 0.9,
            "clip_gradient": None,
            "weight_average": None,
            "precision": "float32",
            "recalibrate_norm": 0,
        },
        "run": {
            "seed": 41,
            "device": "auto",
            "loss": None,
            "metric": None,
            "log_metrics": None,
            "label_smoothing": 0.0,
            "standardize_targets": None,
            "checkpoint_minutes": 10.0,
            "tensorboard": False,
            "engine": "auto",
            "deterministic": False,
            "recompute_layers": False,
        },
    }


@pytest.mark.parametrize(
    ("dataset", "schedule"),  # max epochs, patience, batch
    [
        ("PATTERN", (1000, 5, 128)),
        ("CLUSTER", (1000, 5, 128)),
        ("ZINC", (1000, 10, 128)),
        ("MNIST", (1000, 10, 128)),
        ("CIFAR10", (1000, 10, 128)),
        ("TSP", (500, 10, 64)),
    ],
)
def test_schedule_of_every_data_set(dataset, schedule):
    options = paper_config(dataset).optimizer
    assert (options.max_epochs, options.patience, options.batch_size) == schedule


def test_batches_at_500k_are_smaller_on_the_block_models_alone():
    found = {
        (cell.config.data.name, cell.config.model.model): cell.config.optimizer.batch_size
        for cell in (*cells_of("table1", budget="500K"), *cells_of("table3"))
    }
    smaller = {key: size for key, size in found.items() if size != 128}
    assert smaller == {
        ("PATTERN", "gcn"): 64,
        ("CLUSTER", "gcn"): 64,
        ("PATTERN", "graphsage"): 64,
        ("PATTERN", "gatedgcn"): 32,
        ("CLUSTER", "gatedgcn"): 32,
    }


def test_seeds_are_the_benchmarks():
    assert SEEDS == {
        **dict.fromkeys(("PATTERN", "CLUSTER", "ZINC", "MNIST", "CIFAR10"), (41, 95, 12, 35)),
        "TSP": (41, 42, 9, 23),
    }


def test_every_published_number_of_tables_1_and_3_has_its_cell():
    wanted = [cell for cell in published() if cell.table in (1, 3)]
    found = [cell.published for cell in (*cells_of("table1"), *cells_of("table3"))]
    assert len(found) == len(wanted) == 76
    assert set(found) == set(wanted)


def test_random_features_are_those_of_table_3_alone():
    assert all(cell.config.model.random_features for cell in cells_of("table3"))
    assert not any(cell.config.model.random_features for cell in cells_of("table1"))
    assert {cell.config.data.name for cell in cells_of("table3")} == {"PATTERN"}


def test_the_rank_ablation_is_the_cell_of_table_1_with_other_ranks():
    cells = cells_of("rank")
    assert RANKS == (0, 1, 2, 5, 10, 20, 30, 60, 117, 190)
    assert [cell.config.model.rank for cell in cells] == list(RANKS)
    assert [cell.published.mean for cell in cells if cell.published is not None] == [76.01]
    assert run_name(rank_ablation(30).config) == run_name(table1("CLUSTER", "gcn", budget="500K").config)
    assert rank_ablation(60).deviations() == {}


def test_filters_choose_cells_and_options_change_them():
    cells = cells_of("table1", dataset="zinc", model="GatedGCN", budget="100k", lrga=True, seeds=[7], lr=0.01)
    assert [(cell.published.mean, cell.seeds, cell.config.optimizer.lr) for cell in cells] == [(0.355, (7,), 0.01)]
    assert len(cells_of("table1", lrga=False)) == 33
    assert [cell.config.model.rank for cell in cells_of("rank", rank=45)] == [45]
    assert {cell.config.model.rank for cell in cells_of("table1", dataset="TSP", rank=45)} == {45}


def test_filters_that_match_nothing_are_answered_with_what_there_is():
    with pytest.raises(OptionError, match=r"a cell of table3 \(dataset PATTERN; .*got none with dataset=ZINC"):
        cells_of("table3", dataset="ZINC")
    with pytest.raises(OptionError, match="an option of training, one of"):
        cells_of("table1", learning_rate=1)
    with pytest.raises(OptionError, match="one of PATTERN"):
        cells_of("table1", dataset="MUTAG")


def test_unknown_experiments_are_answered_with_the_choices():
    assert experiment_name("Table 1") == "table1"
    assert list(TITLES) == ["table1", "table2", "table3", "rank"]
    with pytest.raises(OptionError, match="one of table1, table2, table3, rank"):
        cells_of("table7")


def test_a_budget_of_its_own_has_no_published_number():
    assert table1("ZINC", budget="250k").published is None
    assert table3("gat").published.mean == 85.905


@pytest.mark.parametrize("table", [1, 2, 3])
def test_the_page_on_reproducing_lists_the_rows_of_each_table(table):
    page = (Path(__file__).parents[2] / "docs" / "how-to" / "reproducing.md").read_text(encoding="utf-8")
    (row,) = re.findall(rf"^\| {table} \|(.+)\|(.+)\|(.+)\|$", page, re.MULTILINE)
    cells = [cell.published for cell in cells_of(f"table{table}")]
    assert {name.strip() for name in row[0].split(",")} == {cell.dataset for cell in cells}
    listed = {name.strip() for name in row[2].replace("with and without LRGA", "").split(",")} - {""}
    assert {name.removeprefix("LRGA + ") for name in listed} == {cell.model for cell in cells}
