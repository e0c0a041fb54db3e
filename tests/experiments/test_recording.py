"""A record says how a run was made, from its folder."""

import math

import pytest

from lrga.experiments.cell import run_name
from lrga.experiments.recording import Witness, best_epoch, make_record
from lrga.experiments.records import RunRecord
from lrga.paper.protocols import table1
from lrga.tasks import Task
from lrga.training import train
from lrga.training.callbacks.base import EpochRecord


def an_epoch(number: int, val_metric: float) -> EpochRecord:
    return EpochRecord(
        epoch=number, lr=1e-3, train_loss=1.0, train_metric=1.0, val_loss=1.0, val_metric=val_metric, test_loss=1.0,
        test_metric=1.0, seconds=1.0, elapsed=float(number),
    )  # fmt: skip


@pytest.fixture
def made(tiny, tmp_path):
    cell = table1("CLUSTER", seeds=[41], **tiny | {"max_epochs": 3})
    config, witness = cell.runs()[0], Witness()
    result = train(config, tmp_path / run_name(config), callbacks=[witness])
    record = make_record(
        config, tmp_path / run_name(config), status="finished", reason=result.stopped_by,
        published=table1("CLUSTER").published, facts=witness.facts,
    )  # fmt: skip
    return config, result, record


def test_the_record_of_a_run_is_complete_and_sound(made):
    config, result, record = made
    assert RunRecord.from_json(record.to_json()) == record
    assert (record.run, record.seed, record.epochs) == (run_name(config), 41, 3)
    assert record.test == result.test
    assert record.last == result.last.to_json()
    assert record.best == result.best.to_json()
    assert record.parameters == result.parameters
    assert record.published == {"mean": 68.44, "std": 0.16, "source": "Table 1"}
    assert record.curve["epoch"] == [1, 2, 3]
    assert record.environment[0]["packages"]["torch"]
    assert {"commit", "cpu", "gpu", "python"} <= set(record.environment[0])


def test_the_record_has_all_hyperparameters_and_how_the_data_were_made_but_no_folder_of_this_machine(made, data_root):
    _, _, record = made
    assert record.data["graphs"] == {"train": 8, "val": 4, "test": 4}
    assert record.data["recipe"]["options"] == {"seed": 41, "sizes": [8, 4, 4]}
    assert "new sample" in record.data["note"]
    assert set(record.data["files"]) == {"train.safetensors", "val.safetensors", "test.safetensors"}
    assert len(record.data["sha256"]) == 64
    config, _, record = made
    written = type(config).from_json(record.config)
    assert written == config.changed(root=None)
    assert data_root not in str(record.to_json())
    assert record.model["architecture"]["hidden_channels"] == 8
    assert (record.model["preset"], record.model["wiring"]) == ("2020", "authors-code")


def test_a_run_that_failed_before_it_began_has_a_record_too(tiny, tmp_path):
    config = table1("CLUSTER", **tiny).config
    record = make_record(config, tmp_path / "nothing", status="failed", reason="no such thing")
    assert RunRecord.from_json(record.to_json()) == record
    assert (record.epochs, record.last, record.metric, record.parameters) == (0, None, None, None)


def test_graphs_that_were_passed_in_are_not_said_to_come_from_a_recipe(tiny, tmp_path):
    config = table1("CLUSTER", **tiny).config
    record = make_record(config, tmp_path / "nothing", status="failed", reason="-", given=True)
    assert record.data["origin"] == "graphs passed in"
    assert "recipe" not in record.data
    assert record.data["graphs"] is None


def test_the_best_epoch_is_the_first_best_in_validation():
    history = tuple(an_epoch(n, value) for n, value in enumerate([math.nan, 2.0, 3.0, 3.0, 1.0], start=1))
    assert best_epoch(history, Task(level="node", kind="classification", out_channels=2)).epoch == 3
    assert best_epoch(history, Task(level="graph", kind="regression", out_channels=1)).epoch == 5
    assert best_epoch((), Task(level="graph", kind="regression", out_channels=1)) is None
