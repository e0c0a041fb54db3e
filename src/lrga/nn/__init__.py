"""Layers and modules by name, as in ``torch_geometric.nn``.

Example:
    >>> from lrga.nn import GatedGCNLayer, LRGAConv
"""

from lrga.nn.attention import LowRankGlobalAttention
from lrga.nn.blocks import attend_in_blocks
from lrga.nn.encoders import CategoriesEncoder, CategoryEncoder, LinearEncoder, NodeEmbedding
from lrga.nn.encodings import EncodingEmbedding
from lrga.nn.gps import GPSAttention
from lrga.nn.heads import MLP, Head, LayerwiseHead
from lrga.nn.layers.base import BenchmarkLayer
from lrga.nn.layers.gat import GATLayer
from lrga.nn.layers.gated_gcn import GatedGCNLayer
from lrga.nn.layers.gcn import GCNLayer
from lrga.nn.layers.gin import GINLayer
from lrga.nn.layers.gine import GINELayer
from lrga.nn.layers.lrga import WIRINGS, LRGALayer, Wiring
from lrga.nn.layers.residual import ResidualLayer
from lrga.nn.layers.sage import SAGELayer
from lrga.nn.lrga_conv import LRGAConv
from lrga.nn.norm import BatchNorm
from lrga.nn.random_features import RandomFeatures
from lrga.nn.recompute import recompute_layers

__all__ = [
    "MLP",
    "WIRINGS",
    "BatchNorm",
    "BenchmarkLayer",
    "CategoriesEncoder",
    "CategoryEncoder",
    "EncodingEmbedding",
    "GATLayer",
    "GCNLayer",
    "GINELayer",
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
    "ResidualLayer",
    "SAGELayer",
    "Wiring",
    "attend_in_blocks",
    "recompute_layers",
]
