"""From OGB's files to a record, a table and predictions: every row of Table 2, as a stranger would run it."""

import csv
import itertools
import json
import sys
from pathlib import Path

import pytest
import torch

from lrga.data import load
from lrga.training.presets import make_config
from lrga.training.problems.data import load_run_data
from lrga.training.trainer import Trainer

sys.path.insert(0, str(Path(__file__).parents[1] / "data"))
from data_files import make_ogb

from tests.helpers.commands import lrga

DDI = Path(__file__).resolve().parents[3] / "shared" / "data" / "ogbl_ddi"


def trainer_of(config, data):
    run = load_run_data(config, data)
    return Trainer(*run.stages(run.architecture.build(), config))


@pytest.mark.parametrize("dataset", ["ogbl-ppa", "ogbl-collab", "ogbl-ddi"])
def test_every_row_of_a_set_is_reproduced_from_files_of_ogbs_layout(tmp_path, monkeypatch, dataset):
    monkeypatch.chdir(tmp_path)
    source = make_ogb(tmp_path / "files", dataset)
    small = ("--epochs", 2, "--seeds", 7, "--set", "hidden=8", "--set", "walk_epochs=1", "--set", "walk_length=5")
    small += ("--set", "walk_context=3", "--rank", 3, "--device", "cpu", "--quiet", "--json")
    arguments = ("reproduce", "run", "table2", "--dataset", dataset, "--source", source, "--data-root", "root", *small)
    table = json.loads(lrga(*arguments).stdout)
    assert table["complete"]
    assert [row["model"] for row in table["rows"]] == ["Node2Vec", "DeepWalk", "MF", "GraphSAGE", "GCN", "GCN"]
    assert all(0 <= row["mean"] <= 1 for row in table["rows"])
    assert [row["published"] for row in table["rows"]] == [None] * 6  # hidden=8 is another network than the paper's
    records = sorted((tmp_path / "runs" / "records").glob("*.json"))
    assert len(records) == 6
    record = json.loads(records[0].read_text())
    assert "not the published set" in record["data"]["note"]
    assert record["config"]["link"]["validation_edges"] is False
    assert all(str(tmp_path) not in path.read_text() for path in records)
    again = json.loads(lrga(*arguments).stdout)
    assert again["rows"][5]["mean"] == table["rows"][5]["mean"]
    run = next(path for path in (tmp_path / "runs").iterdir() if "-lrga-" in path.name)
    lines = lrga("predict", run, "--node", 5, "--top-k", 3).stdout.splitlines()
    assert len(list(csv.reader(lines))) == 4


def test_collab_with_validation_edges_scores_its_test_on_another_graph(tmp_path):
    data = load("ogbl-collab", tmp_path / "root", source=make_ogb(tmp_path / "files", "ogbl-collab"))
    config = make_config("ogbl-collab", hidden=8, rank=2, max_epochs=1, validation_edges=True, device="cpu")
    torch.manual_seed(0)
    trainer = trainer_of(config, data)
    messages, test_messages = trainer.problem.messages, trainer.problem.test_messages
    assert messages.weight is not None
    assert test_messages.edges.num_edges == messages.edges.num_edges + 2 * 60
    assert trainer.fit() == "max_epochs"


def test_a_step_on_real_ddi_lowers_the_loss(tmp_path):
    if not DDI.is_dir():
        pytest.skip("the files of ogbl-ddi are not beside this checkout")
    data = load("ogbl-ddi", tmp_path, source=DDI)
    config = make_config("ogbl-ddi", hidden=8, rank=4, dropout=0.0, device="cpu", lr=0.05)
    torch.manual_seed(0)
    trainer = trainer_of(config, data)
    assert trainer.problem.batches == 17
    losses, running = [], trainer.problem.sums
    for batch in itertools.islice(trainer.problem.epoch_batches(0, 0), 8):
        assert batch[0].shape == batch[1].shape == (2, 65_536)
        trainer.step(batch)
        losses.append(running.means()[0] * (len(losses) + 1) - sum(losses))
    assert losses[-1] < losses[0] < 2
