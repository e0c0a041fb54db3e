"""The networks of the paper's Table 2: a GNN computes node features, and a pair is scored from their product.

As in the released code, the plain rows stack PyG's GCNConv (with self-loops) or SAGEConv. The LRGA row concatenates
``[LRGA(x), dropout(ReLU(GCN(x))), x]`` (x only with ``skip``) and applies a linear map, ReLU and BatchNorm; the last
layer has only the linear map.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch_geometric.nn import GATConv, GCNConv, GINConv, ResGatedGraphConv, SAGEConv
from torch_geometric.nn.inits import reset

from lrga.checks import check_choice, check_count, check_dense, check_fraction
from lrga.data.datasets.spec import dataset_name, spec_of
from lrga.errors import OptionError, ShapeError
from lrga.nn.attention import LowRankGlobalAttention, check_attention_options
from lrga.nn.encoders import NodeEmbedding, all_rows
from lrga.nn.layers.lrga import lrga_update
from lrga.nn.layers.pyg import convolve, gcn_scale, is_adjacency
from lrga.nn.linear import apply_linear
from lrga.nn.norm import BatchNorm, normalize
from lrga.nn.recompute import Stack
from lrga.ops.attention.segments import Segments
from lrga.ops.neighbors.edges import EdgeLayout

PREDICTORS = ("hadamard", "dot", "concat")
GAT_HEADS = 4


def _gat(in_channels: int, out_channels: int) -> nn.Module:
    if out_channels % GAT_HEADS:
        raise OptionError(f"hidden to be a multiple of {GAT_HEADS} heads", str(out_channels), "choose another width")
    return GATConv(in_channels, out_channels // GAT_HEADS, heads=GAT_HEADS)


def _gin(in_channels: int, out_channels: int) -> nn.Module:
    hidden = nn.Linear(in_channels, out_channels)
    return GINConv(nn.Sequential(hidden, nn.ReLU(), nn.Linear(out_channels, out_channels)), train_eps=True)


CONVOLUTIONS: dict[str, Callable[[int, int], nn.Module]] = {
    "gcn": GCNConv,
    "graphsage": SAGEConv,
    "gat": _gat,
    "gin": _gin,
    "gatedgcn": ResGatedGraphConv,
}
"""Name → module of (in_channels, out_channels); ``"gcn"`` has self-loops, ``"graphsage"`` takes the mean."""


@dataclass(frozen=True)
class LinkSet:
    """The shape of the paper's networks for a link-prediction data set."""

    name: str
    layers: int = 2
    rank: int = 30
    skip: bool = True
    dropout: float = 0.0
    hidden: int = 256

    @property
    def num_nodes(self) -> int:
        """Nodes of the graph."""
        return int(spec_of(self.name).mean_nodes)

    @property
    def num_features(self) -> int | None:
        """Columns of its node features; ``None``: the network learns an embedding instead."""
        inputs = spec_of(self.name).inputs
        return None if inputs.encoder == "learned" else int(inputs.in_channels)  # type: ignore[arg-type]


LINK_SETS: dict[str, LinkSet] = {
    shape.name: shape
    for shape in (
        LinkSet("ogbl-ppa", layers=3, rank=50, skip=True, dropout=0.0),
        LinkSet("ogbl-collab", layers=3, rank=100, skip=True, dropout=0.0),
        LinkSet("ogbl-ddi", layers=2, rank=50, skip=False, dropout=0.5),
    )
}


def check_pairs(pairs: Tensor) -> None:
    """Raises an error unless the shape is ``[2, P]``: in a list ``[P, 2]`` only the first two rows would be read."""
    if pairs.dim() != 2 or pairs.size(0) != 2:
        raise ShapeError("pairs of shape [2, P]", f"shape {list(pairs.shape)}", "transpose a list of pairs: pairs.t()")


