"""``lrga predict`` as a user types it."""

import csv

import pytest

from lrga.data.datasets.spec import SPLITS
from lrga.errors import CheckpointError, DataMissingError
from lrga.training import DataConfig, ModelConfig, OptimizerConfig, TrainingConfig, train
from tests.helpers.commands import lrga


@pytest.fixture
def run(tmp_path, monkeypatch, one_thread):
    monkeypatch.chdir(tmp_path)
    config = TrainingConfig(
        data=DataConfig(name="CLUSTER", root=str(tmp_path / "data"), options={"sizes": (4, 2, 2)}),
        model=ModelConfig(hidden=8, layers=1),
        optimizer=OptimizerConfig(max_epochs=1),
    )
    return train(config, tmp_path / "run").folder


def test_predictions_go_to_stdout_as_csv(run):
    rows = list(csv.DictReader(lrga("predict", run, "CLUSTER/test", "--device", "cpu").stdout.splitlines()))
    assert list(rows[0]) == ["graph", "node", "prediction", *(f"score_{c}" for c in range(6))]
    assert {row["graph"] for row in rows} == {"0", "1"}


def test_predictions_go_to_a_file_and_their_number_is_told(run, tmp_path):
    result = lrga("predict", run, "CLUSTER/val", "-o", "out.csv", "--best")
    lines = (tmp_path / "out.csv").read_text().splitlines()
    assert f"{len(lines) - 1} nodes of 2 graphs" in result.stderr
    assert result.stdout == ""


def test_a_missing_run_or_input_is_told_of(run):
    with pytest.raises(CheckpointError, match="nowhere"):
        lrga("predict", "nowhere", "CLUSTER/test")
    with pytest.raises(DataMissingError, match="module:factory"):
        lrga("predict", run, "nothing")


def own_graphs(folder):
    folder.mkdir()
    names = ["=1+1", "+cmd|' /C calc'!A0", "-x", "@SUM(1)", "-5", "plain"]
    rows = [f'"{name}",{i},{"=a" if i % 2 else "b"},{SPLITS[i // 2]}' for i, name in enumerate(names)]
    (folder / "nodes.csv").write_text("\n".join(["node,x,y,split", *rows, ""]))
    (folder / "edges.csv").write_text('source,target\n"=1+1",-x\n-x,"=1+1"\n')
    return names


@pytest.mark.parametrize("to_file", [False, True])
def test_names_that_are_formulas_are_written_as_they_are_or_escaped(tmp_path, monkeypatch, to_file):
    monkeypatch.chdir(tmp_path)
    names = own_graphs(tmp_path / "own")
    config = TrainingConfig(
        data=DataConfig(name=str(tmp_path / "own")),
        model=ModelConfig(hidden=8, layers=1),
        optimizer=OptimizerConfig(max_epochs=1),
    )
    train(config, tmp_path / "run")
    read = {}
    for options in ((), ("--escape-formulas",)):
        result = lrga("predict", "run", "own", "--device", "cpu", *options, *(("-o", "out.csv") if to_file else ()))
        text = (tmp_path / "out.csv").read_text() if to_file else result.stdout
        read[options] = list(csv.DictReader(text.splitlines()))
    assert [row["node"] for row in read[()]] == names
    escaped = [row["node"] for row in read["--escape-formulas",]]
    assert escaped == ["'=1+1", "'+cmd|' /C calc'!A0", "'-x", "'@SUM(1)", "-5", "plain"]
    assert {row["prediction"] for row in read["--escape-formulas",]} <= {"'=a", "b"}
    assert [row["score_=a"] for row in read["--escape-formulas",]] == [row["score_=a"] for row in read[()]]
