"""Molecules with several categories an atom and a bond, in each of the layouts they come in."""

import gzip
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from data_files import shared

from lrga.data import load, spec_of
from lrga.data.datasets import molecules
from lrga.data.datasets.molecules import ATOMS, BONDS
from lrga.data.datasets.spec import dataset_specs
from lrga.errors import DataError, DataMissingError
from lrga.models.zoo import build_model

FILES = {"ogbg-molhiv": "molhiv.npz", "Peptides-func": "peptides_func.npz"}


def make(name, seed=0):
    """Twelve molecules, each bond once, by the names of the prepared file."""
    rng = np.random.default_rng(seed)
    nodes = rng.integers(2, 6, 12)
    bonds = nodes - 1  # chains
    labels = spec_of(name).inputs.out_channels
    return {
        "num_node": nodes.astype(np.uint8),
        "num_bond": bonds.astype(np.uint8),
        "x": np.stack([rng.integers(0, size, nodes.sum()) for size in ATOMS], 1).astype(np.uint8),
        "bond_index": np.concatenate([np.add.outer([0, 1], np.arange(n)) for n in bonds], 1).astype(np.uint8),
        "bond_attr": np.stack([rng.integers(0, size, bonds.sum()) for size in BONDS], 1).astype(np.uint8),
        "y": rng.integers(0, 2, (12, labels)).astype(np.uint8),
        "train": np.array([0, 2, 4, 6, 8, 10, 11, 1]),
        "val": np.array([3, 5]),
        "test": np.array([7, 9]),
    }


@pytest.fixture(params=FILES)
def small(request, tmp_path, monkeypatch):
    """(name, arrays, root) of a set that says that it has twelve molecules."""
    arrays = make(request.param)
    nodes, bonds = int(arrays["num_node"].sum()), int(arrays["num_bond"].sum())
    sizes = {"train": 8, "val": 2, "test": 2}
    spec = replace(
        spec_of(request.param), splits=sizes, mean_nodes=round(nodes / 12, 2), mean_edges=round(2 * bonds / 12, 2)
    )
    monkeypatch.setitem(dataset_specs(), request.param, spec)
    return request.param, arrays, tmp_path


def write_ogb(folder: Path, arrays) -> None:
    """The same in the files of OGB's archive."""
    tables = {
        "raw/num-node-list": arrays["num_node"], "raw/num-edge-list": arrays["num_bond"],
        "raw/node-feat": arrays["x"], "raw/edge-feat": arrays["bond_attr"], "raw/edge": arrays["bond_index"].T,
        "raw/graph-label": arrays["y"], "split/scaffold/train": arrays["train"], "split/scaffold/valid": arrays["val"],
        "split/scaffold/test": arrays["test"],
    }  # fmt: skip
    for name, table in tables.items():
        path = folder / f"{name}.csv.gz"
        path.parent.mkdir(parents=True, exist_ok=True)
        with gzip.open(path, "wt") as file:
            np.savetxt(file, table, delimiter=",", fmt="%d")


def write_lrgb(folder: Path, arrays) -> None:
    """The same in the files that PyG's LRGBDataset downloads: both directions of every bond."""
    folder.mkdir(parents=True)
    nodes, bonds = (np.concatenate([[0], np.cumsum(arrays[key], dtype=np.int64)]) for key in ("num_node", "num_bond"))
    for split in ("train", "val", "test"):
        graphs = []
        for i in arrays[split]:
            ends = torch.from_numpy(arrays["bond_index"][:, bonds[i] : bonds[i + 1]].astype(np.int64))
            attributes = torch.from_numpy(arrays["bond_attr"][bonds[i] : bonds[i + 1]].astype(np.int64))
            both = torch.stack([ends, ends.flip(0)], 2).reshape(2, -1)
            x = torch.from_numpy(arrays["x"][nodes[i] : nodes[i + 1]].astype(np.int64))
            y = torch.from_numpy(arrays["y"][i : i + 1].astype(np.float32))
            graphs.append((x, attributes.repeat_interleave(2, 0), both, y))
        torch.save(graphs, folder / f"{split}.pt")


def same(a, b):
    return all(
        torch.equal(a[split].columns[name].values, b[split].columns[name].values)
        and torch.equal(a[split].source, b[split].source)
        for split in a
        for name in a[split].columns
    )