class LinkPredictor(nn.Module):
    """Computes a logit for each pair of nodes from their features.

    Args:
        in_channels: Width of the node features.
        hidden_channels: Width of the hidden layers.
        num_layers: Number of linear maps.
        dropout: After each hidden layer.
        kind: ``"hadamard"``: an MLP on the elementwise product of the features of both nodes (the paper's); ``"dot"``:
            their inner product, without parameters; ``"concat"``: an MLP on their concatenation, which depends on the
            direction of the edge.
        residual: Whether a hidden layer adds its input to its output, if both have the same width.

    Example:
        >>> import torch
        >>> LinkPredictor(8, 16, 3)(torch.randn(5, 8), torch.randn(5, 8)).shape
        torch.Size([5])
    """

    def __init__(
        self,
        in_channels: int,
        hidden_channels: int,
        num_layers: int,
        *,
        dropout: float = 0.0,
        kind: str = "hadamard",
        residual: bool = False,
    ) -> None:
        arguments = {key: value for key, value in locals().items() if key not in ("self", "__class__")}
        super().__init__()
        self.arguments = arguments  # for save_pretrained
        check_count("in_channels", in_channels, minimum=1)
        check_count("hidden_channels", hidden_channels, minimum=1)
        check_count("num_layers", num_layers, minimum=1)
        check_fraction("dropout", dropout)
        check_choice("kind", kind, PREDICTORS)
        self.in_channels = in_channels
        widths = [in_channels * (2 if kind == "concat" else 1), *[hidden_channels] * (num_layers - 1), 1]
        self.lins = nn.ModuleList(nn.Linear(a, b) for a, b in pairwise(widths) if kind != "dot")
        self.dropout, self.kind, self.residual = float(dropout), kind, residual

    def reset_parameters(self) -> None:
        """Reinitialises all parameters."""
        reset(self.lins)

    def forward(self, source: Tensor, target: Tensor) -> Tensor:
        """Logits ``[P]`` of pairs with node features ``source`` and ``target``, both ``[P, in_channels]``."""
        if source.shape != target.shape or source.size(-1) != self.in_channels:
            got = f"{list(source.shape)} and {list(target.shape)}"
            raise ShapeError(
                f"features of shape [P, {self.in_channels}] of both nodes", got, "pass a row for each pair"
            )
        if self.kind == "dot":
            return (source * target).sum(-1)
        h = source * target if self.kind == "hadamard" else torch.cat([source, target], dim=-1)
        for lin in self.lins[:-1]:
            new = F.dropout(F.relu(apply_linear(lin, h)), self.dropout, self.training)
            h = h + new if self.residual and new.shape == h.shape else new
        return apply_linear(self.lins[-1], h).squeeze(-1)


