"""Data sets: found by name, built on first use, verified, and held as flat tensors on one device."""

from lrga.data.batch import PackedBatch
from lrga.data.catalog import CATALOG, DatasetFacts, dataset_facts
from lrga.data.custom import CustomData, load_custom
from lrga.data.link_data import LinkData, LinkSplit
from lrga.data.loading import built_sets, load, verify
from lrga.data.packed import PackedGraphs
from lrga.data.root import data_root
from lrga.data.synthetic import SyntheticGraph, synthetic_edges, synthetic_graph

__all__ = [
    "CATALOG",
    "CustomData",
    "DatasetFacts",
    "LinkData",
    "LinkSplit",
    "PackedBatch",
    "PackedGraphs",
    "SyntheticGraph",
    "built_sets",
    "data_root",
    "dataset_facts",
    "load",
    "load_custom",
    "synthetic_edges",
    "synthetic_graph",
    "verify",
]
