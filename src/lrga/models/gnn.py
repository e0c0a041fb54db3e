"""A graph network with the structure of the paper's: encoder, layers, head."""

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch_geometric.nn.inits import reset

from lrga.checks import check_choice, check_count, check_same_device
from lrga.errors import DTypeError, OptionError, ShapeError
from lrga.nn.encoders import ENCODERS
from lrga.nn.encodings import EncodingEmbedding, parse_encodings
from lrga.nn.heads import HEAD_LAYERS, TASKS, Head, LayerwiseHead
from lrga.nn.inputs import as_edges, valid_edges, valid_nodes
from lrga.nn.layers.base import BenchmarkLayer
from lrga.nn.layers.gat import GATLayer
from lrga.nn.layers.gated_gcn import GatedGCNLayer
from lrga.nn.layers.gcn import GCNLayer
from lrga.nn.layers.gin import GINLayer
from lrga.nn.layers.gine import GINELayer
from lrga.nn.layers.lrga import LRGALayer, Wiring, wiring_of
from lrga.nn.layers.residual import ResidualLayer
from lrga.nn.layers.sage import SAGELayer
from lrga.nn.norm import NORMS
from lrga.nn.random_features import normal, positions_in_graphs
from lrga.ops._triton import runs_on_gpu
from lrga.ops.attention.segments import Segments
from lrga.ops.neighbors.cpu import is_supported
from lrga.ops.neighbors.edges import EdgeLayout
from lrga.ops.neighbors.reduce import Edges, num_edges

CONVOLUTIONS: dict[str, type[BenchmarkLayer]] = {
    "gcn": GCNLayer,
    "gat": GATLayer,
    "gatedgcn": GatedGCNLayer,
    "graphsage": SAGELayer,
    "gin": GINLayer,
    "gine": GINELayer,
}
EDGE_CONVOLUTIONS = ("gatedgcn", "gine")  # convolutions that read edge features
BLOCKS = ("benchmark", "residual")
HELD_ROWS = 1024


