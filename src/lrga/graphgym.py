"""Low-rank global attention in PyG's GraphGym; needs ``pip install 'lrga[graphgym]'``.

Importing this module registers

- the layer ``lrga``: another GraphGym layer (``cfg.lrga.layer_type``) with low-rank global attention in parallel;
- the node and edge encoders ``lrga_linear``, ``lrga_embedding`` and ``lrga_embeddings``; the node encoders can add
  positional encodings (``cfg.lrga.encoding``);
- the configuration group ``lrga``, see :func:`set_lrga_config`.

Example:
    >>> import lrga.graphgym
    >>> from torch_geometric.graphgym.config import cfg, set_cfg
    >>> from torch_geometric.graphgym.model_builder import create_model
    >>> set_cfg(cfg)
    >>> cfg.gnn.head, cfg.gnn.layer_type, cfg.lrga.layer_type, cfg.lrga.rank = "node", "lrga", "gcnconv", 8
    >>> create_model(to_device=False, dim_in=4, dim_out=3).mp.layer0.layer.attention
    LowRankGlobalAttention(4, rank=8, heads=1)
"""

from importlib.util import find_spec
from typing import Any

from torch import nn

from lrga.errors import MissingDependencyError, OptionError
from lrga.nn.attention import LowRankGlobalAttention
from lrga.nn.encoders import ENCODERS
from lrga.nn.encodings import EncodingEmbedding, encode, parse_encodings
from lrga.nn.layers.lrga import PARTS, lrga_update
from lrga.ops.attention.segments import Segments

if missing := [name for name in ("yacs", "lightning") if find_spec(name) is None]:  # PyG would only warn
    expected = f"the package{'s' * (len(missing) > 1)} {' and '.join(missing)}, for GraphGym"
    raise MissingDependencyError(expected, "no such package", "pip install 'lrga[graphgym]'")

from torch_geometric.graphgym import register
from torch_geometric.graphgym.config import cfg
from yacs.config import CfgNode

__all__ = ["LRGALayer", "set_lrga_config"]


def set_lrga_config(config: Any) -> None:
    """Adds the group ``lrga`` and its defaults to a GraphGym configuration; ``set_cfg`` calls this function.

    ``layer_type``
        The local layer of ``gnn.layer_type: lrga``: any GraphGym layer, by default ``"gcnconv"``.
    ``rank``, ``heads``, ``dropout``, ``qk_norm``, ``gate``
        Options of :class:`lrga.LowRankGlobalAttention`; the defaults are 30, 1, 0.0, off and off.
    ``node_channels``, ``edge_channels``
        Input of the encoders: the number of categories of each column; for ``lrga_linear`` the number of columns, by
        default ``share.dim_in`` and ``dataset.edge_dim``.
    ``encoding``
        Positional encodings of nodes, such as ``"rwse:20"`` (:mod:`lrga.nn.encodings`). They are computed in every
        step unless the data have them from :class:`lrga.data.AddEncodings`.

    Args:
        config: A ``yacs`` configuration.

    Example:
        >>> config = CfgNode()
        >>> set_lrga_config(config)
        >>> config.lrga.layer_type, config.lrga.rank
        ('gcnconv', 30)
    """
    config.lrga = CfgNode(
        {
            "layer_type": "gcnconv", "rank": 30, "heads": 1, "dropout": 0.0, "qk_norm": False, "gate": False,
            "node_channels": [], "edge_channels": [], "encoding": "",
        }
    )  # fmt: skip


