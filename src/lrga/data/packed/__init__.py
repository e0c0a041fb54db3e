"""A set of graphs as flat tensors on one device, and its batches."""

from lrga.data.packed.batch import PackedBatch
from lrga.data.packed.graphs import PackedGraphs

__all__ = ["PackedBatch", "PackedGraphs"]
