"""ZINC-12k: molecules with the target logP - SA - cycles, from the benchmark's raw pickles or a prepared file."""

from pathlib import Path
from typing import Any

import numpy as np
import torch

from lrga.data.datasets import BENCHMARK, RECIPE
from lrga.data.datasets.source import BuildContext, demand, read_arrays, sizes_option
from lrga.data.datasets.spec import SPLITS, DatasetSpec, Inputs, Schedule, TaskSpec
from lrga.data.packed.arrays import pack_arrays
from lrga.data.packed.graphs import PackedGraphs
from lrga.io.download import RemoteFile
from lrga.io.limits import check_memory
from lrga.io.numeric_csv import read_numbers
from lrga.io.unpickle import load_pickle

ATOM_TYPES, BOND_TYPES = 28, 4  # bond 0 is no bond
PREPARED = "zinc12k.npz"
SIZES = {"train": 10_000, "val": 1_000, "test": 1_000}
_KEYS = ("num_atom", "atom_type", "bond_type", "logP_SA_cycle_normalized")
_ARRAYS = ("num_node", "num_edge", "x", "edge_index", "edge_attr", "y")


def build(context: BuildContext, *, sizes: list[int]) -> dict[str, PackedGraphs]:
    """The molecules: x [N, 1] atom type, edge_attr [E] bond type, y [G]."""
    names = [f"{split}.{kind}" for split in SPLITS for kind in ("pickle", "index")]
    paths, form = context.locate(SPEC.files, [PREPARED], names, below=("raw", "molecules", "zinc", "zinc/raw"))
    result = {}
    for number, (split, size) in enumerate(zip(SPLITS, sizes, strict=True)):
        context.progress("reading the molecules of ZINC", number, len(SPLITS))
        if form == 0:
            result[split] = read_prepared(paths[0], split)[:size]
        else:
            result[split] = read_pickles(paths[2 * number], paths[2 * number + 1], limit=size)
    return result


def read_prepared(path: Path, split: str) -> PackedGraphs:
    """One split of ``zinc12k.npz``: flat arrays ``{split}_x``, ``{split}_edge_index`` and so on, checked."""
    arrays = read_arrays(path, [f"{split}_{name}" for name in _ARRAYS])
    num_node, num_edge, x, edge_index, edge_attr, y = (arrays[f"{split}_{name}"] for name in _ARRAYS)
    sound = (
        num_node.shape == num_edge.shape == y.shape
        and x.shape == (num_node.sum(dtype=np.int64),)
        and edge_index.shape == (2, len(edge_attr))
        and len(edge_attr) == num_edge.sum(dtype=np.int64)
    )
    demand(sound, path, "arrays that fit each other", {name: array.shape for name, array in arrays.items()})
    return _packed(path, num_node, num_edge, edge_index, x, edge_attr, y)


def read_pickles(pickle: Path, index: Path, *, limit: int | None = None) -> PackedGraphs:
    """The molecules that ``index`` names out of the benchmark's ``pickle``, at most ``limit`` of them.

    The pickle is a list of dictionaries with ``num_atom``, ``atom_type`` [N], ``bond_type`` [N, N] and
    ``logP_SA_cycle_normalized`` [1]; it is read by :func:`lrga.io.unpickle.load_pickle`.
    """
    chosen = read_numbers(index).ravel()[:limit].tolist()
    molecules = load_pickle(pickle)
    is_list = isinstance(molecules, list) and molecules
    demand(is_list, pickle, "a list of molecules", f"a {type(molecules).__name__}")
    there = chosen and 0 <= min(chosen) <= max(chosen) < len(molecules)
    demand(there, index, "an index of molecules that are there", f"{chosen[:5]}… of {len(molecules):,} molecules")
    parts = [_molecule(molecules[i], i, pickle) for i in chosen]
    return _packed(
        pickle,
        np.array([len(atoms) for atoms, _, _, _ in parts]),
        np.array([len(bonds) for _, _, bonds, _ in parts]),
        np.concatenate([edges for _, edges, _, _ in parts], axis=1),
        np.concatenate([atoms for atoms, _, _, _ in parts]),
        np.concatenate([bonds for _, _, bonds, _ in parts]),
        np.array([target for _, _, _, target in parts]),
    )


