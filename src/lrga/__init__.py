"""Low-Rank Global Attention for graph networks: exact for batches of graphs, linear in the number of nodes.

The paper: Puny, Ben-Hamu, Lipman, "Global Attention Improves Graph Networks Generalization" (2020).
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from lrga.kernels.checks import checking
from lrga.kernels.dispatch import low_rank_attention
from lrga.nn.attention import LowRankGlobalAttention
from lrga.nn.augment import augment
from lrga.nn.context import batch_context
from lrga.nn.conv import LRGAConv
from lrga.nn.random_features import RandomFeatures
from lrga.version import __version__

if TYPE_CHECKING:
    from lrga import bench, data, models, tasks, theory, training
    from lrga.models.gnn import GNN
    from lrga.models.zoo import build_model

__all__ = [
    "GNN",
    "LRGAConv",
    "LowRankGlobalAttention",
    "RandomFeatures",
    "__version__",
    "augment",
    "batch_context",
    "bench",
    "build_model",
    "checking",
    "data",
    "low_rank_attention",
    "models",
    "tasks",
    "theory",
    "training",
]

# Loaded on first use, so that `import lrga` stays as light as the layers need.
_SUBPACKAGES = ("bench", "data", "models", "tasks", "theory", "training")
_LAZY_ATTRIBUTES = {"GNN": "lrga.models.gnn", "build_model": "lrga.models.zoo"}


def __getattr__(name: str) -> Any:
    if name in _SUBPACKAGES:
        return import_module(f"lrga.{name}")
    if name in _LAZY_ATTRIBUTES:
        return getattr(import_module(_LAZY_ATTRIBUTES[name]), name)
    raise AttributeError(f"module 'lrga' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
