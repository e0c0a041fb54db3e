"""A run folder, configuration file or record of somebody else runs no code and chooses no folder to write to."""

import json
import shutil
import sys

import pytest
import torch

from lrga.errors import CheckpointError, OptionError, UntrustedCodeError
from lrga.experiments.campaign import Campaign
from lrga.experiments.study import Cell
from lrga.explain.attention import explain
from lrga.training import TrainingConfig, continue_run
from lrga.training.predict import Predictor
from lrga.training.presets import make_config
from lrga.training.runs.trust import data_from_file
from reproduction.verification import verify
from tests.helpers.commands import lrga

MODULE = """
from pathlib import Path
import torch
from torch_geometric.data import Data

Path("imported").touch()


def graphs():
    torch.manual_seed(0)
    return [Data(x=torch.randn(4, 2), edge_index=torch.tensor([[0, 1], [1, 0]]), y=i % 2) for i in range(20)]
"""
SHAPE = ["--hidden", "8", "--layers", "1", "--batch-size", "4", "--device", "cpu", "--epochs", "1", "--quiet"]
CLUSTER = ["CLUSTER", "--sizes", "8,4,4", *SHAPE]


@pytest.fixture(autouse=True)
def place(tmp_path, monkeypatch, one_thread):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("LRGA_DATA", str(tmp_path / "data"))
    yield
    sys.modules.pop("foreign", None)


@pytest.fixture
def run(tmp_path):
    """A run on graphs of a module, as it looks to somebody who got the folder: the module not imported yet."""
    (tmp_path / "foreign.py").write_text(MODULE)
    lrga("train", "foreign:graphs", *SHAPE, "--run-name", "a")
    sys.modules.pop("foreign")
    (tmp_path / "imported").unlink()
    return tmp_path / "runs" / "a"


@pytest.mark.parametrize(
    ("command", "remedy"),
    [
        (["train", "--resume", "runs/a"], "lrga train foreign:graphs --resume runs/a"),
        (["train", "--resume", "runs/a", "--epochs", "3"], "lrga train foreign:graphs --resume runs/a"),
        (["train", "--resume", "runs/a", "--dry-run"], "lrga train foreign:graphs --resume runs/a"),
        (["train", "--config", "runs/a/config.json"], "lrga train foreign:graphs --config runs/a/config.json"),
        (["train", "--config", "runs/a/config.json", "--dry-run"], "--config runs/a/config.json"),
        (["train", "--config", "runs/a/config.json", "--seeds", "1"], "--config runs/a/config.json"),
        (["explain", "runs/a"], "lrga explain runs/a --input foreign:graphs"),
    ],
)
def test_a_module_that_only_a_file_names_is_not_imported(run, tmp_path, command, remedy):
    before = {path: path.read_bytes() for path in run.rglob("*") if path.is_file()}
    with pytest.raises(UntrustedCodeError, match="which runs its code") as refusal:
        lrga(*command)
    assert remedy in str(refusal.value)
    assert "--trust" in str(refusal.value)
    assert not (tmp_path / "imported").exists()
    assert "foreign" not in sys.modules
    assert {path: path.read_bytes() for path in run.rglob("*") if path.is_file()} == before


@pytest.mark.parametrize(
    "command",
    [
        ["train", "--resume", "runs/a", "--epochs", "2", "--quiet", "--trust"],
        ["train", "foreign:graphs", "--resume", "runs/a", "--epochs", "2", "--quiet"],
        ["train", "--resume", "runs/a", "--dry-run", "--trust"],
        ["train", "--config", "runs/a/config.json", "--quiet", "--trust"],
        ["train", "foreign:graphs", "--config", "runs/a/config.json", "--quiet"],
        ["explain", "runs/a", "--trust"],
        ["explain", "runs/a", "--input", "foreign:graphs"],
        ["predict", "runs/a", "foreign:graphs"],
    ],
)
def test_with_trust_or_named_on_the_command_line_it_is(run, tmp_path, command):
    lrga(*command)
    assert (tmp_path / "imported").exists()


def test_another_module_on_the_command_line_does_not_vouch_for_the_one_in_the_folder(run, tmp_path):
    (tmp_path / "mine.py").write_text(MODULE.replace('"imported"', '"mine_imported"'))
    with pytest.raises(CheckpointError, match="name="):
        lrga("train", "mine:graphs", "--resume", "runs/a")
    assert not (tmp_path / "imported").exists()


def test_reading_predicting_and_reporting_import_nothing(run, tmp_path):
    torch.save(_graphs(), tmp_path / "mine.pt")
    assert "prediction" in lrga("predict", run, "mine.pt").stdout
    lrga("explain", run, "--input", "mine.pt")
    lrga("report", run, "-o", "page.html")
    assert not (tmp_path / "imported").exists()


def test_python_takes_trust_too(run, tmp_path):
    for call in (
        lambda: continue_run(run),
        lambda: explain(run),
        lambda: TrainingConfig.load(run / "config.json"),
    ):
        with pytest.raises(UntrustedCodeError):
            call()
    assert not (tmp_path / "imported").exists()
    assert TrainingConfig.load(run / "config.json", trust=True).data.name == "foreign:graphs"
    assert explain(run, trust=True).num_nodes == 4
    assert continue_run(run, max_epochs=2, trust=True).epochs == 2


