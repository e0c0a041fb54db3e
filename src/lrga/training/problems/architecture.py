"""The network of a run, resolved to the last number, so that a saved run rebuilds it without its data."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields, replace
from functools import cache
from typing import Any, Self

from torch import nn

from lrga.data.datasets.spec import Inputs
from lrga.data.links.data import LinkData
from lrga.errors import CheckpointError, OptionError
from lrga.models.budget import check_layers, checked_size, solve_width
from lrga.models.embeddings import EMBEDDINGS, MatrixFactorization
from lrga.models.gnn import GNN
from lrga.models.link import LINK_SETS, LinkGNN, LinkModel, LinkPredictor
from lrga.models.zoo import budget_of, published_shape
from lrga.nn.layers.lrga import renamed_reading
from lrga.training.config import ModelConfig, TrainingConfig, check_keys, read_fields

_OF_MODEL = (
    "attention_heads", "preset", "wiring", "dropout", "residual", "batch_norm", "readout", "encoding", "block", "norm",
    "attention_dropout", "random_features", "resample_features", "backend", "normalize", "qk_norm", "gate",
)  # fmt: skip
_OF_ATTENTION = ("normalize", "qk_norm", "gate")


class SavedNetwork:
    """A network that can be written down and built again."""

    num_layers: int

    def build(self) -> nn.Module:
        """The network, its weights drawn from PyTorch's random state."""
        raise NotImplementedError

    def size(self) -> int:
        """The number of parameters; a network that does not fit into memory is refused before it is made."""
        return checked_size(self.build, max(self.num_layers, getattr(self, "predictor_layers", 0)))

    def to_json(self) -> dict[str, Any]:
        """As JSON values; :meth:`from_json` reads them."""
        return {f.name: getattr(self, f.name) for f in fields(self)}  # type: ignore[arg-type]

    @classmethod
    def from_json(cls, values: Mapping[str, Any]) -> Self:
        """What :meth:`to_json` wrote."""
        values, what = renamed_reading(values), "the arguments of the network"
        try:
            check_keys(what, values, cls)
        except OptionError as error:
            remedy = "open the run with the version of lrga that wrote it (environment.json)"
            raise CheckpointError(error.expected, error.got, remedy) from error
        return read_fields(cls, values, what)


@dataclass(frozen=True, kw_only=True)
class Architecture(SavedNetwork):
    """All arguments of :class:`lrga.GNN`, by its names; ``attention_options`` one by one."""

    in_channels: int | list[int]
    hidden_channels: int
    out_channels: int
    num_layers: int
    conv: str
    rank: int | None
    task: str
    encoder: str
    edge_encoder: str
    edge_channels: int | list[int]
    heads: int
    attention_heads: int
    preset: str
    wiring: str
    dropout: float
    residual: bool
    batch_norm: bool
    readout: str | None
    random_features: bool
    backend: str
    resample_features: bool = True
    normalize: str | None = "graph"
    qk_norm: bool = False
    gate: bool = False
    encoding: list[str] | None = None
    block: str = "benchmark"
    norm: str = "batch"
    attention_dropout: float | None = None

    def __hash__(self) -> int:
        return hash(repr(self))  # lists among the fields have no hash of their own

    def build(self) -> GNN:
        """The network, its weights drawn from PyTorch's random state."""
        arguments = {key: value for key, value in asdict(self).items() if key not in _OF_ATTENTION}
        return GNN(**arguments, attention_options=_attention_options(self))


@dataclass(frozen=True, kw_only=True)
class LinkArchitecture(SavedNetwork):
    """All numbers of a network that scores pairs of nodes.

    Attributes:
        conv: The convolution, or ``"node2vec"``, ``"deepwalk"``, ``"mf"``.
        num_nodes: Of the graph; networks with node features work on any other.
        num_features: Columns of the node features; ``None`` where a vector of each node is learned instead.
        hidden_channels: Width of the layers, or of the learned vectors of an embedding.
        num_layers: Of the network.
        rank: The paper's κ; ``None`` without LRGA.
        attention_heads: Of the low-rank attention.
        skip: Whether a layer's input enters its linear map.
        dropout: In network and predictor.
        predictor: Its kind.
        predictor_layers: Its linear maps.
        backend: Of the attention.
        normalize: Of the attention, as are ``qk_norm`` and ``gate``.
        qk_norm: Of the attention.
        gate: Of the attention.
    """

    conv: str
    num_nodes: int
    num_features: int | None
    hidden_channels: int
    num_layers: int
    rank: int | None
    attention_heads: int
    skip: bool
    dropout: float
    predictor: str
    predictor_layers: int
    backend: str
    normalize: str | None = "graph"
    qk_norm: bool = False
    gate: bool = False

    def build(self) -> LinkModel | MatrixFactorization:
        """The network, its weights drawn from PyTorch's random state."""
        hidden = self.hidden_channels
        if self.conv in EMBEDDINGS:
            return EMBEDDINGS[self.conv](
                self.num_nodes,
                hidden,
                num_layers=self.predictor_layers,
                num_features=None if self.conv == "mf" else self.num_features,
                dropout=self.dropout,
                predictor=self.predictor,
            )
        gnn = LinkGNN(
            self.num_features or hidden,
            hidden,
            self.num_layers,
            conv=self.conv,
            rank=self.rank,
            skip=self.skip,
            dropout=self.dropout,
            attention_heads=self.attention_heads,
            backend=self.backend,
            attention_options=_attention_options(self),
        )
        predictor = LinkPredictor(hidden, hidden, self.predictor_layers, dropout=self.dropout, kind=self.predictor)
        return LinkModel(gnn, predictor, num_nodes=self.num_nodes if self.num_features is None else None)


