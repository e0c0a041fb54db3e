"""The same layers over a graph divided between processes, on torch.distributed (gloo and nccl).

Every rank holds a block of the nodes with the edges that end in them. Message passing fetches the features of the
neighbours that lie elsewhere (the halo) by one all-to-all; low-rank attention needs the sum of one κ×κ matrix and two
κ-vectors only, whatever the number of nodes; BatchNorm takes its statistics over all ranks. Loss and gradients are
those of one process.
"""

from lrga.distributed.attention import DividedAttention
from lrga.distributed.collectives import Traffic, all_reduce_sum, count_traffic
from lrga.distributed.graph import GraphPart, partition_graph
from lrga.distributed.model import partition_model
from lrga.distributed.norm import RankBatchNorm, convert_norms
from lrga.distributed.partition import Partition
from lrga.distributed.step import global_mean, reduce_gradients, training_step

__all__ = [
    "DividedAttention",
    "GraphPart",
    "Partition",
    "RankBatchNorm",
    "Traffic",
    "all_reduce_sum",
    "convert_norms",
    "count_traffic",
    "global_mean",
    "partition_graph",
    "partition_model",
    "reduce_gradients",
    "training_step",
]
