"""Low-Rank Global Attention for graph networks: exact for batches of graphs, linear in the number of nodes.

The paper: Puny, Ben-Hamu, Lipman, "Global Attention Improves Graph Networks Generalization" (2020).
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from lrga import errors
from lrga.version import __version__

if TYPE_CHECKING:
    from lrga import (
        data,
        distributed,
        experiments,
        explain,
        models,
        nn,
        ops,
        paper,
        report,
        speed,
        tasks,
        theory,
        training,
    )
    from lrga.checks import checking
    from lrga.models.gnn import GNN
    from lrga.models.zoo import build_model
    from lrga.nn.attention import LowRankGlobalAttention
    from lrga.nn.augment import augment, provide_batch
    from lrga.nn.context import batch_context
    from lrga.nn.lrga_conv import LRGAConv
    from lrga.nn.random_features import RandomFeatures
    from lrga.ops.attention import low_rank_attention
    from lrga.pretrained import load_pretrained, save_pretrained

__all__ = [
    "GNN",
    "LRGAConv",
    "LowRankGlobalAttention",
    "RandomFeatures",
    "__version__",
    "augment",
    "batch_context",
    "build_model",
    "checking",
    "data",
    "distributed",
    "errors",
    "experiments",
    "explain",
    "load_pretrained",
    "low_rank_attention",
    "models",
    "nn",
    "ops",
    "paper",
    "provide_batch",
    "report",
    "save_pretrained",
    "speed",
    "tasks",
    "theory",
    "training",
]

# Names are loaded on first use: `lrga --help` does not import PyTorch, and a model does not import the data sets.
_SUBPACKAGES = (
    "data", "distributed", "experiments", "explain", "models", "nn", "ops", "paper", "report", "speed", "tasks",
    "theory", "training",
)  # fmt: skip
_HOME = {
    "GNN": "models.gnn",
    "LRGAConv": "nn.lrga_conv",
    "LowRankGlobalAttention": "nn.attention",
    "RandomFeatures": "nn.random_features",
    "augment": "nn.augment",
    "batch_context": "nn.context",
    "build_model": "models.zoo",
    "checking": "checks",
    "load_pretrained": "pretrained",
    "low_rank_attention": "ops.attention",
    "provide_batch": "nn.augment",
    "save_pretrained": "pretrained",
}


def __getattr__(name: str) -> Any:
    if name in _SUBPACKAGES:
        return import_module(f"lrga.{name}")
    if name in _HOME:
        value = globals()[name] = getattr(import_module(f"lrga.{_HOME[name]}"), name)
        return value
    raise AttributeError(f"module 'lrga' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