class LinkGNN(Stack):
    """Computes node features by stacked convolutions, with or without LRGA.

    Args:
        in_channels: Width of the input features.
        hidden_channels: Width of the layers and of the result.
        num_layers: Number of layers.
        conv: ``"gcn"`` (with self-loops), ``"graphsage"`` (mean), ``"gat"``, ``"gin"`` or ``"gatedgcn"``.
        rank: The paper's κ; ``None`` is the plain network.
        skip: Whether the linear map of a layer also gets the layer's input (with LRGA only).
        dropout: Dropout after each layer; with LRGA on the output of the convolution and of the attention.
        linear: Layers without activation and BatchNorm: ``convolution + W·attention + residual·input``.
        residual: With ``linear``, the factor of the network's input; it needs ``in_channels == hidden_channels``.
        attention_heads: Heads of the attention.
        backend: Backend of the attention.
        attention_options: ``normalize``, ``qk_norm``, ``gate`` and ``eps`` of :class:`lrga.LowRankGlobalAttention`.

    Example:
        >>> import torch
        >>> LinkGNN(8, 16, 2, rank=4)(torch.randn(3, 8), torch.tensor([[0, 1, 2], [1, 2, 0]])).shape
        torch.Size([3, 16])
    """

    def __init__(
        self,
        in_channels: int,
        hidden_channels: int,
        num_layers: int,
        *,
        conv: str = "gcn",
        rank: int | None = None,
        skip: bool = True,
        dropout: float = 0.0,
        linear: bool = False,
        residual: float = 0.0,
        attention_heads: int = 1,
        backend: str = "auto",
        attention_options: Mapping[str, Any] | None = None,
    ) -> None:
        arguments = {key: value for key, value in locals().items() if key not in ("self", "__class__")}
        super().__init__()
        self.arguments = arguments  # for save_pretrained
        check_count("in_channels", in_channels, minimum=1)
        check_count("hidden_channels", hidden_channels, minimum=1)
        check_count("num_layers", num_layers, minimum=1)
        check_choice("conv", conv, tuple(CONVOLUTIONS))
        check_fraction("dropout", dropout)
        self.in_channels, self.hidden_channels, self.num_layers = in_channels, hidden_channels, num_layers
        self.conv, self.rank, self.skip, self.dropout = conv, rank, skip, float(dropout)
        self.linear, self.residual = linear, float(residual)
        if residual and not (linear and in_channels == hidden_channels):
            got = f"residual={residual:g} with linear={linear}, {in_channels} and {hidden_channels} channels"
            remedy = "use linear=True and equal widths, or residual=0 (of a run: linear_layers, hidden, input_residual)"
            raise OptionError("linear layers of the width of their input, for a residual", got, remedy)
        widths = [in_channels, *[hidden_channels] * num_layers]
        pairs = list(pairwise(widths))
        self.convs = nn.ModuleList(CONVOLUTIONS[conv](a, b) for a, b in pairs)
        self.attentions, self.mixes, self.norms = nn.ModuleList(), nn.ModuleList(), nn.ModuleList()
        if rank is not None:
            options: dict[str, Any] = {"heads": attention_heads, "dropout": dropout, "backend": backend}
            options |= check_attention_options(attention_options)
            for a, b in pairs:
                self.attentions.append(LowRankGlobalAttention(a, rank, **options))
                others = 0 if linear else b + (a if skip else 0)
                self.mixes.append(nn.Linear(2 * rank * attention_heads + others, b))
            self.norms.extend(BatchNorm(b) for _, b in pairs[:-1] if not linear)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Reinitialises all parameters: attention and linear maps xavier-normal, biases zero."""
        reset(self.convs)
        reset(self.norms)
        for module in (*self.attentions, *self.mixes):
            for parameter in module.parameters():
                if parameter.dim() > 1:
                    nn.init.xavier_normal_(parameter)
                else:
                    nn.init.zeros_(parameter)

    def forward(
        self,
        x: Tensor,
        edge_index: Any,
        edge_weight: Tensor | None = None,
        batch: Tensor | None = None,
        num_graphs: int | None = None,
    ) -> Tensor:
        """Node features ``[N, hidden_channels]``.

        Args:
            x: ``[N, in_channels]``.
            edge_index: As for PyG's convolutions; a layout (:class:`~lrga.ops.neighbors.edges.EdgeLayout`) without
                self-loops, with which GCN and GraphSAGE do not materialise messages; or, for GCN, an adjacency matrix
                ``[N, N]`` without a diagonal, in which row i holds the edges that end in node i.
            edge_weight: ``[E]``, in the order of the edges, for GCN only.
            batch: Graph of each node; ``None`` is one graph.
            num_graphs: Number of graphs, if known.
        """
        if edge_weight is not None and self.conv != "gcn":
            raise OptionError("conv='gcn' for edge weights", f"conv={self.conv!r}", "omit edge_weight")
        check_dense("x", x)
        if x.dim() != 2 or x.size(1) != self.in_channels:
            got, remedy = f"shape {list(x.shape)}", "build the network with in_channels=x.size(1)"
            raise ShapeError(f"x of shape [N, {self.in_channels}]", got, remedy)
        if is_adjacency(edge_index):
            if edge_index.shape != (x.size(0), x.size(0)):
                got, remedy = f"shape {list(edge_index.shape)}", "for edges [2, E], call edge_index.long()"
                raise ShapeError(f"an adjacency matrix of shape {[x.size(0)] * 2}", got, remedy)
            if edge_weight is not None:
                raise OptionError("edge weights as entries of the matrix", "edge_weight", "write them into the matrix")
        on_layout = is_adjacency(edge_index) or (isinstance(edge_index, EdgeLayout) and not edge_index.is_partitioned)
        scale = (
            gcn_scale(edge_index, edge_weight, x.dtype) if on_layout and self.conv == "gcn" else None
        )  # the same in every layer
        segments = Segments.from_batch(batch, x.size(0), num_graphs)
        given = x
        for i in range(self.num_layers):
            x = self.recomputed(self._layer, i, x, edge_index, edge_weight, scale, segments, norms=self.norms)
            x = torch.add(x, given, alpha=self.residual) if self.residual else x
        return x

    def _layer(
        self, i: int, x: Tensor, edges: Any, weight: Tensor | None, scale: Tensor | None, segments: Segments
    ) -> Tensor:
        """Layer ``i``, counted from 0."""
        last = i + 1 == self.num_layers
        local = convolve(self.convs[i], x, edges, weight, scale)
        if self.linear:
            local = local if last else F.dropout(local, self.dropout, self.training)
            return local if self.rank is None else local + apply_linear(self.mixes[i], self.attentions[i](x, segments))
        if self.rank is None:
            return local if last else F.dropout(F.relu(local), self.dropout, self.training)
        local = F.dropout(F.relu(local), self.dropout, self.training)
        concatenate = ("attention", "local", "input") if self.skip else ("attention", "local")
        h = lrga_update(self.mixes[i], x, self.attentions[i](x, segments), local, concatenate)
        return h if last else normalize(self.norms[i], h, before="relu")


class LinkModel(nn.Module):
    """Features (given or learned) → :class:`LinkGNN` → :class:`LinkPredictor`.

    Args:
        gnn: Computes node features.
        predictor: Scores pairs of nodes.
        num_nodes: Number of nodes, if they have no features: each node then gets a learned embedding of width
            ``gnn.in_channels``.
        orthogonal: Whether the initial embedding is orthogonal instead of xavier-uniform.
    """

    def __init__(
        self, gnn: LinkGNN, predictor: LinkPredictor, *, num_nodes: int | None = None, orthogonal: bool = False
    ) -> None:
        super().__init__()
        self.gnn, self.predictor, self.orthogonal = gnn, predictor, orthogonal
        self.embedding = None if num_nodes is None else NodeEmbedding(num_nodes, gnn.in_channels)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Reinitialises all parameters; the embedding is xavier-uniform or orthogonal."""
        self.gnn.reset_parameters()
        self.predictor.reset_parameters()
        if self.embedding is not None:
            (nn.init.orthogonal_ if self.orthogonal else nn.init.xavier_uniform_)(self.embedding.weight)

    def parameter_groups(self) -> list[list[nn.Parameter]]:
        """Groups of parameters whose gradients are clipped together: network, predictor, embedding."""
        parts = (self.gnn, self.predictor, self.embedding)
        groups = [list(part.parameters()) for part in parts if part is not None]
        return [group for group in groups if group]

    def encode(self, x: Tensor | None, edge_index: Any, edge_weight: Tensor | None = None) -> Tensor:
        """Node features ``[N, hidden]`` of the whole graph."""
        if (x is None) == (self.embedding is None):
            wanted = "node features x" if self.embedding is None else "no node features (they are learned)"
            got = "x=None" if x is None else f"x of shape {list(x.shape)}"
            raise ShapeError(wanted, got, "pass data.x only if the model has no embedding")
        return self.gnn(all_rows(self.embedding) if self.embedding is not None else x, edge_index, edge_weight)

    def score(self, h: Tensor, pairs: Tensor) -> Tensor:
        """Logits ``[P]`` of ``pairs`` ``[2, P]``; ``h`` are the features of all nodes."""
        check_pairs(pairs)
        return self.predictor(h.index_select(0, pairs[0]), h.index_select(0, pairs[1]))

    def forward(self, x: Tensor | None, edge_index: Any, pairs: Tensor, edge_weight: Tensor | None = None) -> Tensor:
        """Logits ``[P]`` of ``pairs`` ``[2, P]`` in the graph ``edge_index``."""
        return self.score(self.encode(x, edge_index, edge_weight), pairs)


