"""A start that is refused leaves the run folder as it was, byte for byte."""

import os
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))
from link_graphs import communities, config_of

from lrga.errors import CheckpointError, DataError, FolderInUseError, LRGAError, OptionError
from lrga.training import continue_run, train
from lrga.training.runs.folder import RunFolder


def content(folder):
    """All files but the lock, which names the process that held it last."""
    return {path: path.read_bytes() for path in folder.rglob("*") if path.is_file() and path.name != ".lock"}


@pytest.fixture(params=["graphs", "links"])
def kind(request, make_config, make_splits):
    """Configuration and data of a run, and other data, of graphs and of links."""
    if request.param == "graphs":
        return make_config(max_epochs=2), make_splits(), make_splits(seed=1)
    return config_of(max_epochs=2), communities(), communities(seed=1)


@pytest.fixture
def finished(kind, tmp_path):
    config, data, _ = kind
    train(config, tmp_path / "run", data=data)
    return tmp_path / "run"


def test_of_a_finished_run_on_other_data(kind, finished):
    before = content(finished)
    with pytest.raises(CheckpointError, match="under the same name"):
        continue_run(finished, data=kind[2], max_epochs=4)
    assert content(finished) == before


def test_of_a_finished_run_whose_checkpoints_are_damaged(kind, finished):
    for state in (finished / "checkpoints").glob("*/state.json"):
        state.write_text(state.read_text().replace('"epoch"', '"epochs"', 1))
    before = content(finished)
    with pytest.raises(CheckpointError, match="checksum"):
        continue_run(finished, data=kind[1], max_epochs=4)
    assert content(finished) == before


def test_of_a_finished_run_whose_checkpoints_are_gone(kind, finished):
    for path in (finished / "checkpoints").glob("*/*"):
        path.unlink()
    for path in (finished / "checkpoints").glob("*"):
        path.rmdir()
    before = content(finished)
    with pytest.raises(CheckpointError, match="a checkpoint in .* to go on from"):
        continue_run(finished, data=kind[1], max_epochs=4)
    assert content(finished) == before


def test_of_a_run_that_another_process_trains(kind, finished):
    before = content(finished)
    with RunFolder(finished).lock(), pytest.raises(FolderInUseError):
        continue_run(finished, data=kind[1], max_epochs=4)
    assert content(finished) == before


def test_with_fewer_epochs_than_are_done(kind, finished):
    before = content(finished)
    with pytest.raises(OptionError, match="2 epochs"):
        continue_run(finished, data=kind[1], max_epochs=1)
    assert content(finished) == before


def test_with_a_damaged_environment(kind, finished):
    (finished / "environment.json").write_text("null")
    before = content(finished)
    with pytest.raises(CheckpointError, match=r"environment\.json"):
        continue_run(finished, data=kind[1], max_epochs=4)
    assert content(finished) == before


def test_with_damaged_metrics(kind, finished):
    path = finished / "metrics.jsonl"
    path.write_text(
        path.read_text().replace('"val_loss": ', '"val_loss": 1', 1).replace('"lr": ', '"lr": "a", "x": ', 1)
    )
    before = content(finished)
    with pytest.raises(CheckpointError, match=r"metrics\.jsonl"):
        continue_run(finished, data=kind[1], max_epochs=4)
    assert content(finished) == before


def shorter(text):
    return text.replace(" ", "")


def with_carriage_returns(text):
    return text.replace("\n", "\r\n")


def in_another_order(text):
    return "".join(reversed(text.splitlines(keepends=True)))


@pytest.mark.parametrize("change", [shorter, with_carriage_returns, in_another_order])
def test_with_reformatted_metrics(kind, finished, change):
    path = finished / "metrics.jsonl"
    path.write_bytes(change(path.read_text()).encode())
    before = content(finished)
    with pytest.raises(CheckpointError, match=r"metrics\.jsonl"):
        continue_run(finished, data=kind[1], max_epochs=4)
    assert content(finished) == before


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="pipes of POSIX")
@pytest.mark.parametrize("special", ["pipe", "folder", "link"])
@pytest.mark.parametrize(
    "name", ["log.txt", "metrics.jsonl", "environment.json", "result.json", "model.safetensors", "checkpoints"]
)
def test_with_something_else_in_place_of_a_file(kind, finished, tmp_path, name, special):
    path = finished / name
    moved = path.rename(tmp_path / "moved")
    if special == "pipe":
        os.mkfifo(path)
    elif special == "link":
        path.symlink_to(moved)
    else:
        (path / "folder").mkdir(parents=True)
    before = content(tmp_path)
    with pytest.raises(CheckpointError, match=name):
        continue_run(finished, data=kind[1], max_epochs=4)
    assert content(tmp_path) == before


