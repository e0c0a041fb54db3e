"""Peptides-func and ogbg-molhiv: molecules with nine categorical features per atom and three per bond.

Both can be read from a prepared ``.npz`` file of flat arrays (each bond once), ogbg-molhiv also from the files of the
Open Graph Benchmark (each bond once), and Peptides-func also from the ``.pt`` files of PyG (both directions).
"""

from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from lrga.data.datasets.ogb import OGB
from lrga.data.datasets.source import BuildContext, demand, read_arrays, read_numbers
from lrga.data.datasets.spec import SPLITS, DatasetSpec, Inputs, Schedule, TaskSpec, spec_of
from lrga.data.packed.arrays import pack_arrays
from lrga.data.packed.graphs import PackedGraphs
from lrga.io.download import RemoteFile
from lrga.io.limits import reading
from lrga.io.unpickle import read_pt

ATOMS = (119, 5, 12, 12, 10, 6, 6, 2, 2)
"""Categories of atomic number, chirality, degree, charge, hydrogens, radicals, hybridisation, aromaticity and ring."""
BONDS = (5, 6, 2)
"""Categories of bond type, stereo and conjugation."""
_ARRAYS = ("num_node", "num_bond", "x", "bond_index", "bond_attr", "y", *SPLITS)
_OGB_FILES = {  # file → number of columns, in the order of _ARRAYS
    "raw/num-node-list.csv.gz": 1,
    "raw/num-edge-list.csv.gz": 1,
    "raw/node-feat.csv.gz": len(ATOMS),
    "raw/edge.csv.gz": 2,
    "raw/edge-feat.csv.gz": len(BONDS),
    "raw/graph-label.csv.gz": 1,
    **{f"split/scaffold/{split}.csv.gz": 1 for split in ("train", "valid", "test")},
}

Molecules = dict[str, np.ndarray]
"""Arguments of :func:`pack_arrays` for all molecules, and the rows of each split."""


def build(
    name: str,
    prepared: str,
    official: Sequence[str],
    read: Callable[[list[Path]], Molecules],
    below: tuple[str, ...],
    context: BuildContext,
    *,
    sizes: list[int],
) -> dict[str, PackedGraphs]:
    """Builds the molecules: x [N, 9] and edge_attr [E, 3] categories, y [G, T] 0 or 1.

    They are read from the file ``prepared`` of flat arrays or from the ``official`` files, with ``read``. The totals of
    all molecules are compared with the published ones.
    """
    spec = spec_of(name)
    paths, form = context.locate(spec.files, [prepared], official, below=(*below, name, "raw"))
    where, found = paths[0], read_prepared(paths[0]) if form == 0 else read(paths)
    for what, values, bounds in (("atom", found["x"], ATOMS), ("bond", found["edge_attr"], BONDS)):
        low, high = values.min(0, initial=0), values.max(0, initial=0)
        fits = values.shape[1:] == (len(bounds),) and (low >= 0).all() and (high < bounds).all()
        got = f"shape {list(values.shape)}, up to {high.tolist()}"
        demand(fits, where, f"{what} features below {list(bounds)}", got)
    rows = {split: found.pop(split).astype(np.int64) for split in SPLITS}
    y = found.pop("y").astype(np.float32)
    fits = y.shape == (len(found["num_nodes"]), spec.inputs.out_channels) and np.isin(y, (0, 1)).all()
    demand(fits, where, f"{spec.inputs.out_channels} labels (0 or 1)", f"shape {list(y.shape)}")
    totals = {split: len(numbers) for split, numbers in rows.items()}
    means = [round(int(found[key].sum()) / max(1, len(y)), 2) for key in ("num_nodes", "num_edges")]
    count = sum(spec.splits.values())
    fits = totals == spec.splits and len(y) == count and means == [spec.mean_nodes, spec.mean_edges]
    expected = f"{spec.splits} molecules of {spec.mean_nodes} atoms and {spec.mean_edges} edges"
    demand(fits, where, expected, f"{totals} of {means[0]} and {means[1]}")
    numbers = np.sort(np.concatenate(list(rows.values())))
    demand((numbers == np.arange(count)).all(), where, "every molecule in one split", "some in none or in several")
    whole: Any = {key: values.astype(np.int64) for key, values in found.items()}
    packed = pack_arrays(**whole, y=y, y_level="graph", keep_edge_order=False)
    return {split: packed[rows[split][:size]] for split, size in zip(SPLITS, sizes, strict=True)}


def read_prepared(path: Path) -> Molecules:
    """Reads the molecules of a ``.npz`` file with each bond once."""
    return _both_ways(path, read_arrays(path, _ARRAYS))


def read_ogb(paths: list[Path]) -> Molecules:
    """Reads the molecules from the files of OGB's archive, in the order of :data:`_OGB_FILES`."""
    tables = [read_numbers(path, columns=columns) for path, columns in zip(paths, _OGB_FILES.values(), strict=True)]
    found = dict(zip(_ARRAYS, tables, strict=True))
    flat = {name: found[name][:, 0] for name in ("num_node", "num_bond", *SPLITS)}
    return _both_ways(paths[0].parent, found | flat | {"bond_index": found["bond_index"].T})


