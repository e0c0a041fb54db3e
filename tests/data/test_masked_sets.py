"""Sets that are one graph, its nodes divided by masks: Planetoid's and the heterophilous ones."""

import pickle
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse
import torch
from data_files import shared
from torch_geometric.io import read_planetoid_data

from lrga.data import PackedGraphs, load, spec_of
from lrga.data.datasets import masked, planetoid
from lrga.data.datasets.building import plan_dataset
from lrga.data.datasets.spec import Inputs, dataset_specs
from lrga.errors import ChecksumError, DataError, DataMissingError, OptionError
from lrga.training import train
from lrga.training.presets import make_config
from lrga.training.problems.data import load_training_data

PLANETOID = ("Cora", "CiteSeer", "PubMed")
HETEROPHILOUS = ("minesweeper", "tolokers", "chameleon-filtered", "squirrel-filtered", "actor")


def write_planetoid(folder: Path, name: str) -> dict[str, Path]:
    """A graph in Planetoid's files: 0 to 519 in allx, tests 522, 520 and 523; 521 is in the graph alone."""
    folder.mkdir(parents=True, exist_ok=True)
    rng = np.random.default_rng(0)
    x = scipy.sparse.csr_matrix((rng.random((523, 6)) < 0.4).astype(np.float32))
    y = np.eye(3, dtype=np.int32)[rng.integers(0, 3, 523)]
    neighbours = {node: [(node + step) % 524 for step in (1, 5, -5, -1)] for node in range(524)}
    neighbours[3] += [3, neighbours[3][0]]  # a loop and a duplicate
    parts = {"x": x[:2], "tx": x[520:], "allx": x[:520], "y": y[:2], "ty": y[520:], "ally": y[:520]}
    paths = {part: folder / f"ind.{name}.{part}" for part in planetoid.PARTS}
    for part, value in (parts | {"graph": neighbours}).items():
        # As Python 2 and the scipy of the time wrote them.
        written = pickle.dumps(value, protocol=2).replace(b"scipy.sparse._csr\n", b"scipy.sparse.csr\n")
        paths[part].write_bytes(written.replace(b"numpy._core.", b"numpy.core."))
    paths["test.index"].write_text("522\n520\n523\n")
    return paths


def write_heterophilous(folder: Path, name: str, **changes: np.ndarray) -> Path:
    """A ring of 30 nodes with ten random splits, in the publisher's form."""
    rng = np.random.default_rng(1)
    part = np.stack([rng.permutation(30) % 3 for _ in range(10)])
    arrays = {
        "node_features": rng.random((30, 4)).astype(np.float32),
        "node_labels": np.arange(30) % 5,
        "edges": np.stack([np.arange(30), (np.arange(30) + 1) % 30], 1),
        **{f"{split}_masks": part == number for number, split in enumerate(("train", "val", "test"))},
    }
    folder.mkdir(parents=True, exist_ok=True)
    np.savez(folder / f"{name}.npz", **(arrays | changes))
    return folder / f"{name}.npz"


@pytest.fixture
def small_actor(tmp_path, monkeypatch):
    """``actor``, but of 30 nodes."""
    write_heterophilous(tmp_path / "source", "actor")
    small = {"mean_nodes": 30, "mean_edges": 60, "splits": {"train": 10, "val": 10, "test": 10}}
    spec = replace(spec_of("actor"), inputs=Inputs("node", 5, "linear", 4, "ones"), **small)
    monkeypatch.setitem(dataset_specs(), "actor", spec)
    return tmp_path / "source"


def test_planetoids_files_are_read_as_pyg_reads_them(tmp_path):
    paths = write_planetoid(tmp_path, "citeseer")
    ours, theirs = planetoid.read_raw(paths), read_planetoid_data(str(tmp_path), "citeseer")
    assert torch.equal(torch.from_numpy(ours.x), theirs.x)
    assert torch.equal(torch.from_numpy(ours.y), theirs.y)
    assert np.array_equal(ours.splits["train"], [0, 1])
    assert np.array_equal(ours.splits["test"], [522, 520, 523])
    pairs = sorted(map(tuple, theirs.edge_index.t().tolist()))
    assert sorted(map(tuple, ours.edge_index.T.tolist())) == pairs
    assert not (ours.edge_index[0] == ours.edge_index[1]).any()
    assert not ours.x[521].any()


@pytest.mark.parametrize(
    ("part", "content", "says"),
    [
        ("allx", pickle.dumps([1, 2]), "sparse matrix"),
        ("ally", pickle.dumps({"a": 1}), "one-hot"),
        ("graph", pickle.dumps({0: ["a"]}), "lists of neighbours"),
        ("test.index", b"522\nx\n523\n", "integers"),
        ("test.index", b"522\n523\n", "matching sizes"),
        ("tx", b"cposix\nsystem\n(S'true'\ntR.", "posix.system"),
    ],
)
def test_a_damaged_or_foreign_file_of_planetoid_is_refused(tmp_path, part, content, says):
    paths = write_planetoid(tmp_path, "cora")
    paths[part].write_bytes(content)
    with pytest.raises(DataError, match=says):
        planetoid.read_raw(paths)


def test_other_totals_than_the_published_ones_are_refused(tmp_path):
    write_planetoid(tmp_path / "source", "cora")
    with pytest.raises(DataError, match=r"nodes 2,708, edges 10,556.*nodes 524"):
        load("Cora", tmp_path / "root", source=tmp_path / "source")
    write_heterophilous(tmp_path / "source", "actor")
    with pytest.raises(DataError, match=r"nodes 7,600.*nodes 30"):
        load("actor", tmp_path / "root", source=tmp_path / "source")