def test_a_record_is_not_verified_by_importing_what_it_names(run, tmp_path):
    options = {"hidden": 8, "layers": 1, "batch_size": 4, "device": "cpu", "max_epochs": 1}
    Campaign([Cell(labels={}, config=make_config("foreign:graphs", **options), seeds=(41,))], tmp_path / "all").run()
    (path,) = (tmp_path / "all" / "records").iterdir()
    sys.modules.pop("foreign")
    (tmp_path / "imported").unlink()
    with pytest.raises(UntrustedCodeError, match="--trust"):
        lrga("reproduce", "verify", path, "--device", "cpu")
    assert not (tmp_path / "imported").exists()
    again = lrga("reproduce", "verify", path, "--device", "cpu", "--trust")
    assert "Equal to the last bit." in again.stdout


def test_trust_without_a_file_to_trust_is_refused():
    with pytest.raises(OptionError, match="--trust with --resume or --config"):
        lrga("train", *CLUSTER, "--trust")


def _graphs():
    from torch_geometric.data import Data

    return [Data(x=torch.randn(3, 2), edge_index=torch.tensor([[0], [1]])) for _ in range(2)]


@pytest.fixture
def elsewhere(tmp_path):
    """A run whose configuration names a data root that holds nothing yet, and a folder to build from."""
    lrga("train", *CLUSTER, "--run-name", "b")
    run = tmp_path / "runs" / "b"
    values = json.loads((run / "config.json").read_text())
    values["data"] |= {"root": str(tmp_path / "not" / "mine")}
    (run / "config.json").write_text(json.dumps(values))
    return run


@pytest.mark.parametrize(
    "command",
    [
        ["train", "--resume", "runs/b", "--epochs", "2", "--quiet"],
        ["train", "--resume", "runs/b", "--dry-run"],
        ["train", "--config", "runs/b/config.json", "--quiet"],
        ["explain", "runs/b"],
        ["explain", "runs/b", "--input", "CLUSTER/test"],
        ["predict", "runs/b", "CLUSTER/test"],
    ],
)
def test_a_data_root_that_only_a_file_names_is_not_written_to(elsewhere, tmp_path, command):
    with pytest.warns(UserWarning, match="not/mine, where CLUSTER is not built .*using the data root .*data instead"):
        lrga(*command)
    assert not (tmp_path / "not").exists()
    assert (tmp_path / "data").is_dir()


def test_it_is_written_to_with_trust_and_read_where_it_is_built(elsewhere, tmp_path):
    lrga("predict", elsewhere, "CLUSTER/test", "--trust")
    assert (tmp_path / "not" / "mine" / "CLUSTER").is_dir()
    shutil.rmtree(tmp_path / "data")
    lrga("train", "--resume", elsewhere, "--epochs", "2", "--quiet")
    assert not (tmp_path / "data").exists()
    assert json.loads((elsewhere / "config.json").read_text())["data"]["root"] == str(tmp_path / "not" / "mine")


def test_a_root_named_on_the_command_line_is_the_users_own(elsewhere, tmp_path):
    lrga("train", "--resume", elsewhere, "--epochs", "2", "--quiet", "--data-root", "third")
    assert (tmp_path / "third" / "CLUSTER").is_dir()
    assert not (tmp_path / "not").exists()


def test_nothing_is_built_from_a_source_that_only_a_file_names(tmp_path):
    data = make_config("ZINC", source=str(tmp_path / "theirs")).data
    with pytest.warns(UserWarning, match="runs/c names the source .*theirs, .*; using the data root .* instead"):
        assert data_from_file(data, "runs/c").source is None
    assert data_from_file(data, "runs/c", trust=True).source == str(tmp_path / "theirs")
    assert data_from_file(data, "runs/c", source=tmp_path / "mine").source == str(tmp_path / "mine")


def test_a_record_chooses_no_root_either(tmp_path):
    options = {"hidden": 8, "layers": 1, "batch_size": 4, "device": "cpu", "max_epochs": 1}
    config = make_config("CLUSTER", data_options={"sizes": (8, 4, 4)}, **options)
    Campaign([Cell(labels={}, config=config, seeds=(41,))], tmp_path / "all").run()
    (path,) = (tmp_path / "all" / "records").iterdir()
    values = json.loads(path.read_text())
    values["config"]["data"]["root"] = str(tmp_path / "theirs")
    path.write_text(json.dumps(values))
    with pytest.warns(UserWarning, match="theirs, where CLUSTER is not built yet; using the data root .* instead"):
        assert verify(path, device="cpu", progress=False, output=tmp_path / "again").equal
    assert not (tmp_path / "theirs").exists()


def test_the_model_of_a_run_is_loaded_without_its_data(run, tmp_path):
    assert Predictor.of(run, device="cpu").task.kind == "classification"
    assert not (tmp_path / "imported").exists()
