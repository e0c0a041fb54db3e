"""The same layers over a graph partitioned between processes, with torch.distributed (gloo and nccl).

Every rank holds a block of the nodes and their incoming edges. Message passing fetches the features of neighbours on
other ranks (the halo) by one all-to-all. Low-rank attention needs only the sum of one κ×κ matrix and two κ-vectors,
independent of the number of nodes. BatchNorm uses the statistics of all ranks. Loss and gradients equal those of one
process.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from lrga.distributed.collectives import Traffic, all_reduce_sum, count_traffic
    from lrga.distributed.launch.process_group import is_leader, joined, launched
    from lrga.distributed.partition.assignment import Partition
    from lrga.distributed.partition.attention import PartitionedAttention
    from lrga.distributed.partition.graph import GraphPart, partition_graph
    from lrga.distributed.partition.links import fetch_nodes, link_step, score_links
    from lrga.distributed.partition.model import partition_model
    from lrga.distributed.partition.norm import RankBatchNorm, convert_norms
    from lrga.distributed.partition.step import global_mean, reduce_gradients, training_step

# Names are loaded on first use: a process that only joins its group does not import all layers.
_MODULES = {
    "collectives": ["Traffic", "all_reduce_sum", "count_traffic"],
    "launch.process_group": ["is_leader", "joined", "launched"],
    "partition.assignment": ["Partition"],
    "partition.attention": ["PartitionedAttention"],
    "partition.graph": ["GraphPart", "partition_graph"],
    "partition.links": ["fetch_nodes", "link_step", "score_links"],
    "partition.model": ["partition_model"],
    "partition.norm": ["RankBatchNorm", "convert_norms"],
    "partition.step": ["global_mean", "reduce_gradients", "training_step"],
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