@pytest.mark.parametrize("name", ["Cora", "actor"])
def test_missing_files_are_named_with_where_they_come_from(tmp_path, name):
    (tmp_path / "source").mkdir()
    with pytest.raises(DataMissingError, match=r"github\.com"):
        load(name, tmp_path / "root", source=tmp_path / "source")
    with pytest.raises(DataMissingError, match="downloading is off"):
        load(name, tmp_path / "root", download=False)


def test_another_file_than_the_official_one_is_not_believed(tmp_path):
    write_heterophilous(tmp_path / "root/actor/raw", "actor")
    with pytest.raises(ChecksumError, match=r"actor\.npz"):
        load("actor", tmp_path / "root", download=False)


def test_one_graph_is_stored_once_and_its_splits_share_its_memory(tmp_path, small_actor):
    splits = load("actor", tmp_path / "root", source=small_actor)
    assert [path.name for path in (tmp_path / "root/actor").rglob("*.safetensors")] == ["graph.safetensors"]
    train_split, test_split = splits["train"], splits["test"]
    assert train_split.source is test_split.source
    assert train_split.columns["x"] is test_split.columns["x"]
    assert list(train_split.columns) == ["x", "y", "mask"]
    masks = torch.stack([graphs.attribute("mask") for graphs in splits.values()])
    assert masks.sum(0).tolist() == [1] * 30
    assert train_split.num_edges == 60
    assert (splits["val"].meta["dataset"], splits["val"].meta["split"]) == ("actor", "val")
    moved = PackedGraphs.move(splits, "meta")
    assert moved["train"].columns["x"] is moved["test"].columns["x"]
    assert moved["train"].columns["mask"] is not moved["test"].columns["mask"]
    assert moved["val"].device.type == "meta"


def test_a_split_is_chosen_by_its_number(tmp_path, small_actor):
    first, last = (load("actor", tmp_path / "root", source=small_actor, split=n)["train"] for n in (0, 9))
    assert not torch.equal(first.attribute("mask"), last.attribute("mask"))
    assert plan_dataset("actor", tmp_path / "root", split=9).folder.name == "split-9"
    for wrong in (10, -1, 1.5, True):
        with pytest.raises(OptionError, match="from 0 to 9"):
            spec_of("actor").options(split=wrong)


def test_arrays_that_do_not_fit_overlap_or_are_no_masks_are_refused(tmp_path, small_actor):
    write_heterophilous(small_actor, "actor", node_labels=np.arange(29))
    with pytest.raises(DataError, match="matching shapes"):
        load("actor", tmp_path / "root", source=small_actor)
    write_heterophilous(small_actor, "actor", val_masks=np.ones((10, 30), bool))
    with pytest.raises(DataError, match="overlap"):
        load("actor", tmp_path / "root", source=small_actor)
    write_heterophilous(small_actor, "actor", val_masks=np.full((10, 30), 0.5))
    with pytest.raises(DataError, match="matching shapes, bool masks"):
        load("actor", tmp_path / "root", source=small_actor)


@pytest.mark.parametrize("values", [np.arange(30) % 5 - 1, np.arange(30) % 5 + 0.5, np.arange(30) % 5 == 1])
def test_classes_and_split_nodes_are_integers_from_0(tmp_path, small_actor, values):
    write_heterophilous(small_actor, "actor", node_labels=values)
    with pytest.raises(DataError, match=r"integers from 0 in every class of .*actor\.npz"):
        load("actor", tmp_path / "root", source=small_actor)
    graph = masked.Graph(np.ones((30, 4)), np.arange(30) % 5, np.ones((2, 60), int), {"train": values})
    with pytest.raises(DataError, match="integers from 0 in every train of file"):
        masked.masked_graph(spec_of("actor"), "file", graph)


def test_a_network_learns_on_the_nodes_of_train_alone(tmp_path, small_actor):
    config = make_config(
        "actor", hidden=8, layers=2, max_epochs=2, device="cpu", root=str(tmp_path / "root"), source=str(small_actor),
        data_options={"split": 2},
    )  # fmt: skip
    data = load_training_data(config.data)
    assert (data.dataset, data.task.metric, data.inputs.in_channels) == ("actor", "accuracy", 4)
    result = train(config, tmp_path / "run")
    assert result.finished
    assert result.epochs == 2


@pytest.mark.parametrize(
    "options", [pytest.param({"max_epochs": 20}, marks=pytest.mark.slow), {"max_epochs": 14, "fanouts": [10, 5]}]
)
def test_a_small_network_learns_on_the_real_cora(tmp_path, options):
    shared("planetoid")
    config = make_config(
        "Cora", hidden=64, layers=2, device="cpu", root=str(tmp_path / "root"), source=str(shared()),
        **options,
    )  # fmt: skip
    assert train(config, tmp_path / "run").best.val_metric > 45  # the largest class is 32% of these nodes


@pytest.mark.parametrize("name", [*PLANETOID, *HETEROPHILOUS])
def test_the_real_files_have_the_published_totals(tmp_path, name):
    shared("planetoid")
    spec = spec_of(name)
    splits = load(name, tmp_path, source=shared())
    assert {split: int(graphs.attribute("mask").sum()) for split, graphs in splits.items()} == spec.splits
    graph = splits["train"]
    assert (graph.num_nodes, graph.num_edges) == (spec.mean_nodes, spec.mean_edges)
    assert graph.x.shape == (graph.num_nodes, spec.inputs.in_channels)
    source, target = graph.edge_index
    forward, backward = source * graph.num_nodes + target, target * graph.num_nodes + source
    assert torch.equal(forward.sort()[0], backward.sort()[0])
