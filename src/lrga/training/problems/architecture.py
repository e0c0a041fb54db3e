"""The fully resolved network of a run, so that a saved run can rebuild it without its data."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields, replace
from functools import cache
from typing import Any, Self

from torch import nn

from lrga.data.datasets.spec import Inputs
from lrga.data.links.data import LinkData
from lrga.errors import CheckpointError, OptionError
from lrga.io.documents import check_keys, read_fields
from lrga.models.budget import check_layers, checked_size, solve_width
from lrga.models.embeddings import EMBEDDINGS, MatrixFactorization
from lrga.models.gnn import GNN
from lrga.models.link import LinkGNN, LinkModel, LinkPredictor, LinkSet
from lrga.models.zoo import budget_of, published_shape
from lrga.nn.heads import HEAD_LAYERS
from lrga.nn.layers.lrga import renamed_reading
from lrga.training.config import ModelConfig, TrainingConfig

_OF_ATTENTION = ("normalize", "qk_norm", "gate")
_OF_LINK_GNN = ("conv", "rank", "skip", "dropout", "attention_heads", "backend")


class SavedNetwork:
    """Description of a network that can be saved and rebuilt."""

    num_layers: int

    @classmethod
    def of(cls, *sections: Any, **values: Any) -> Self:
        """The network with these values, and the options of the sections of a configuration that have its names."""
        names = {f.name for f in fields(cls)} - set(values)  # type: ignore[arg-type]
        options = {name: getattr(section, name) for section in sections for name in names if hasattr(section, name)}
        return cls(**options, **values)

    def build(self) -> nn.Module:
        """The network, its weights drawn from PyTorch's random state."""
        raise NotImplementedError

    def size(self) -> int:
        """The number of parameters; raises an error for a network that does not fit into memory."""
        return checked_size(self.build, max(self.num_layers, getattr(self, "predictor_layers", 0)))

    def to_json(self) -> dict[str, Any]:
        """JSON values for :meth:`from_json`."""
        return {f.name: getattr(self, f.name) for f in fields(self)}  # type: ignore[arg-type]

    @classmethod
    def from_json(cls, values: Mapping[str, Any]) -> Self:
        """Reads the values of :meth:`to_json`."""
        values, what = renamed_reading(values), "the arguments of the network"
        try:
            check_keys(cls, values, what)
        except OptionError as error:
            remedy = "open the run with the version of lrga that wrote it (environment.json)"
            raise CheckpointError(error.expected, error.got, remedy) from error
        return read_fields(cls, values, what)


@dataclass(frozen=True, kw_only=True)
class Architecture(SavedNetwork):
    """All arguments of :class:`lrga.GNN`, with its names; ``attention_options`` as separate fields."""

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
    head_layers: int = HEAD_LAYERS

    def __hash__(self) -> int:
        return hash(repr(self))  # lists in fields are not hashable

    def build(self) -> GNN:
        """The network, its weights drawn from PyTorch's random state."""
        arguments = {key: value for key, value in asdict(self).items() if key not in _OF_ATTENTION}
        return GNN(**arguments, attention_options={name: getattr(self, name) for name in _OF_ATTENTION})