def _molecule(molecule: Any, number: int, path: Path) -> tuple[np.ndarray, np.ndarray, np.ndarray, float]:
    """(atom types [N], edges [2, E], bond types [E], target)."""
    where = f"molecule {number} of {path}"
    is_whole = isinstance(molecule, dict) and set(_KEYS) <= set(molecule)
    demand(is_whole, where, ", ".join(_KEYS), f"a {type(molecule).__name__} without them")
    n, (atoms, bonds, target) = molecule[_KEYS[0]], (_numbers(molecule[key]) for key in _KEYS[1:])
    check_memory(8 * (atoms.size + bonds.size), where)  # of views that repeat one number, too
    fits = type(n) is int and atoms.shape == (n,) and bonds.shape == (n, n) and target.size == 1
    got = f"{list(atoms.shape)} atoms, {list(bonds.shape)} bonds, {target.size} targets for num_atom {n}"
    demand(fits, where, "N atom types, N x N bond types and one target", got)
    edges = np.stack(bonds.nonzero())
    return atoms, edges, bonds[edges[0], edges[1]], float(target.reshape(()))


def _numbers(value: Any) -> np.ndarray:
    """An array; empty where it is none: lists within lists could be endless."""
    if isinstance(value, torch.Tensor) and not value.is_complex() and value.dtype != torch.bfloat16:
        return value.numpy()
    return value if isinstance(value, np.ndarray) and value.dtype.kind in "biuf" else np.empty(0)


def _packed(
    path: Path,
    num_node: np.ndarray,
    num_edge: np.ndarray,
    edge_index: np.ndarray,
    x: np.ndarray,
    edge_attr: np.ndarray,
    y: np.ndarray,
) -> PackedGraphs:
    for what, values, bound in (("atom types", x, ATOM_TYPES), ("bond types", edge_attr, BOND_TYPES)):
        low, high = values.min(initial=0), values.max(initial=0)
        demand(0 <= low <= high < bound, path, f"{what} 0 to {bound - 1}", f"{low} to {high}")
    demand(np.isfinite(y).all(), path, "finite targets", "NaN or infinity")
    return pack_arrays(
        num_nodes=num_node.astype(np.int64),
        num_edges=num_edge.astype(np.int64),
        edge_index=edge_index,
        x=x.astype(np.int64)[:, None],
        edge_attr=edge_attr.astype(np.int64),
        y=y.astype(np.float32),
        y_level="graph",
    )


SPEC = DatasetSpec(
    name="ZINC",
    inputs=Inputs("graph", 1, "embedding", ATOM_TYPES, "embedding", BOND_TYPES),
    task=TaskSpec("regression", "l1", "mae_by_batch"),
    splits=SIZES,
    mean_nodes=23.2,
    mean_edges=49.8,
    node_features="atom type, one of 28",
    edge_features="bond type, one of 4 (1 single, 2 double, 3 triple)",
    obtained="downloaded",
    origin=f"the raw pickles of {RECIPE}, as PyG's ZINC(subset=True) reads them; the target is logP - SA - cycles",
    licence="MIT; ZINC's own",
    terms="benchmark files MIT; molecules of the ZINC database, free to use, redistribution not settled",
    citation=(
        BENCHMARK,
        "Irwin, Sterling, Mysinger, Bolstad, Coleman: ZINC: A Free Tool to Discover Chemistry for Biology. "
        "Journal of Chemical Information and Modeling 52(7), 2012",
    ),
    options=sizes_option(SIZES),
    build=build,
    files=(
        RemoteFile("https://www.dropbox.com/s/feo9qle74kg48gy/molecules.zip?dl=1", "molecules.zip"),
        *(
            RemoteFile(
                "https://raw.githubusercontent.com/graphdeeplearning/benchmarking-gnns/master/data/molecules/"
                f"{split}.index",
                f"{split}.index",
            )
            for split in SPLITS
        ),
    ),
    schedule=Schedule(variants=(({"preset": "2020"}, {"patience": 5}),)),
)