class LRGALayer(nn.Module):
    """GraphGym's layer ``lrga``: a linear map of the input, its global attention and the output of the local layer.

    GraphGym applies normalisation, dropout and activation, as for its other layers.

    Args:
        layer_config: The widths, as GraphGym passes them.
        **kwargs: Passed on to the local layer.

    Example:
        >>> import torch
        >>> from torch_geometric.data import Data
        >>> from torch_geometric.graphgym.config import set_cfg
        >>> from torch_geometric.graphgym.models.layer import LayerConfig
        >>> set_cfg(cfg)
        >>> layer = LRGALayer(LayerConfig(dim_in=4, dim_out=16))
        >>> layer(Data(x=torch.randn(5, 4), edge_index=torch.tensor([[0, 1], [1, 2]]))).x.shape
        torch.Size([5, 16])
    """

    def __init__(self, layer_config: Any, **kwargs: Any) -> None:
        super().__init__()
        options, known = cfg.lrga, sorted(set(register.layer_dict) - {"lrga"})
        if options.layer_type not in known:
            got = repr(options.layer_type)
            raise OptionError(f"cfg.lrga.layer_type among {', '.join(known)}", got, "choose one of these")
        self.local = register.layer_dict[options.layer_type](layer_config, **kwargs)
        self.attention = LowRankGlobalAttention(
            layer_config.dim_in,
            options.rank,
            heads=options.heads,
            dropout=options.dropout,
            qk_norm=options.qk_norm,
            gate=options.gate,
        )
        width = layer_config.dim_in + 2 * options.rank * options.heads + layer_config.dim_out
        self.mix = nn.Linear(width, layer_config.dim_out)

    def forward(self, batch: Any) -> Any:
        """Returns the batch with new node features; each graph attends to its own nodes only."""
        x = batch.x
        attended = self.attention(x, _segments(batch))
        batch = self.local(batch)
        batch.x = lrga_update(self.mix, x, attended, batch.x, PARTS)
        return batch


class _Encoder(nn.Module):
    """A GraphGym encoder of :data:`lrga.nn.encoders.ENCODERS`."""

    kind: str
    level: str

    def __init__(self, emb_dim: int) -> None:
        super().__init__()
        options, self.name = cfg.lrga, "x" if self.level == "node" else "edge_attr"
        given = list(options[f"{self.level}_channels"])
        if not given and self.kind == "linear":
            given = [cfg.share.dim_in if self.level == "node" else cfg.dataset.edge_dim]
        if not given or (len(given) > 1 and self.kind != "embeddings"):
            expected = f"cfg.lrga.{self.level}_channels, for the encoder lrga_{self.kind}"
            remedy = "pass the number of columns, or the number of categories of each column"
            raise OptionError(expected, str(given), remedy)
        width = given if self.kind == "embeddings" else given[0]
        self.encoder = ENCODERS[self.kind](width, emb_dim, name=self.name)
        encodings = [str(one) for one in parse_encodings(options.encoding or None)] if self.level == "node" else []
        self.encodings, self.positions = encodings, EncodingEmbedding(encodings, emb_dim) if encodings else None

    def forward(self, batch: Any) -> Any:
        encoded = self.encoder(batch[self.name])
        if self.positions is not None:
            values = batch.node_encoding if "node_encoding" in batch else None
            if values is None:
                values = encode(self.encodings, batch.edge_index, batch.num_nodes, batch.batch)[0]
            encoded = encoded + self.positions(values, _segments(batch))
        batch[self.name] = encoded
        return batch


def _segments(batch: Any) -> Segments:
    graphs = batch.num_graphs if batch.batch is not None else None
    return Segments.from_batch(batch.batch, batch.num_nodes, graphs)


def _register() -> None:
    """Registers in GraphGym's dictionaries; existing entries are kept, for example when the module is reloaded."""
    made: dict[str, list[tuple[str, Any]]] = {"layer": [("lrga", LRGALayer)], "config": [("lrga", set_lrga_config)]}
    for level in ("node", "edge"):
        made[f"{level}_encoder"] = [
            (f"lrga_{kind}", type(f"LRGA{kind.title()}Encoder", (_Encoder,), {"kind": kind, "level": level}))
            for kind in ENCODERS
        ]
    for group, entries in made.items():
        for name, entry in entries:
            getattr(register, f"{group}_dict").setdefault(name, entry)
    if "lrga" not in cfg:
        set_lrga_config(cfg)


_register()
