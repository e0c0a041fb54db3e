"""Any PyG convolution with low-rank global attention in parallel (the paper's equation 1)."""

import inspect
import warnings
from typing import Any

import torch
from torch import Tensor, nn
from torch_geometric.nn import BatchNorm
from torch_geometric.nn.inits import reset
from torch_geometric.nn.resolver import activation_resolver, normalization_resolver

from lrga.checks import (
    check_count,
    check_features,
    check_not_partitioned,
    check_same_device,
    check_same_dtype,
    stop_tracing,
)
from lrga.errors import BatchContextError, DTypeError, OptionError, ShapeError, UnsupportedError
from lrga.nn import context
from lrga.nn.attention import LowRankGlobalAttention
from lrga.nn.context import named_arguments
from lrga.nn.layers.lrga import PARTS, lrga_update
from lrga.nn.linear import weight_of
from lrga.nn.probe import input_width, output_width
from lrga.ops.attention.segments import Segments


class _FromContext:
    """The default of ``batch``: taken from the context of the call, else an error."""

    def __repr__(self) -> str:
        return "<from the context, else an error>"


FROM_CONTEXT = _FromContext()


class LRGAConv(nn.Module):
    r"""A graph convolution with global attention over all nodes of the graph.

    .. math::
        X' = \mathrm{norm}(\mathrm{act}(m_5([X, \, \mathrm{LRGA}(X), \, \mathrm{conv}(X)])))

    :math:`m_5` is a linear map to ``out_channels``. As in the authors' code, the activation precedes the normalisation.

    Args:
        conv: Any PyG convolution, called as ``conv(x, edge_index, …)``. It may return the node features, or a tuple of
            node features and others (edge features, attention weights), which are returned unchanged.
        in_channels: Width of x, or ``-1`` to take it from the first call.
        out_channels: Width of the result.
        rank: The paper's κ. Rank 0 leaves the attention out: ``norm(act(m5([x, conv(x)])))``.
        heads: Heads of the attention.
        skip: Whether x is an input of :math:`m_5`.
        dropout: Dropout on the attention's output.
        normalize: Option of :class:`LowRankGlobalAttention`.
        qk_norm: Option of :class:`LowRankGlobalAttention`.
        gate: Option of :class:`LowRankGlobalAttention`.
        norm: The name of a PyG normalisation, a module, or ``None``.
        act: The name of a PyG activation, a module or function, or ``None``.
        single_graph: Whether to treat all nodes as one graph if a call has no batch vector.
        backend: See :class:`LowRankGlobalAttention`.

    A call without ``batch`` takes the batch vector from the context: :func:`lrga.batch_context`, or a model
    prepared by :func:`lrga.provide_batch`. Without one it raises an error, so graphs never mix silently.

    The convolution's output width is measured on a two-node graph. If the convolution needs further arguments,
    :math:`m_5` is initialised in the first call, like PyG's lazy layers.

    Under neighbour sampling the attention is over the sampled nodes. This approximates attention over the whole graph,
    with a bias towards the neighbourhood of the seeds.

    Shapes:
        - x: ``[N, in_channels]``; result: ``[N, out_channels]``

    Example:
        >>> import torch, lrga
        >>> from torch_geometric.nn import GATConv
        >>> layer = lrga.LRGAConv(GATConv(16, 8, heads=4), 16, 32, rank=10)
        >>> edge_index = torch.tensor([[0, 1, 2, 3], [1, 0, 3, 2]])
        >>> layer(torch.randn(4, 16), edge_index, batch=torch.tensor([0, 0, 1, 1])).shape
        torch.Size([4, 32])
    """

    def __init__(
        self,
        conv: nn.Module,
        in_channels: int,
        out_channels: int,
        rank: int,
        *,
        heads: int = 1,
        skip: bool = True,
        dropout: float = 0.0,
        normalize: str | None = "graph",
        qk_norm: bool = False,
        gate: bool = False,
        norm: str | nn.Module | None = "batch_norm",
        act: Any = "relu",
        single_graph: bool = False,
        backend: str = "auto",
    ) -> None:
        super().__init__()
        self.single_graph = bool(single_graph)
        if not isinstance(conv, nn.Module):
            raise DTypeError("conv to be a module", type(conv).__name__, "pass an instance, e.g. GCNConv(16, 16)")
        check_count("out_channels", out_channels, minimum=1)
        attention: dict[str, Any] = {"normalize": normalize, "qk_norm": qk_norm, "gate": gate, "backend": backend}
        self._build(conv, in_channels, out_channels, rank, heads, skip, dropout, norm, act, **attention)

    def _build(
        self,
        conv: nn.Module,
        in_channels: int,
        out_channels: int | None,
        rank: int,
        heads: int,
        skip: bool,
        dropout: float,
        norm: str | nn.Module | None,
        act: Any,
        **attention: Any,
    ) -> None:
        self.conv = conv
        self.attention = LowRankGlobalAttention(in_channels, rank, heads=heads, dropout=dropout, **attention)
        self.skip = bool(skip)
        local = output_width(conv, in_channels)
        if local is None and in_channels >= 0 and (taken := input_width(conv)) not in (None, in_channels):
            raise ShapeError(
                f"a convolution of features [N, {in_channels}]",
                f"{type(conv).__name__} of features [N, {taken}]",
                f"pass in_channels={taken}, or create the convolution with {in_channels}",
            )
        self._out_channels = local if out_channels is None else out_channels
        width = None if local is None else (in_channels if skip else 0) + heads * 2 * rank + local
        self.mix = _linear(width, self._out_channels)
        self.act = _activation(act)
        self.norm = _normalization(norm, self._out_channels)
        self._norm_takes_batch = _takes_batch(self.norm)
        self._conv_takes_batch = _takes_batch(conv)
        self._conv_names = tuple(inspect.signature(conv.forward).parameters)

    @property
    def in_channels(self) -> int:
        """Width of x; ``-1`` before the first call."""
        return self.attention.in_channels

    @property
    def out_channels(self) -> int | None:
        """Width of the result; ``None`` if it is only known after the first call."""
        return self._out_channels

    @property
    def rank(self) -> int:
        """The paper's κ."""
        return self.attention.rank

    @property
    def heads(self) -> int:
        """Heads of the attention."""
        return self.attention.heads

    def reset_parameters(self) -> None:
        """Reinitialises all parameters, including those of the wrapped convolution."""
        for module in (self.conv, self.attention, self.mix, self.norm):
            reset(module)

    def forward(
        self,
        x: Tensor,
        edge_index: Any,
        *args: Any,
        batch: Tensor | Segments | _FromContext | None = FROM_CONTEXT,
        num_graphs: int | None = None,
        **kwargs: Any,
    ) -> Any:
        """Runs the convolution and the attention, and combines them by :math:`m_5`.

        Args:
            x: Node features.
            edge_index: Edges in any form that the convolution accepts: a tensor, ``EdgeIndex`` or sparse tensor.
            *args: Further arguments of the convolution (edge weights or features, …).
            batch: Graph of each node; ``None`` is one graph. If omitted, it is taken from the context.
            num_graphs: Number of graphs, if known.
            **kwargs: Further arguments of the convolution.
        """
        self._check_input(x)
        segments = self._segments(x, edge_index, (edge_index, *args), batch, num_graphs)
        if self._conv_takes_batch and "batch" not in named_arguments(self.conv, (x, edge_index, *args), kwargs):
            kwargs["batch"] = segments.batch  # the convolution itself needs the batch vector
        return self._combine(x, self.conv(x, edge_index, *args, **kwargs), segments)

    def _segments(
        self,
        x: Tensor,
        edge_index: Any,
        args: tuple[Any, ...],
        batch: Tensor | Segments | _FromContext | None,
        num_graphs: int | None,
    ) -> Segments:
        """The segments of a call, from its own batch vector or the context's. ``args`` are the arguments after x."""
        if not self.attention.is_partitioned:
            check_not_partitioned(edge_index)
        if isinstance(batch, Segments):
            return batch
        if not isinstance(batch, _FromContext):
            check_same_device(x=x, batch=batch if isinstance(batch, Tensor) else None)
            return Segments.from_batch(batch, x.size(0), num_graphs)
        by_position = dict(zip(self._conv_names[1:], args, strict=False))
        if isinstance(by_position.get("batch"), Tensor):  # a parameter of the convolution
            return Segments.from_batch(by_position["batch"], x.size(0), num_graphs)
        assignment = context.for_layer(self, edge_index, context.Assignment(None) if self.single_graph else None)
        vectors = [name for name, arg in by_position.items() if _is_batch_like(arg, x)]
        of_edges = [name for name in vectors if name.startswith("edge")]
        misplaced = of_edges and ("edge_weight" in of_edges or not _has_as_many(edge_index, x))
        misplaced = misplaced or "size" in vectors  # a pair of numbers
        if assignment is None or misplaced:
            raise self._missing_batch(bool(vectors))
        return assignment.segments(x)

    _remedies = (
        "pass batch=data.batch (batch=None for one graph) to the layer; or call lrga.provide_batch(model) once and "
        "pass `batch` or a PyG Batch to the model; or call the model, for example model.encode(…), inside "
        "`with lrga.batch_context(batch):`; or create the layer with single_graph=True"
    )

    def _missing_batch(self, by_position: bool) -> BatchContextError:
        stop_tracing(self._remedies)
        name = type(self).__name__
        got = f"a call of {name} without `batch` and without a batch context"
        if by_position:
            got = f"a positional vector of integers, which {name} passes to {type(self.conv).__name__}"
        return BatchContextError("a batch vector with the graph of each node", got, self._remedies)

    def _check_input(self, x: Any) -> None:
        if isinstance(x, tuple | list | dict):
            raise UnsupportedError(
                "node features as one tensor",
                f"a {type(x).__name__}, as for bipartite or heterogeneous graphs",
                self._remedy_for_pairs(),
            )
        width = self.attention.in_channels
        check_features("x", x, width if width >= 0 else None)
        weight = None if isinstance(self.mix, nn.LazyLinear) else weight_of(self.mix)
        check_same_device(x=x, parameters=weight)
        check_same_dtype(x, weight)

    def _remedy_for_pairs(self) -> str:
        return "wrap only convolutions on one set of nodes; global attention over two node sets is not defined"

    def _combine(self, x: Tensor, local: Any, segments: Segments) -> Any:
        local, *rest = local if isinstance(local, tuple | list) else (local,)
        if not isinstance(local, Tensor) or local.dim() != 2 or local.size(0) != x.size(0):
            got = f"shape {list(local.shape)}" if isinstance(local, Tensor) else type(local).__name__
            raise ShapeError(
                f"{type(self.conv).__name__} to return features [{x.size(0)}, …], one row per node",
                got,
                "augment only layers that do not change the number of nodes",
            )
        out = self._mix(x, self.attention(x, segments), local)
        if self.act is not None:
            out = self.act(out)
        if self.norm is not None:
            out = self.norm(out, segments.batch) if self._norm_takes_batch else self.norm(out)
        return (out, *rest) if rest else out

    def _mix(self, x: Tensor, attended: Tensor, local: Tensor) -> Tensor:
        if isinstance(self.mix, nn.LazyLinear):
            if self._out_channels is None:
                self._out_channels = self.mix.out_features = local.size(-1)
        else:
            others = attended.size(-1) + (x.size(-1) if self.skip else 0)
            known = getattr(self.mix, "in_features", others + local.size(-1)) - others  # an adapter may have none
            if local.size(-1) != known:
                raise ShapeError(
                    f"{type(self.conv).__name__} to return {known} columns, the width when this layer was created",
                    f"{local.size(-1)} columns",
                    "create a new LRGAConv after changing the convolution",
                )
        return lrga_update(self.mix, x, attended, local, PARTS if self.skip else PARTS[1:])

    def __repr__(self) -> str:
        attention, width = self.attention, self._out_channels or self.out_channels
        options = "".join(f", {option}" for option in attention.changed_options())
        return (
            f"{type(self).__name__}({self.conv}, {attention.in_channels}, {width}, rank={attention.rank}, "
            f"heads={attention.heads}{options})"
        )


