"""ZINC-12k: molecules with the target logP - SA - cycles, from the benchmark's raw pickles."""

from pathlib import Path
from typing import Any

import numpy as np

from lrga.data.datasets import BENCHMARK, RECIPE
from lrga.data.datasets.source import BuildContext, demand, read_numbers
from lrga.data.datasets.spec import SPLITS, DatasetSpec, Inputs, Schedule, TaskSpec
from lrga.data.packed.arrays import pack_arrays
from lrga.data.packed.graphs import PackedGraphs
from lrga.io.download import RemoteFile
from lrga.io.limits import check_memory, reading
from lrga.io.unpickle import load_pickle

ATOM_TYPES, BOND_TYPES = 28, 4  # bond type 0 means no bond
_INDICES = "https://raw.githubusercontent.com/graphdeeplearning/benchmarking-gnns/master/data/molecules"
_KEYS = ("num_atom", "atom_type", "bond_type", "logP_SA_cycle_normalized")


def build(context: BuildContext, *, sizes: list[int]) -> dict[str, PackedGraphs]:
    """Builds the molecules: x [N, 1] atom type, edge_attr [E] bond type, y [G]."""
    names = [f"{split}.{kind}" for split in SPLITS for kind in ("pickle", "index")]
    paths, _ = context.locate(SPEC.files, names, below=("raw", "molecules", "zinc", "zinc/raw"))
    result = {}
    for number, (split, size) in enumerate(zip(SPLITS, sizes, strict=True)):
        context.progress("reading the molecules of ZINC", number, len(SPLITS))
        result[split] = read_pickles(paths[2 * number], paths[2 * number + 1], limit=size)
    return result


def read_pickles(pickle: Path, index: Path, *, limit: int | None = None) -> PackedGraphs:
    """Reads the molecules of the benchmark's ``pickle`` that ``index`` lists, at most ``limit``.

    The pickle is a list of dictionaries with ``num_atom``, ``atom_type`` [N], ``bond_type`` [N, N] and
    ``logP_SA_cycle_normalized`` [1]; it is read by :func:`lrga.io.unpickle.load_pickle`.
    """
    chosen = read_numbers(index).ravel()[:limit].tolist()
    with reading(pickle, f"a list of molecules with {', '.join(_KEYS)} in", remedy="download it again"):
        molecules = load_pickle(pickle)
        demand(isinstance(molecules, list) and molecules, pickle, "a list of molecules", "another object")
        there = chosen and 0 <= min(chosen) <= max(chosen) < len(molecules)
        demand(there, index, "indices of existing molecules", f"{chosen[:5]}… of {len(molecules):,} molecules")
        atoms, edges, bonds, targets = zip(*(_molecule(molecules[i], i, pickle) for i in chosen), strict=True)
        x, edge_attr, y = np.concatenate(atoms), np.concatenate(bonds), np.array(targets, np.float32)
        for what, values, bound in (("atom types", x, ATOM_TYPES), ("bond types", edge_attr, BOND_TYPES)):
            low, high = values.min(initial=0), values.max(initial=0)
            demand(0 <= low <= high < bound, pickle, f"{what} 0 to {bound - 1}", f"{low} to {high}")
        demand(np.isfinite(y).all(), pickle, "finite targets", "NaN or infinity")
        return pack_arrays(
            num_nodes=np.array([len(own) for own in atoms]),
            num_edges=np.array([len(own) for own in bonds]),
            edge_index=np.concatenate(edges, axis=1),
            x=x.astype(np.int64)[:, None],
            edge_attr=edge_attr.astype(np.int64),
            y=y,
            y_level="graph",
        )


def _molecule(molecule: Any, number: int, path: Path) -> tuple[np.ndarray, np.ndarray, np.ndarray, float]:
    """(atom types [N], edges [2, E], bond types [E], target)."""
    where = f"molecule {number} of {path}"
    n, (atoms, bonds, target) = molecule[_KEYS[0]], (np.asarray(molecule[key]) for key in _KEYS[1:])
    check_memory(8 * (atoms.size + bonds.size), where)  # counts views that repeat one number in full
    fits = type(n) is int and atoms.shape == (n,) and bonds.shape == (n, n) and target.size == 1
    got = f"{list(atoms.shape)} atoms, {list(bonds.shape)} bonds, {target.size} targets for num_atom {n}"
    demand(fits, where, "N atom types, N x N bond types and one target", got)
    edges = np.stack(bonds.nonzero())
    return atoms, edges, bonds[edges[0], edges[1]], float(target.reshape(()))


SPEC = DatasetSpec(
    name="ZINC",
    inputs=Inputs("graph", 1, "embedding", ATOM_TYPES, "embedding", BOND_TYPES),
    task=TaskSpec("regression", "l1", "mae_by_batch"),
    splits={"train": 10_000, "val": 1_000, "test": 1_000},
    mean_nodes=23.2,
    mean_edges=49.8,
    node_features="atom type, one of 28",
    edge_features="bond type, one of 4 (1 single, 2 double, 3 triple)",
    origin=f"the raw pickles of {RECIPE}, as PyG's ZINC(subset=True) reads them; the target is logP - SA - cycles",
    licence="MIT; ZINC's own",
    terms="benchmark files MIT; molecules of the ZINC database, free to use, redistribution unclear",
    citation=(
        BENCHMARK,
        "Irwin, Sterling, Mysinger, Bolstad, Coleman: ZINC: A Free Tool to Discover Chemistry for Biology. "
        "Journal of Chemical Information and Modeling 52(7), 2012",
    ),
    build=build,
    files=(
        RemoteFile("https://www.dropbox.com/s/feo9qle74kg48gy/molecules.zip?dl=1", "molecules.zip"),
        *(RemoteFile(f"{_INDICES}/{split}.index", f"{split}.index") for split in SPLITS),
    ),
    schedule=Schedule(variants=(({"preset": "2020"}, {"patience": 5}),)),
)