def resolve(model: ModelConfig, inputs: Inputs, *, dataset: str | None = None) -> Architecture:
    """The network that ``model`` asks for, on data with these ``inputs``.

    Width, depth and heads are those given; else, on a named ``dataset``, those of the paper's cell; else the width
    follows from the budget, at 4 layers (100K) or 8.

    Example:
        >>> from lrga.data import spec_of
        >>> resolve(ModelConfig(model="gatedgcn"), spec_of("ZINC").inputs, dataset="ZINC").hidden_channels
        45
    """
    if model.readout is not None and inputs.task != "graph":
        got = f"readout {model.readout!r} for predictions of {inputs.task}s"
        raise OptionError("a readout only where graphs are predicted", got, "leave it out")
    edge_kind, edge_width = (inputs.edge_encoder, inputs.edge_channels) if model.edge_features else ("ones", 1)
    target, label = budget_of(model.budget)
    shape = None
    if dataset is not None:
        shape = published_shape(dataset, model.model, budget=model.budget, lrga=model.lrga)
    layers = model.layers or (shape.layers if shape else 4 if label == "100K" else 8)
    heads = model.heads or (shape.heads if shape else 4 if model.model == "gat" else 1)
    check_layers(layers)
    made = Architecture(
        **{name: getattr(model, name) for name in _OF_MODEL},
        in_channels=_as_json(inputs.in_channels),
        hidden_channels=model.hidden or (shape.hidden if shape else heads),
        out_channels=inputs.out_channels,
        num_layers=layers,
        conv=model.model,
        rank=model.rank if model.lrga else None,
        task=inputs.task,
        encoder=inputs.encoder,
        edge_encoder=edge_kind,
        edge_channels=_as_json(edge_width),
        heads=heads,
    )
    if model.hidden is None and shape is None:
        made = replace(made, hidden_channels=_width_of_budget(target, made, heads))
    return made


@cache
def _width_of_budget(target: int, narrow: Architecture, multiple_of: int) -> int:
    """Cached: the cells of a study share most of their networks."""
    return solve_width(target, lambda width: replace(narrow, hidden_channels=width).build(), multiple_of=multiple_of)


def resolve_link(config: TrainingConfig, data: LinkData | None = None) -> LinkArchitecture:
    """The network of a run, on ``data``, or, before there are any, on a named set of its published size.

    Example:
        >>> from lrga.training.presets import make_config
        >>> sum(p.numel() for p in resolve_link(make_config("ogbl-ddi")).build().parameters())
        1576081
    """
    model, link = config.model, config.link
    assert link is not None
    if model.hidden is None or model.layers is None:
        raise OptionError("hidden and layers of the network", "none", "make the configuration with make_config")
    facts: Any = LINK_SETS[config.data.name] if data is None else data
    return LinkArchitecture(
        **{name: getattr(model, name) for name in ("attention_heads", "dropout", "backend", *_OF_ATTENTION)},
        **{name: getattr(link, name) for name in ("skip", "predictor", "predictor_layers")},
        conv=model.model,
        num_nodes=facts.num_nodes,
        num_features=facts.num_features,
        hidden_channels=model.hidden,
        num_layers=model.layers,
        rank=model.rank if model.lrga else None,
    )


def _attention_options(given: Architecture | LinkArchitecture) -> dict[str, Any]:
    return {name: getattr(given, name) for name in _OF_ATTENTION}


def _as_json(channels: int | tuple[int, ...]) -> int | list[int]:
    return channels if isinstance(channels, int) else list(channels)
