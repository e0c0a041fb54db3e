"""Layers and modules by name, as in ``torch_geometric.nn``.

Example:
    >>> from lrga.nn import GatedGCNLayer, LRGAConv
"""

from lrga.nn.attention import LowRankGlobalAttention
from lrga.nn.blocks import attend_in_blocks
from lrga.nn.conv import LRGAConv
from lrga.nn.encoders import CategoriesEncoder, CategoryEncoder, LinearEncoder
from lrga.nn.gat import GATLayer
from lrga.nn.gated_gcn import GatedGCNLayer
from lrga.nn.gcn import GCNLayer
from lrga.nn.gin import GINLayer
from lrga.nn.gps import GPSAttention
from lrga.nn.heads import MLP, Head, LayerwiseHead
from lrga.nn.layer import BenchmarkLayer
from lrga.nn.lrga_layer import LRGALayer
from lrga.nn.node_embedding import NodeEmbedding
from lrga.nn.norm import BatchNorm
from lrga.nn.random_features import RandomFeatures
from lrga.nn.recompute import recompute_layers
from lrga.nn.sage import SAGELayer

__all__ = [
    "MLP",
    "BatchNorm",
    "BenchmarkLayer",
    "CategoriesEncoder",
    "CategoryEncoder",
    "GATLayer",
    "GCNLayer",
    "GINLayer",
    "GPSAttention",
    "GatedGCNLayer",
    "Head",
    "LRGAConv",
    "LRGALayer",
    "LayerwiseHead",
    "LinearEncoder",
    "LowRankGlobalAttention",
    "NodeEmbedding",
    "RandomFeatures",
    "SAGELayer",
    "attend_in_blocks",
    "recompute_layers",
]
