"""Data sets: found by name, built on first use, verified, and stored as flat tensors on one device."""

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