def link_set(name: str) -> LinkSet:
    """The facts of a link-prediction data set."""
    found = dataset_name(name)
    if found not in LINK_SETS:
        raise OptionError(f"dataset to be one of {', '.join(LINK_SETS)}", repr(name), "pick one of them")
    return LINK_SETS[found]


def build_link_model(
    dataset: str,
    model: str = "gcn",
    *,
    lrga: bool = True,
    hidden: int | None = None,
    layers: int | None = None,
    rank: int | None = None,
    skip: bool | None = None,
    dropout: float | None = None,
    **options: Any,
) -> LinkModel:
    """Builds the network of one GNN row of Table 2, or a variation of it.

    Args:
        dataset: ``"ogbl-ppa"``, ``"ogbl-collab"`` or ``"ogbl-ddi"``.
        model: ``"gcn"``, ``"graphsage"``, ``"gat"``, ``"gin"`` or ``"gatedgcn"``.
        lrga: Whether every layer is augmented.
        hidden: Width, by default the paper's 256.
        layers: Number of layers of the GNN and of the predictor.
        rank: The paper's κ.
        skip: Whether the linear map of an augmented layer also gets the layer's input.
        dropout: Dropout in GNN and predictor.
        **options: Further options of :class:`LinkGNN`.

    Example:
        >>> from lrga.models.budget import count_parameters
        >>> count_parameters(build_link_model("ogbl-ddi", "gcn"))
        1576081
    """
    facts = link_set(dataset)
    hidden = facts.hidden if hidden is None else hidden
    layers = facts.layers if layers is None else layers
    dropout = facts.dropout if dropout is None else dropout
    gnn = LinkGNN(
        hidden if facts.num_features is None else facts.num_features,
        hidden,
        layers,
        conv=model,
        rank=(facts.rank if rank is None else rank) if lrga else None,
        skip=facts.skip if skip is None else skip,
        dropout=dropout,
        **options,
    )
    predictor = LinkPredictor(hidden, hidden, layers, dropout=dropout)
    return LinkModel(gnn, predictor, num_nodes=facts.num_nodes if facts.num_features is None else None)