def _linear(in_channels: int | None, out_channels: int | None) -> nn.Linear:
    """``nn.Linear``, or a lazy one if a width is not known yet."""
    if in_channels is not None and out_channels is not None:
        return nn.Linear(in_channels, out_channels)
    with warnings.catch_warnings():  # torch warns that lazy modules are new; PyG has relied on them for years
        warnings.filterwarnings("ignore", message="Lazy modules are a new feature")
        return LazyMix(out_channels or 0)


class LazyMix(nn.LazyLinear):
    """:math:`m_5` before its widths are known. With ``identity`` it initially returns the convolution's output."""

    cls_to_become = nn.Linear
    identity = False

    def initialize_parameters(self, input: Tensor) -> None:
        fresh = self.has_uninitialized_params()
        with torch.inference_mode(False):  # parameters may be trained later
            super().initialize_parameters(input)
        if fresh and self.identity:
            pass_convolution_through(self)


@torch.no_grad()
def pass_convolution_through(m5: nn.Linear) -> None:
    """Sets :math:`m_5([x, LRGA(x), conv(x)]) = conv(x)`."""
    m5.weight.zero_()
    m5.weight[:, -m5.out_features :].fill_diagonal_(1.0)
    m5.bias.zero_()


def _normalization(norm: str | nn.Module | None, channels: int | None) -> nn.Module | None:
    if norm is None or isinstance(norm, nn.Module):
        return norm
    if channels is None:
        raise OptionError("norm=None while the width is not known", repr(norm), "pass a module or norm=None")
    if norm == "batch_norm":
        return BatchNorm(channels, allow_single_element=True)  # a graph of one node has no variance
    try:
        return normalization_resolver(norm, channels)
    except (ValueError, TypeError) as error:
        remedy = "name one of PyG's normalisations ('batch_norm', 'layer_norm', 'graph_norm'), or pass a module"
        raise OptionError("the name of a PyG normalisation as norm", repr(norm), remedy) from error


def _activation(act: Any) -> Any:
    if act is None:
        return None
    try:
        return activation_resolver(act() if inspect.isclass(act) else act)
    except (ValueError, TypeError) as error:
        remedy = "name one ('relu', 'elu') or pass a module"
        raise OptionError("the name of a PyG activation as act", repr(act), remedy) from error


def _is_batch_like(value: Any, x: Tensor) -> bool:
    """Whether the argument is a vector with one integer for each node."""
    if not isinstance(value, Tensor) or value.dim() != 1 or value.size(0) != x.size(0):
        return False
    return not value.is_floating_point()


def _has_as_many(edge_index: Any, x: Tensor) -> bool:
    """Whether the numbers of edges and nodes are equal, so a vector may belong to either."""
    return isinstance(edge_index, Tensor) and edge_index.size(-1) == x.size(0)


def _takes_batch(module: nn.Module | None) -> bool:
    return module is not None and "batch" in inspect.signature(module.forward).parameters
