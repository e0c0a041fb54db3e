"""Converts a model for a whole graph to one rank's part of the graph."""

import copy

import torch
import torch.distributed as dist
from torch import nn
from torch_geometric.nn import GPSConv, MessagePassing
from torch_geometric.nn.aggr import Aggregation
from torch_geometric.nn.norm import GraphNorm, GraphSizeNorm, InstanceNorm, LayerNorm, MeanSubtractionNorm, PairNorm

from lrga.distributed.collectives import Group, world_size
from lrga.distributed.partition.attention import PartitionedAttention
from lrga.distributed.partition.graph import GraphPart
from lrga.distributed.partition.links import ShardedEmbedding
from lrga.distributed.partition.norm import RankBatchNorm, convert_norms
from lrga.errors import UnsupportedError
from lrga.nn.attention import LowRankGlobalAttention
from lrga.nn.encoders import NodeEmbedding
from lrga.nn.heads import Head, LayerwiseHead
from lrga.nn.layers.base import BenchmarkLayer
from lrga.nn.layers.gat import GATLayer
from lrga.nn.layers.gated_gcn import GatedGCNLayer
from lrga.nn.layers.gcn import GCNLayer
from lrga.nn.layers.gin import GINLayer
from lrga.nn.layers.gine import GINELayer
from lrga.nn.layers.pyg import PARTITIONED_PYG
from lrga.nn.layers.sage import SAGELayer
from lrga.nn.lrga_conv import LRGAConv
from lrga.nn.norm import BatchNorm
from lrga.nn.random_features import RandomFeatures

# Layers for whole, padded and partitioned graphs.
LAYERS = (GCNLayer, GATLayer, GatedGCNLayer, SAGELayer, GINLayer, GINELayer, Head, LayerwiseHead)
# partition_model changes the class of these; a subclass would lose its overrides.
CONVERTED = (LowRankGlobalAttention, NodeEmbedding, nn.BatchNorm1d, BatchNorm, RankBatchNorm)
_LOCAL_NORMS = (GraphNorm, GraphSizeNorm, InstanceNorm, MeanSubtractionNorm, PairNorm)


def partition_model(model: nn.Module, part: GraphPart) -> nn.Module:
    """A copy of ``model`` that computes, for this rank's part, the same result as ``model`` on the whole graph.

    Parameters have the same names and shapes, and all ranks get the values of rank 0; state dicts are interchangeable.
    Call the copy with the features of own nodes and ``part.edges``. Losses and gradients must be summed over the ranks;
    :func:`~lrga.distributed.training_step` and :func:`~lrga.distributed.link_step` do this. Every rank must make every
    call. Of learned node vectors (:class:`~lrga.nn.encoders.NodeEmbedding`) a rank keeps the rows of its own nodes.

    Args:
        model: :class:`lrga.GNN`, or a model of its layers and of :class:`lrga.LowRankGlobalAttention`;
            :class:`~lrga.models.link.LinkModel` and :class:`~lrga.models.link.LinkGNN`; PyG models of these layers,
            plain or augmented by :func:`lrga.augment`. Layers that would see only this rank's nodes are an error.
        part: What :func:`~lrga.distributed.partition_graph` returned.

    Example:
        >>> import lrga
        >>> from lrga.distributed import partition_graph
        >>> part = partition_graph(torch.tensor([[0, 1, 2], [1, 2, 0]]), num_nodes=3)
        >>> model = partition_model(lrga.GNN(5, 16, 2, 2, conv="gcn", rank=4), part)
        >>> model(part.take_nodes(torch.randn(3, 5)), part.edges).shape
        torch.Size([3, 2])
    """
    copied = copy.deepcopy(model)
    for name, module in copied.named_modules():
        if (wrong := _sees_own_nodes_only(copied, name, module)) is not None:
            expected, remedy = wrong
            raise UnsupportedError(expected, f"{name or 'the model'}: {type(module).__name__}", remedy)
        if issubclass(type(module), LRGAConv):  # by augment: its class derives from the convolution's
            continue
        if isinstance(module, CONVERTED) and type(module) not in CONVERTED:
            raise UnsupportedError(
                f"modules among {', '.join(dict.fromkeys(kind.__name__ for kind in CONVERTED))} themselves",
                f"{name or 'the model'}: {type(module).__name__}, a subclass whose own code would not run",
                "use the class itself, or train without partition_model",
            )
        if isinstance(module, LowRankGlobalAttention):
            PartitionedAttention.of(module, part.num_nodes, part.group)
        elif isinstance(module, BenchmarkLayer) and type(module) in LAYERS:
            module.is_partitioned = True
        elif type(module) in PARTITIONED_PYG and PARTITIONED_PYG[type(module)][1](module):
            module.__class__ = PARTITIONED_PYG[type(module)][0]
        elif isinstance(module, (BenchmarkLayer, MessagePassing, *LAYERS)) and type(module) not in LAYERS:
            odd = " with these options" if type(module) in PARTITIONED_PYG else ""
            raise UnsupportedError(
                f"layers among {', '.join(known.__name__ for known in (*LAYERS, *PARTITIONED_PYG))}",
                f"{name or 'the model'}: {type(module).__name__}{odd}",
                "build the model from these layers, for example with lrga.GNN",
            )
    copied = convert_norms(copied, part.group).to(part.device)
    broadcast_state(copied, part.group)
    for module in copied.modules():
        if isinstance(module, NodeEmbedding):
            ShardedEmbedding.of(module, part)
    return copied


def _sees_own_nodes_only(model: nn.Module, name: str, module: nn.Module) -> tuple[str, str] | None:
    """Expected layer and remedy for a module that would treat this rank's nodes as the whole graph."""
    if isinstance(module, _LOCAL_NORMS) or (isinstance(module, LayerNorm) and module.mode == "graph"):
        return "normalisation of single nodes, or BatchNorm over all ranks", "use norm='batch_norm'"
    if isinstance(module, Aggregation):
        holder = model.get_submodule(name.rpartition(".")[0]) if name else None
        if not isinstance(holder, MessagePassing):
            return "layers that sum over edges only", "sum over nodes with lrga.distributed.all_reduce_sum"
    attention = module.attn if isinstance(module, GPSConv) else None
    if attention is not None and not any(isinstance(inner, LowRankGlobalAttention) for inner in attention.modules()):
        return "attention that can be partitioned", "set attn of the layer to lrga.nn.gps.GPSAttention"
    if getattr(module, "encoding", None):
        return "a network without positional encodings", "pass encodings as additional columns of x: part.take_nodes(x)"
    held = not module.resample if isinstance(module, RandomFeatures) else not getattr(module, "resample_features", True)
    if held and getattr(module, "random_features", True):
        return "random features drawn in every pass", "pass fixed ones as x: part.take_nodes(features)"
    return None


@torch.no_grad()
def broadcast_state(model: nn.Module, group: Group = None) -> None:
    """Sends the parameters and buffers of rank 0 to all ranks."""
    if world_size(group) == 1:
        return
    source = 0 if group is None else dist.get_global_rank(group, 0)
    for tensor in model.state_dict().values():
        sent = tensor.contiguous()
        dist.broadcast(sent, source, group=group)
        if sent is not tensor:
            tensor.copy_(sent)
