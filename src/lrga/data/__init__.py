"""Data sets: found by name, built on first use, verified, and held as flat tensors on one device."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from lrga.data.datasets.building import built_sets, load, verify
    from lrga.data.datasets.source import data_root
    from lrga.data.datasets.spec import DatasetSpec, dataset_specs, spec_of
    from lrga.data.datasets.synthetic import synthetic_edges, synthetic_graph
    from lrga.data.encodings import AddEncodings, with_encodings
    from lrga.data.links.data import LinkData, LinkSplit
    from lrga.data.own.reading import OwnData, load_custom
    from lrga.data.packed.batch import PackedBatch
    from lrga.data.packed.graphs import PackedGraphs
    from lrga.data.packed.sampler import NeighborSampler, from_neighbor_batch

__all__ = [
    "AddEncodings",
    "DatasetSpec",
    "LinkData",
    "LinkSplit",
    "NeighborSampler",
    "OwnData",
    "PackedBatch",
    "PackedGraphs",
    "built_sets",
    "data_root",
    "dataset_specs",
    "from_neighbor_batch",
    "load",
    "load_custom",
    "spec_of",
    "synthetic_edges",
    "synthetic_graph",
    "verify",
    "with_encodings",
]

# Loaded on first use: a name or a path needs neither PyTorch nor PyG.
_MODULES = {
    "datasets.building": ("built_sets", "load", "verify"),
    "datasets.source": ("data_root",),
    "datasets.spec": ("DatasetSpec", "dataset_specs", "spec_of"),
    "datasets.synthetic": ("synthetic_edges", "synthetic_graph"),
    "encodings": ("AddEncodings", "with_encodings"),
    "links.data": ("LinkData", "LinkSplit"),
    "own.reading": ("OwnData", "load_custom"),
    "packed.batch": ("PackedBatch",),
    "packed.graphs": ("PackedGraphs",),
    "packed.sampler": ("NeighborSampler", "from_neighbor_batch"),
}
_HOME = {name: module for module, names in _MODULES.items() for name in names}


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = globals()[name] = getattr(import_module(f"{__name__}.{_HOME[name]}"), name)
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