def test_with_an_environment_that_cannot_be_written_again(kind, finished):
    (finished / "environment.json").write_text('[{"load": 1e400}]')
    before = content(finished)
    with pytest.raises(CheckpointError, match=r"environment\.json.*1e400"):
        continue_run(finished, data=kind[1], max_epochs=4)
    assert content(finished) == before
    (finished / "environment.json").write_text('[{"host": "\\ud800"}]')  # half of a pair, which UTF-8 does not have
    assert continue_run(finished, data=kind[1], max_epochs=4).epochs == 4
    assert RunFolder(finished).environments()[0] == {"host": "\ud800"}


class Slow(Mapping):
    """Graphs that take so long to read that another process trains meanwhile."""

    def __init__(self, splits, meanwhile):
        self.splits, self.meanwhile = splits, meanwhile

    def __getitem__(self, key):
        self.meanwhile()
        self.meanwhile = lambda: None
        return self.splits[key]

    def __iter__(self):
        return iter(self.splits)

    def __len__(self):
        return len(self.splits)


def test_another_run_that_began_meanwhile_keeps_its_configuration(make_config, make_splits, tmp_path):
    splits, folder = make_splits(), tmp_path / "run"
    slow = Slow(splits, lambda: train(make_config(lr=0.1), folder, data=splits, time_limit=1e-9))
    with pytest.raises(CheckpointError, match=r"lr=0\.1"):
        train(make_config(lr=0.2), folder, data=slow)
    assert RunFolder(folder).config().optimizer.lr == 0.1
    assert train(make_config(lr=0.1), folder, data=splits).finished


def test_a_run_that_is_refused_leaves_no_folder(make_config, make_splits, tmp_path):
    with pytest.raises(OptionError, match="memory"):
        train(make_config(hidden=10**8), tmp_path / "runs" / "new", data=make_splits())
    assert not (tmp_path / "runs" / "new").exists()


def write_graphs(folder, end=""):
    folder.mkdir(exist_ok=True)
    names = [f"{g}" for g in range(12)]
    (folder / "nodes.csv").write_text("graph,node,x\n" + "".join(f"{g},{n},{n}\n" for g in names for n in range(3)))
    (folder / "edges.csv").write_text("graph,source,target\n" + "".join(f"{g},0,1\n{g},1,0\n" for g in names) + end)
    (folder / "graphs.csv").write_text("graph,y\n" + "".join(f"{g},{int(g) % 2}\n" for g in names))


@pytest.mark.parametrize("end", ["0,0\n", "0,0,9\n", "0,0,2\n0,2,0\n"], ids=["malformed", "no node", "changed"])
def test_own_graphs_that_changed_cost_nothing(make_config, tmp_path, end):
    write_graphs(tmp_path / "own")
    config = make_config(name=str(tmp_path / "own"), max_epochs=1)
    train(config, tmp_path / "run")
    before = content(tmp_path / "run")
    write_graphs(tmp_path / "own", end)
    with pytest.raises((DataError, CheckpointError)):
        continue_run(tmp_path / "run", max_epochs=2)
    assert content(tmp_path / "run") == before
    write_graphs(tmp_path / "own")
    assert continue_run(tmp_path / "run", max_epochs=2).epochs == 2


@pytest.mark.parametrize("end", ["a\n", "n0,n59\nn59,new\n"], ids=["malformed", "changed"])
def test_own_edges_that_changed_cost_nothing(tmp_path, end):
    lines = "".join(f"n{a},n{b}\n" for a, b in communities().edge.tolist())
    (tmp_path / "edges.csv").write_text(lines)
    train(config_of(max_epochs=1).changed(name=str(tmp_path / "edges.csv")), tmp_path / "run")
    before = content(tmp_path / "run")
    (tmp_path / "edges.csv").write_text(lines + end)
    with pytest.raises(LRGAError):
        continue_run(tmp_path / "run", max_epochs=2)
    assert content(tmp_path / "run") == before