@dataclass(frozen=True, kw_only=True)
class LinkArchitecture(SavedNetwork):
    """All arguments of a network that scores pairs of nodes.

    Options of the same name are described in :class:`~lrga.training.ModelConfig` and
    :class:`~lrga.training.config.LinkConfig`.

    Attributes:
        conv: The convolution, or ``"node2vec"``, ``"deepwalk"``, ``"mf"``.
        num_nodes: Number of nodes of the graph; networks with node features work on any graph.
        num_features: Number of node features; ``None`` if a vector per node is learned instead.
        hidden_channels: Width of the layers, or of the learned vectors of an embedding.
        num_layers: Number of layers.
        rank: Rank of the attention, κ in the paper; ``None`` without LRGA.
        dropout: Dropout in network and predictor.
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
    predictor_residual: bool = False
    linear_layers: bool = False
    input_residual: float = 0.0
    orthogonal: bool = False

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
        options: dict[str, Any] = {name: getattr(self, name) for name in _OF_LINK_GNN}
        options["attention_options"] = {name: getattr(self, name) for name in _OF_ATTENTION}
        options |= {"linear": self.linear_layers, "residual": self.input_residual}
        gnn = LinkGNN(self.num_features or hidden, hidden, self.num_layers, **options)
        predictor = LinkPredictor(
            hidden, hidden, self.predictor_layers,
            dropout=self.dropout, kind=self.predictor, residual=self.predictor_residual,
        )  # fmt: skip
        learned = self.num_nodes if self.num_features is None else None
        return LinkModel(gnn, predictor, num_nodes=learned, orthogonal=self.orthogonal)


def resolve(model: ModelConfig, inputs: Inputs, *, dataset: str | None = None) -> Architecture:
    """Resolves the network of ``model`` for data with these ``inputs``.

    Given width, depth and heads have priority; then, for a named ``dataset``, those of the paper's table; otherwise the
    width follows from the budget, with 4 layers (100K) or 8.

    Example:
        >>> from lrga.data import spec_of
        >>> resolve(ModelConfig(model="gatedgcn"), spec_of("ZINC").inputs, dataset="ZINC").hidden_channels
        45
    """
    if model.readout is not None and inputs.task != "graph":
        got = f"readout {model.readout!r} for predictions of {inputs.task}s"
        raise OptionError("a readout only for predictions of graphs", got, "omit it")
    edge_kind, edge_width = (inputs.edge_encoder, inputs.edge_channels) if model.edge_features else ("ones", 1)
    target, label = budget_of(model.budget)
    shape = None
    if dataset is not None:
        shape = published_shape(dataset, model.model, budget=model.budget, lrga=model.lrga)
    layers = model.layers or (shape.layers if shape else 4 if label == "100K" else 8)
    heads = model.heads or (shape.heads if shape else 4 if model.model == "gat" else 1)
    check_layers(layers)
    widths = [list(width) if isinstance(width, tuple) else width for width in (inputs.in_channels, edge_width)]
    made = Architecture.of(
        model,
        in_channels=widths[0],
        hidden_channels=model.hidden or (shape.hidden if shape else heads),
        out_channels=inputs.out_channels,
        num_layers=layers,
        conv=model.model,
        rank=model.rank if model.lrga else None,
        task=inputs.task,
        encoder=inputs.encoder,
        edge_encoder=edge_kind,
        edge_channels=widths[1],
        heads=heads,
    )
    if model.hidden is None and shape is None:
        made = replace(made, hidden_channels=_width_of_budget(target, made, heads))
    return made


@cache
def _width_of_budget(target: int, narrow: Architecture, multiple_of: int) -> int:
    """The width for a budget; cached, because the runs of a study share most networks."""
    return solve_width(target, lambda width: replace(narrow, hidden_channels=width).build(), multiple_of=multiple_of)


def resolve_link(config: TrainingConfig, data: LinkData | None = None) -> LinkArchitecture:
    """Resolves the network of a link-prediction run for ``data``, or by default for a named set of published size.

    Example:
        >>> from lrga.training.presets import make_config
        >>> sum(p.numel() for p in resolve_link(make_config("ogbl-ddi")).build().parameters())
        1576081
    """
    model, link = config.model, config.link
    assert link is not None
    if model.hidden is None or model.layers is None:
        raise OptionError("hidden and layers of the network", "none", "create the configuration with make_config")
    facts: Any = LinkSet(config.data.name) if data is None else data
    if link.orthogonal and facts.num_features is not None:
        got = f"orthogonal for {config.data.name}, whose nodes have features"
        raise OptionError("orthogonal only for learned node vectors", got, "omit it")
    return LinkArchitecture.of(
        model,
        link,
        conv=model.model,
        num_nodes=facts.num_nodes,
        num_features=facts.num_features,
        hidden_channels=model.hidden,
        num_layers=model.layers,
        rank=model.rank if model.lrga else None,
    )