class GNN(nn.Module):
    r"""Encoder → layers → head, with or without low-rank global attention in every layer.

    Args:
        in_channels: Columns of x; with ``encoder="embedding"`` the number of categories, with ``"embeddings"`` the
            number of categories of each column.
        hidden_channels: Width of the layers.
        out_channels: Width of the prediction.
        num_layers: L, the number of layers.
        conv: ``"gcn"``, ``"gat"``, ``"gatedgcn"``, ``"graphsage"``, ``"gin"`` or ``"gine"``. GIN predicts from
            every layer by a linear map; the others, and all residual blocks, predict from the last layer by an MLP.
        rank: The paper's κ (0 leaves the attention out of the augmented layer); ``None`` is the plain network.
        task: ``"node"``, ``"graph"`` or ``"edge"``: what is predicted.
        encoder: ``"linear"`` for real features, ``"embedding"`` for one category per node, ``"embeddings"`` for
            several, whose embeddings are added.
        edge_encoder: The same for edge features, which GatedGCN and GINE use. Without edge features they use ones;
            ``"ones"`` uses ones even if edge features are given.
        edge_channels: Columns or categories of the edge features, in the same form as ``in_channels``.
        heads: Heads of GAT; its last layer has one. ``hidden_channels`` must be a multiple of it.
        attention_heads: Heads of the low-rank attention.
        preset: ``"2022"`` or ``"2020"``: the version of the benchmark's layers.
        wiring: How layer and attention are joined: a :class:`~lrga.nn.layers.lrga.Wiring`, or one of the names
            ``"authors-code"``, ``"norm-first"``, ``"outer-residual"``, ``"two-residuals"`` and ``"outer-norm"``.
        dropout: Dropout in the layers and on the attention's output.
        residual: Whether the layers have residual connections.
        batch_norm: Whether the layers are normalised.
        block: ``"benchmark"`` stacks the paper's layers, ``"residual"`` the layers of the modern recipe, see
            :class:`~lrga.nn.layers.residual.ResidualLayer`.
        norm: Normalisation of residual blocks: ``"batch"``, ``"layer"`` or ``"rms"``.
        attention_dropout: Dropout on the attention's output in residual blocks; ``dropout`` by default.
        readout: ``"mean"``, ``"sum"`` or ``"max"`` over the nodes of a graph; by default the mean, for GIN the sum.
        head_layers: Linear maps of the MLP that predicts, 1 for a linear classifier; 3 by default. The head of GIN's
            benchmark layers is linear anyway.
        encoding: Positional encodings, whose embedding is added to the embedding of the features, such as
            ``"rwse:20"`` or ``["rrwp:16", "lappe:8"]`` (:mod:`lrga.nn.encodings`); pass their values to ``forward``.
        random_features: Whether the input of the first layer is normal noise of variance 1 / hidden_channels, drawn in
            every forward pass, instead of the encoded features. Only the number of rows of x is then used.
        resample_features: ``False`` fixes the noise: it is drawn once and saved with the weights, and node j of every
            graph always has the same noise (rows repeat after 1,024 nodes).
        generator: Source of the noise; PyTorch's own by default.
        backend: Backend of the attention.
        attention_options: ``normalize``, ``qk_norm``, ``gate`` and ``eps`` of :class:`lrga.LowRankGlobalAttention`.

    Shapes:
        - x: ``[N, in_channels]`` real, or ``[N]`` / ``[N, 1]`` integer with ``encoder="embedding"``, ``[N, C]``
          integer with ``"embeddings"``
        - result: ``[N, out_channels]``, ``[G, out_channels]`` or ``[E, out_channels]``, depending on the task

    Example:
        >>> import torch, lrga
        >>> model = lrga.GNN(5, 32, 10, 4, conv="gcn", rank=8, task="graph")
        >>> x, edge_index = torch.randn(4, 5), torch.tensor([[0, 1, 2, 3], [1, 0, 3, 2]])
        >>> model(x, edge_index, batch=torch.tensor([0, 0, 1, 1])).shape
        torch.Size([2, 10])
    """

    held_features: Tensor
    output_mean: Tensor | None
    output_std: Tensor | None

    def __init__(
        self,
        in_channels: int | Sequence[int],
        hidden_channels: int,
        out_channels: int,
        num_layers: int,
        *,
        conv: str = "gcn",
        rank: int | None = None,
        task: str = "node",
        encoder: str = "linear",
        edge_encoder: str = "linear",
        edge_channels: int | Sequence[int] = 1,
        heads: int = 1,
        attention_heads: int = 1,
        preset: str = "2022",
        wiring: str | Wiring = "authors-code",
        dropout: float = 0.0,
        residual: bool = True,
        batch_norm: bool = True,
        block: str = "benchmark",
        norm: str = "batch",
        attention_dropout: float | None = None,
        readout: str | None = None,
        head_layers: int = HEAD_LAYERS,
        encoding: str | Sequence[str] | None = None,
        random_features: bool = False,
        resample_features: bool = True,
        generator: torch.Generator | None = None,
        backend: str = "auto",
        attention_options: Mapping[str, Any] | None = None,
    ) -> None:
        arguments = {key: value for key, value in locals().items() if key not in ("self", "__class__", "generator")}
        super().__init__()
        self.arguments = arguments  # for save_pretrained
        check_count("hidden_channels", hidden_channels, minimum=1)
        check_count("out_channels", out_channels, minimum=1)
        check_count("num_layers", num_layers, minimum=1)
        check_choice("conv", conv, tuple(CONVOLUTIONS))
        check_choice("task", task, TASKS)
        check_choice("encoder", encoder, tuple(ENCODERS))
        check_choice("edge_encoder", edge_encoder, (*ENCODERS, "ones"))
        check_choice("block", block, BLOCKS)
        check_choice("norm", norm, tuple(NORMS))
        joined, is_residual = wiring_of(wiring), block == "residual"
        if is_residual and (preset != "2022" or not residual):
            got = "residual=False" if preset == "2022" else f"preset={preset!r}"
            raise OptionError("block='residual' with preset '2022' and residual connections", got, "omit this option")
        self.in_channels, self.hidden_channels, self.out_channels = in_channels, hidden_channels, out_channels
        self.num_layers, self.conv, self.rank, self.task = num_layers, conv, rank, task
        self.preset, self.wiring = preset, wiring
        self.random_features, self.generator = random_features, generator
        if random_features and not resample_features:
            source = None if generator is None else generator.device
            self.register_buffer(
                "held_features", normal(HELD_ROWS, hidden_channels, generator=generator, device=source)
            )
        self.resample_features = resample_features
        # Noise needs no encoder. Unused parameters would be counted and would break distributed training.
        self.encoder = None if random_features else ENCODERS[encoder](in_channels, hidden_channels)
        self.edge_encoder, self.edges_as_ones = None, edge_encoder == "ones"
        if conv in EDGE_CONVOLUTIONS:
            kind, width = ("linear", 1) if self.edges_as_ones else (edge_encoder, edge_channels)
            self.edge_encoder = ENCODERS[kind](width, hidden_channels, name="edge_attr")
        self.encoding = [str(one) for one in parse_encodings(encoding)]
        self.node_encoding: EncodingEmbedding | None = None
        self.edge_encoding: EncodingEmbedding | None = None
        if self.encoding:
            self.node_encoding = EncodingEmbedding(self.encoding, hidden_channels)
        if self.edge_encoder is not None and any(one.edge_columns for one in parse_encodings(encoding)):
            self.edge_encoding = EncodingEmbedding(self.encoding, hidden_channels, level="edge")
        self.block = block
        base_residual = residual and (rank is None or joined.inner_residual)
        base_norm = batch_norm and (rank is None or joined.inner_norm)
        mixed_norm = batch_norm and joined.has_outer_norm(conv)
        of_base: dict[str, Any] = {
            "preset": preset,
            "dropout": dropout,
            "residual": base_residual,
            "batch_norm": base_norm,
        }
        of_attention: dict[str, Any] = {
            "heads": attention_heads,
            "dropout": dropout,
            "backend": backend,
            "attention_options": attention_options,
        }
        self.layers = nn.ModuleList()
        for i in range(num_layers):
            base = _layer(conv, hidden_channels, heads if i + 1 < num_layers else 1, **of_base)
            if is_residual:
                of_block: dict[str, Any] = {
                    "attention_dropout": attention_dropout,
                    "norm": norm if batch_norm else None,
                }
                self.layers.append(ResidualLayer(base, hidden_channels, rank, **of_attention, **of_block))
            elif rank is not None:
                of_layer: dict[str, Any] = {"wiring": joined, "batch_norm": mixed_norm}
                self.layers.append(LRGALayer(base, hidden_channels, rank, **of_attention, **of_layer))
            else:
                self.layers.append(base)
        if conv == "gin" and not is_residual:
            self.head: nn.Module = LayerwiseHead(
                hidden_channels, out_channels, num_layers, task=task, readout=readout or "sum"
            )
        else:
            self.head = Head(hidden_channels, out_channels, task=task, readout=readout or "mean", layers=head_layers)
        self.register_buffer("output_mean", None, persistent=False)
        self.register_buffer("output_std", None, persistent=False)

    def reset_parameters(self) -> None:
        """Reinitialises all parameters."""
        for module in self.children():
            reset(module)

    def set_output_scale(self, mean: Sequence[float], std: Sequence[float]) -> None:
        """Rescales the output to ``output * std + mean`` in float64, to undo the standardisation of targets.

        The scale is not part of the state dict.

        Args:
            mean: Mean of each of the ``out_channels`` targets.
            std: Standard deviation of each target.

        Example:
            >>> import torch, lrga
            >>> model = lrga.GNN(3, 8, 1, 1, task="graph").eval()
            >>> x, edge_index = torch.randn(2, 3), torch.tensor([[0, 1], [1, 0]])
            >>> before = model(x, edge_index)
            >>> model.set_output_scale([65_000.0], [8_000.0])
            >>> bool(model(x, edge_index).allclose(before.double() * 8_000 + 65_000))
            True
        """
        device = next(self.parameters()).device
        for name, values in (("output_mean", mean), ("output_std", std)):
            if len(values) != self.out_channels:
                raise ShapeError(f"one number for each of {self.out_channels} outputs", str(len(values)), "pass all")
            tensor = torch.tensor(values, dtype=torch.float64, device=device)
            self.register_buffer(name, tensor, persistent=False)

    @property
    def num_parameters(self) -> int:
        """Number of parameters."""
        return sum(parameter.numel() for parameter in self.parameters())

    def forward(
        self,
        x: Tensor,
        edge_index: Tensor | EdgeLayout,
        edge_attr: Tensor | None = None,
        batch: Tensor | None = None,
        num_graphs: int | None = None,
        *,
        node_encoding: Tensor | None = None,
        edge_encoding: Tensor | None = None,
    ) -> Tensor:
        """Computes the predictions.

        Args:
            x: Node features.
            edge_index: ``[2, E]`` as in PyG, its ``EdgeIndex``, a sparse ``adj_t``, or an :class:`EdgeLayout`, whose
                edges are already sorted.
            edge_attr: Edge features in the order of the edges; GatedGCN and GINE read them.
            batch: Graph of each node, in any order; ``None`` is one graph.
            num_graphs: Number of graphs, if known (needed for empty graphs at the end and for compilation).
            node_encoding: ``[N, P]`` if the model has an ``encoding``: the result of
                :func:`lrga.nn.encodings.encode`, or ``data.node_encoding`` as :class:`~lrga.data.AddEncodings` sets it.
            edge_encoding: ``[E, Q]``, the same for edges, in the order of the edges.

        Returns:
            Predictions for nodes or graphs, or for edges in the order of ``edge_index``.
        """
        if not isinstance(x, Tensor) or x.dim() == 0:
            raise DTypeError("x to be a tensor with one row per node", repr(x)[:80], "pass data.x")
        num_nodes = x.size(0)
        edges, order = as_edges(edge_index, x, partitioned=None), None  # the layers check
        check_same_device(x=x, batch=batch if isinstance(batch, Tensor) else None)
        segments = Segments.from_batch(batch, num_nodes, num_graphs)
        h = self._encode(x, segments)
        if self.node_encoding is not None:
            h = h + self.node_encoding(node_encoding, segments, valid_nodes(edges))
        if self.edge_encoding is None:
            edge_encoding = None
        if self.edge_encoder is None or self.edges_as_ones:
            edge_attr = None
        for name, values in (("edge_attr", edge_attr), ("edge_encoding", edge_encoding)):
            if values is not None:
                _check_rows(name, values, num_edges(edges))
        # Sort once for all layers.
        if not isinstance(edges, EdgeLayout) and (is_supported(h) or runs_on_gpu(h)):
            edges, order = EdgeLayout.from_edge_index(edges, num_nodes, check=False)
            edge_attr = None if edge_attr is None else edge_attr.index_select(0, order)
            edge_encoding = None if edge_encoding is None else edge_encoding.index_select(0, order)
        e = None if self.edge_encoder is None else self._encode_edges(edge_attr, edges)
        if e is not None and self.edge_encoding is not None:
            e = e + self.edge_encoding(edge_encoding, segments, valid_edges(edges))
        hidden = [h]
        for i, layer in enumerate(self.layers, start=1):
            if e is None:
                h = layer(h, edges, None, segments)
            else:
                h, e = layer(h, edges, e, segments, need_edges=i < self.num_layers)
            hidden.append(h)
        out = self.head(hidden, edges, segments)
        if self.output_std is not None and self.output_mean is not None:
            out = out * self.output_std + self.output_mean
        if order is None or self.task != "edge":
            return out
        return torch.empty_like(out).index_copy(0, order, out)

    def _encode(self, x: Tensor, segments: Segments) -> Tensor:
        if self.encoder is not None:
            return self.encoder(x)
        if not self.resample_features:
            return self.held_features.index_select(0, positions_in_graphs(segments, x.device) % HELD_ROWS)
        like = next(self.parameters())
        device = x.device if self.generator is None else self.generator.device
        noise = normal(x.size(0), self.hidden_channels, generator=self.generator, dtype=like.dtype, device=device)
        return noise.to(x.device)

    def _encode_edges(self, edge_attr: Tensor | None, edges: Edges) -> Tensor:
        assert self.edge_encoder is not None
        if edge_attr is None:
            edge_attr = self.edge_encoder.ones(num_edges(edges))
        return self.edge_encoder(edge_attr)

    def extra_repr(self) -> str:
        return f"conv={self.conv!r}, rank={self.rank}, task={self.task!r}, parameters={self.num_parameters:,}"


def _layer(conv: str, channels: int, heads: int, **options: Any) -> BenchmarkLayer:
    if conv != "gat":
        return CONVOLUTIONS[conv](channels, channels, **options)
    if channels % heads:
        raise OptionError(
            f"hidden_channels to be a multiple of heads={heads}",
            str(channels),
            "choose both so that all heads have the same width",
        )
    return GATLayer(channels, channels // heads, heads=heads, **options)


def _check_rows(name: str, values: Tensor, rows: int) -> None:
    if values.dim() == 0 or values.size(0) != rows:
        raise ShapeError(
            f"{name} with one row for each of {rows} edges",
            f"shape {list(values.shape)}",
            f"pass the {name} that belongs to this edge_index",
        )