def _both_ways(where: Path, once: dict[str, np.ndarray]) -> Molecules:
    """Replaces each bond (i, j) by two consecutive edges i → j and j → i."""
    nodes, bonds, x, index, attributes, y = (once[name] for name in _ARRAYS[:6])
    total = int(bonds.sum(dtype=np.int64))
    fits = nodes.shape == bonds.shape == y.shape[:1] and len(x) == int(nodes.sum(dtype=np.int64))
    got = f"{len(nodes)} molecules, {len(x)} atoms, bond_index {list(index.shape)}, {len(attributes)} bond features"
    fits = fits and index.shape == (2, total) and len(attributes) == total
    demand(fits, where, "arrays of matching shapes", got)
    edge_index = np.stack([index, index[::-1]], axis=2).reshape(2, -1)
    edges = {"num_edges": 2 * bonds.astype(np.int64), "edge_index": edge_index, "edge_attr": attributes.repeat(2, 0)}
    return {"num_nodes": nodes, "x": x, "y": y} | edges | {split: once[split] for split in SPLITS}


def read_lrgb(paths: list[Path]) -> Molecules:
    """Reads the molecules from ``train.pt``, ``val.pt`` and ``test.pt``: lists of (x, edge_attr, edge_index, y)."""
    splits: dict[str, np.ndarray] = {}
    graphs: list[Any] = []
    for split, path in zip(SPLITS, paths, strict=True):
        what = "a list of (x [N, 9], edge_attr [E, 3], edge_index [2, E], y [1, T]) in"
        with reading(path, what, remedy="download it again"):
            found = [[part.numpy() for part in graph] for graph in read_pt(path)]
            fits = all(x.dtype.kind == bonds.dtype.kind == "i" for x, bonds, _, _ in found)
            shapes = {(x.shape[1], bonds.shape[1], *index.shape[:-1], len(y)) for x, bonds, index, y in found}
            fits = fits and all(len(bonds) == index.shape[1] for _, bonds, index, _ in found)
            demand(fits and shapes == {(len(ATOMS), len(BONDS), 2, 1)}, path, what, "other shapes or types")
        splits[split] = np.arange(len(graphs), len(graphs) + len(found))
        graphs += found
    x, bonds, index, y = zip(*graphs, strict=True)
    return splits | {
        "num_nodes": np.array([len(rows) for rows in x]),
        "num_edges": np.array([len(rows) for rows in bonds]),
        "edge_index": np.concatenate(index, axis=1),
        "x": np.concatenate(x),
        "edge_attr": np.concatenate(bonds),
        "y": np.concatenate(y),
    }


_LRGB_FILES = [f"{split}.pt" for split in SPLITS]
SPECS = (
    DatasetSpec(
        name="Peptides-func",
        inputs=Inputs("graph", 10, "embeddings", ATOMS, "embeddings", BONDS),
        task=TaskSpec("multilabel", "binary_cross_entropy", "average_precision"),
        splits={"train": 10_873, "val": 2_331, "test": 2_331},
        mean_nodes=150.94,
        mean_edges=307.3,
        node_features="nine atom categories (as in OGB)",
        edge_features="three bond categories (as in OGB)",
        origin="peptides of SATPdb, labelled with up to ten functions each; the files of PyG's LRGBDataset",
        licence="CC BY-NC 4.0",
        terms="CC BY-NC 4.0: not for commercial use; name the authors of the Long Range Graph Benchmark",
        citation=(
            "Dwivedi, Rampášek, Galkin, Parviz, Wolf, Luu, Beaini: Long Range Graph Benchmark. NeurIPS 2022. "
            "arXiv:2206.08164",
            "Singh et al.: SATPdb: a database of structurally annotated therapeutic peptides. "
            "Nucleic Acids Research 44(D1), 2016",
        ),
        build=partial(
            build, "Peptides-func", "peptides_func.npz", _LRGB_FILES, read_lrgb, ("peptides_func", "peptidesfunc")
        ),
        files=(RemoteFile("https://www.dropbox.com/s/ycsq37q8sxs1ou8/peptidesfunc.zip?dl=1", "peptidesfunc.zip"),),
        schedule=Schedule(max_epochs=250),
    ),
    DatasetSpec(
        name="ogbg-molhiv",
        inputs=Inputs("graph", 1, "embeddings", ATOMS, "embeddings", BONDS),
        task=TaskSpec("multilabel", "binary_cross_entropy", "roc_auc"),
        splits={"train": 32_901, "val": 4_113, "test": 4_113},
        mean_nodes=25.51,
        mean_edges=54.94,
        node_features="nine atom categories",
        edge_features="three bond categories",
        origin="molecules, labelled by whether they inhibit HIV, split by scaffold; the Open Graph Benchmark's files",
        licence="MIT",
        terms="MIT, as the Open Graph Benchmark states",
        citation=(
            OGB,
            "Wu, Ramsundar, Feinberg, Gomes, Geniesse, Pappu, Leswing, Pande: MoleculeNet: a benchmark for molecular "
            "machine learning. Chemical Science 9(2), 2018",
        ),
        build=partial(build, "ogbg-molhiv", "molhiv.npz", list(_OGB_FILES), read_ogb, ("ogbg_molhiv", "hiv")),
        files=(RemoteFile("https://snap.stanford.edu/ogb/data/graphproppred/csv_mol_download/hiv.zip", "hiv.zip"),),
        schedule=Schedule(max_epochs=100),
    ),
)
