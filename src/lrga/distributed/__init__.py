"""The same layers over a graph partitioned between processes, with torch.distributed (gloo and nccl).

Every rank holds a block of the nodes and their incoming edges. Message passing fetches the features of neighbours on
other ranks (the halo) by one all-to-all. Low-rank attention needs only the sum of one κ×κ matrix and two κ-vectors,
independent of the number of nodes. BatchNorm uses the statistics of all ranks. Loss and gradients equal those of one
process.
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

# Names are loaded on first use: a process that only joins its group does not import all layers.
_MODULES = {
    "attention": ["PartitionedAttention"],
    "collectives": ["Traffic", "all_reduce_sum", "count_traffic"],
    "graph": ["GraphPart", "partition_graph"],
    "launch": ["is_leader", "joined", "launched"],
    "links": ["fetch_nodes", "link_step", "score_links"],
    "model": ["partition_model"],
    "norm": ["RankBatchNorm", "convert_norms"],
    "partition": ["Partition"],
    "step": ["global_mean", "reduce_gradients", "training_step"],
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
    for module, names in _MODULES.items():
        if name in names:
            value = globals()[name] = getattr(import_module(f"lrga.distributed.{module}"), name)
            return value
    raise AttributeError(f"module 'lrga.distributed' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
