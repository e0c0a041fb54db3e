"""The same layers over a graph divided between processes, on torch.distributed (gloo and nccl).

Every rank holds a block of the nodes with the edges that end in them. Message passing fetches the features of the
neighbours that lie elsewhere (the halo) by one all-to-all; low-rank attention needs the sum of one κ×κ matrix and two
κ-vectors only, whatever the number of nodes; BatchNorm takes its statistics over all ranks. Loss and gradients are
those of one process.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from lrga.distributed.attention import PartitionedAttention
    from lrga.distributed.collectives import Traffic, all_reduce_sum, count_traffic
    from lrga.distributed.graph import GraphPart, partition_graph
    from lrga.distributed.launch import is_leader, joined, launched
    from lrga.distributed.links import fetch_nodes, link_step, score_links
    from lrga.distributed.model import partition_model
    from lrga.distributed.norm import RankBatchNorm, convert_norms
    from lrga.distributed.partition import Partition
    from lrga.distributed.step import global_mean, reduce_gradients, training_step

# Loaded on first use: a process that only joins its group need not wait for all layers.
_HOME = {
    "PartitionedAttention": "attention",
    "GraphPart": "graph",
    "Partition": "partition",
    "RankBatchNorm": "norm",
    "Traffic": "collectives",
    "all_reduce_sum": "collectives",
    "convert_norms": "norm",
    "count_traffic": "collectives",
    "fetch_nodes": "links",
    "global_mean": "step",
    "is_leader": "launch",
    "joined": "launch",
    "launched": "launch",
    "link_step": "links",
    "partition_graph": "graph",
    "partition_model": "model",
    "reduce_gradients": "step",
    "score_links": "links",
    "training_step": "step",
}

__all__ = [
    "GraphPart",
    "Partition",
    "PartitionedAttention",
    "RankBatchNorm",
    "Traffic",
    "all_reduce_sum",
    "convert_norms",
    "count_traffic",
    "fetch_nodes",
    "global_mean",
    "is_leader",
    "joined",
    "launched",
    "link_step",
    "partition_graph",
    "partition_model",
    "reduce_gradients",
    "score_links",
    "training_step",
]


def __getattr__(name: str) -> Any:
    if name in _HOME:
        value = globals()[name] = getattr(import_module(f"lrga.distributed.{_HOME[name]}"), name)
        return value
    raise AttributeError(f"module 'lrga.distributed' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
