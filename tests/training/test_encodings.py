"""Runs with positional encodings: resumed to the last bit, saved with their encodings, predicting new graphs."""

import pytest
import torch

from lrga.data import with_encodings
from lrga.errors import OptionError
from lrga.training import train
from lrga.training.config import ModelConfig
from lrga.training.predict import Predictor
from lrga.training.runs.folder import RunFolder
from tests.helpers.commands import lrga

ENCODING = ["rrwp:4", "lappe:2"]


@pytest.fixture(autouse=True)
def data_root(tmp_path, monkeypatch):
    monkeypatch.setenv("LRGA_DATA", str(tmp_path / "root"))


def test_a_run_resumes_bit_equal_and_its_model_predicts_new_graphs(make_config, make_splits, tmp_path):
    config = make_config(model="gatedgcn", encoding=ENCODING, max_epochs=2)
    whole = train(config, tmp_path / "whole", data=make_splits())
    folder = tmp_path / "run"
    done = train(config, folder, data=make_splits(), time_limit=1e-9)
    assert not done.finished
    resumed = train(config, folder, data=make_splits())
    for name, value in whole.model.state_dict().items():
        assert torch.equal(value, resumed.model.state_dict()[name]), name
    assert (tmp_path / "root" / "encodings").is_dir()
    assert RunFolder(folder).config().model.encoding == ENCODING
    predictor = Predictor.of(folder, device="cpu")
    test = make_splits()["test"]
    rows = list(predictor.rows(test))
    assert len(rows) == test.num_nodes
    batch = with_encodings(test, ENCODING).batch([0])
    encodings = {"node_encoding": batch.node_encoding, "edge_encoding": batch.edge_encoding}
    scores = predictor.model(batch.x, batch.edges, batch.edge_attr, **encodings).softmax(1).detach()
    assert float(rows[0][-1]) == pytest.approx(float(scores[0, -1]), rel=1e-4)


def test_encodings_are_written_as_people_type_them():
    assert ModelConfig(encoding="rwse:4, lappe:2").encoding == ["rwse:4", "lappe:2"]
    assert ModelConfig(encoding=[]).encoding is None


def test_the_command_line_trains_and_predicts_with_encodings_of_own_data(tmp_path):
    folder = tmp_path / "graphs"
    folder.mkdir()
    nodes = "".join(f"{g},{n},{n / 2},{(g + n) % 2}\n" for g in range(6) for n in range(4))
    edges = "".join(f"{g},{n},{(n + 1) % 4}\n{g},{(n + 1) % 4},{n}\n" for g in range(6) for n in range(4))
    (folder / "nodes.csv").write_text("graph,node,x0,y\n" + nodes)
    (folder / "edges.csv").write_text("graph,source,target\n" + edges)
    words = ["train", folder, "--encoding", "rwse:3", "--encoding", "lappe:2", "--hidden", 8, "--layers", 1]
    words += ["--epochs", 1, "--device", "cpu", "--output", tmp_path / "runs", "--run-name", "one", "--quiet"]
    lrga(*words)
    found = lrga("predict", tmp_path / "runs" / "one", folder, "--device", "cpu")
    assert len(found.stdout.splitlines()) == 25
    with pytest.raises(OptionError, match="rwse"):
        lrga(*words[:2], "--encoding", "walks:3")
