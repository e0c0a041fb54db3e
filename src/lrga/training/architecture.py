"""The network of a run, resolved to the last number, so that a saved run rebuilds it without its data."""

from collections.abc import Mapping
from dataclasses import MISSING, asdict, dataclass, fields
from typing import Any

from lrga.data.datasets.spec import Inputs
from lrga.errors import CheckpointError, OptionError
from lrga.io.documents import check_fields
from lrga.models.budget import check_layers, checked_size, solve_width
from lrga.models.gnn import GNN
from lrga.models.zoo import budget_of, published_shape
from lrga.training.config import ModelConfig


@dataclass(frozen=True, kw_only=True)
class Architecture:
    """All arguments of :class:`lrga.GNN`, by its names."""

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
    reading: str
    dropout: float
    residual: bool
    batch_norm: bool
    readout: str | None
    random_features: bool
    backend: str
    resample_features: bool = True

    def build(self) -> GNN:
        """The network, its weights drawn from PyTorch's random state."""
        return GNN(**asdict(self))

    def size(self) -> int:
        """The number of parameters; a network that does not fit into memory is refused before it is made."""
        return checked_size(self.build, self.num_layers)

    def to_json(self) -> dict[str, Any]:
        """As JSON values; :meth:`from_json` reads them."""
        return asdict(self)

    @classmethod
    def from_json(cls, values: Mapping[str, Any]) -> "Architecture":
        """What :meth:`to_json` wrote."""
        wanted = {f.name for f in fields(cls)}
        later = {f.name for f in fields(cls) if f.default is not MISSING}  # not in runs of older versions
        if set(values) | later != wanted:
            odd = ", ".join(sorted(set(values) ^ wanted))
            remedy = "open the run with the version of lrga that wrote it (environment.json)"
            raise CheckpointError("the arguments of the network", f"unknown or missing ones: {odd}", remedy)
        check_fields(cls, values)
        return cls(**values)


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

    def of_width(hidden: int) -> Architecture:
        return Architecture(
            in_channels=_as_json(inputs.in_channels),
            hidden_channels=hidden,
            out_channels=inputs.out_channels,
            num_layers=layers,
            conv=model.model,
            rank=model.rank if model.lrga else None,
            task=inputs.task,
            encoder=inputs.encoder,
            edge_encoder=edge_kind,
            edge_channels=_as_json(edge_width),
            heads=heads,
            attention_heads=model.attention_heads,
            preset=model.preset,
            reading=model.reading,
            dropout=model.dropout,
            residual=model.residual,
            batch_norm=model.batch_norm,
            readout=model.readout,
            random_features=model.random_features,
            backend=model.backend,
            resample_features=model.resample_features,
        )

    check_layers(layers)
    if model.hidden is not None:
        return of_width(model.hidden)
    if shape is not None:
        return of_width(shape.hidden)
    return of_width(solve_width(target, lambda width: of_width(width).build(), multiple_of=heads))


def _as_json(channels: int | tuple[int, ...]) -> int | list[int]:
    return channels if isinstance(channels, int) else list(channels)