def test_every_layout_gives_the_same_molecules(small):
    name, arrays, root = small
    (root / "npz").mkdir()
    np.savez(root / "npz" / FILES[name], **arrays)
    prepared = load(name, root / "a", source=root / "npz")
    write = write_ogb if name == "ogbg-molhiv" else write_lrgb
    write(root / "official" / ("hiv" if name == "ogbg-molhiv" else "peptidesfunc"), arrays)
    assert same(prepared, load(name, root / "b", source=root / "official"))
    first = prepared["val"][0]  # molecule 3
    begin, bonds = int(arrays["num_node"][:3].sum()), int(arrays["num_bond"][:3].sum())
    count = int(arrays["num_node"][3])
    assert first.x.tolist() == arrays["x"][begin : begin + count].tolist()
    assert first.edge_attr.shape == (2 * (count - 1), 3)
    forward = {(int(a), int(b)): attr for a, b, attr in zip(*first.edge_index, first.edge_attr.tolist(), strict=True)}
    for k in range(count - 1):
        assert forward[k, k + 1] == forward[k + 1, k] == arrays["bond_attr"][bonds + k].tolist()
    assert first.y.tolist() == [arrays["y"][3].tolist()]
    assert first.y.dtype == torch.float32


def test_sizes_take_the_first_of_each_split(small):
    name, arrays, root = small
    np.savez(root / FILES[name], **arrays)
    splits = load(name, root / "root", source=root, sizes=(3, 1, 2))
    assert {split: len(graphs) for split, graphs in splits.items()} == {"train": 3, "val": 1, "test": 2}
    assert splits["train"].nodes_per_graph.tolist() == arrays["num_node"][[0, 2, 4]].tolist()


@pytest.mark.parametrize(
    ("key", "change", "says"),
    [
        ("x", lambda x: x + 119, "atom features below"),
        ("bond_attr", lambda e: e[:, :2], "bond features below"),
        ("y", lambda y: y + 2, r"labels \(0 or 1\)"),
        ("val", lambda v: v[:1], "'val': 1"),
        ("test", lambda t: t * 0 + 3, "in one split"),
        ("num_bond", lambda n: n + 1, "matching shapes"),
        ("bond_index", lambda e: e + 5, "between its nodes"),
    ],
)
def test_molecules_that_cannot_be_are_refused(small, key, change, says):
    name, arrays, root = small
    np.savez(root / FILES[name], **(arrays | {key: change(arrays[key])}))
    with pytest.raises(DataError, match=says):
        load(name, root / "root", source=root)


def test_other_objects_in_the_files_of_lrgb_are_refused(tmp_path):
    real = (torch.zeros(2, 9), torch.zeros(1, 3), torch.zeros(2, 1), torch.zeros(1, 10))
    for split in ("train", "val", "test"):
        torch.save([real], tmp_path / f"{split}.pt")
    with pytest.raises(DataError, match="a list of"):
        molecules.read_lrgb([tmp_path / f"{split}.pt" for split in ("train", "val", "test")])


@pytest.mark.parametrize("name", FILES)
def test_missing_files_are_named_with_where_they_come_from(tmp_path, name):
    (tmp_path / "source").mkdir()
    with pytest.raises(DataMissingError, match=spec_of(name).files[0].name):
        load(name, tmp_path / "root", source=tmp_path / "source")


@pytest.mark.parametrize("conv", ["gcn", "gatedgcn"])
def test_a_network_takes_the_molecules(small, conv):
    name, arrays, root = small
    np.savez(root / FILES[name], **arrays)
    batch = load(name, root / "root", source=root)["train"].batch([0, 1, 2])
    model = build_model(name, conv, hidden=16, layers=2)
    out = model(batch.x, batch.edge_index, batch.edge_attr, batch.batch, 3)
    assert out.shape == batch.y.shape == (3, spec_of(name).inputs.out_channels)


@pytest.mark.parametrize(("name", "positive"), [("ogbg-molhiv", [1232, 81, 130]), ("Peptides-func", None)])
def test_the_real_files_have_the_published_totals(tmp_path, name, positive):
    shared("ogbg_molhiv")
    splits = load(name, tmp_path, source=shared())
    assert {split: len(graphs) for split, graphs in splits.items()} == spec_of(name).splits
    if positive is not None:
        assert [int(graphs.y.sum()) for graphs in splits.values()] == positive
