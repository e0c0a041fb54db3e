"""``lrga predict`` as a user types it."""

import csv

import pytest
import torch
from typer.testing import CliRunner

from lrga.cli.main import app
from lrga.errors import CheckpointError, DataMissingError
from lrga.training import DataConfig, ModelConfig, OptimizerConfig, TrainingConfig, train


@pytest.fixture
def run(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    config = TrainingConfig(
        data=DataConfig(name="CLUSTER", root=str(tmp_path / "data"), options={"sizes": (4, 2, 2)}),
        model=ModelConfig(hidden=8, layers=1),
        optimizer=OptimizerConfig(max_epochs=1),
    )
    yield train(config, tmp_path / "run").folder
    torch.set_num_threads(threads)


def predict(*arguments):
    result = CliRunner().invoke(app, ["predict", *map(str, arguments)])
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    return result


def test_predictions_go_to_stdout_as_csv(run):
    rows = list(csv.DictReader(predict(run, "CLUSTER/test", "--device", "cpu").stdout.splitlines()))
    assert list(rows[0]) == ["graph", "node", "prediction", *(f"score_{c}" for c in range(6))]
    assert {row["graph"] for row in rows} == {"0", "1"}


def test_predictions_go_to_a_file_and_their_number_is_told(run, tmp_path):
    result = predict(run, "CLUSTER/val", "-o", "out.csv", "--best")
    lines = (tmp_path / "out.csv").read_text().splitlines()
    assert f"{len(lines) - 1} nodes of 2 graphs" in result.stderr
    assert result.stdout == ""


def test_a_missing_run_or_input_is_told_of(run):
    with pytest.raises(CheckpointError, match="nowhere"):
        predict("nowhere", "CLUSTER/test")
    with pytest.raises(DataMissingError, match="module:factory"):
        predict(run, "nothing")
