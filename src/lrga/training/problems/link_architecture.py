"""The network of a link-prediction run to the last number, so that a saved run rebuilds it without its data."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from typing import Any

from lrga.data.links.data import LinkData
from lrga.errors import CheckpointError, OptionError
from lrga.io.documents import check_fields
from lrga.models.budget import checked_size
from lrga.models.embeddings import EMBEDDINGS, MatrixFactorization
from lrga.models.link import LINK_SETS, LinkGNN, LinkModel, LinkPredictor
from lrga.training.config import TrainingConfig


@dataclass(frozen=True, kw_only=True)
class LinkArchitecture:
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
        )
        predictor = LinkPredictor(hidden, hidden, self.predictor_layers, dropout=self.dropout, kind=self.predictor)
        return LinkModel(gnn, predictor, num_nodes=self.num_nodes if self.num_features is None else None)

    def size(self) -> int:
        """The number of parameters; a network that does not fit into memory is refused before it is made."""
        return checked_size(self.build, max(self.num_layers, self.predictor_layers))

    def to_json(self) -> dict[str, Any]:
        """As JSON values; :meth:`from_json` reads them."""
        return asdict(self)

    @classmethod
    def from_json(cls, values: Mapping[str, Any]) -> "LinkArchitecture":
        """What :meth:`to_json` wrote."""
        if odd := sorted(set(values) ^ {f.name for f in fields(cls)}):
            remedy = "open the run with the version of lrga that wrote it (environment.json)"
            raise CheckpointError("the numbers of the network", f"unknown or missing ones: {', '.join(odd)}", remedy)
        check_fields(cls, values)
        return cls(**values)


def resolve_link(config: TrainingConfig, data: LinkData | None = None) -> LinkArchitecture:
    """The network of a run, on ``data``, or, before there are any, on a named set of its published size.

    Example:
        >>> from lrga.training.options import make_config
        >>> sum(p.numel() for p in resolve_link(make_config("ogbl-ddi")).build().parameters())
        1576081
    """
    model, link = config.model, config.link
    assert link is not None
    if model.hidden is None or model.layers is None:
        raise OptionError("hidden and layers of the network", "none", "make the configuration with make_config")
    if data is None:
        facts = LINK_SETS[config.data.name]
        nodes, features = facts.num_nodes, facts.num_features
    else:
        nodes, features = data.num_nodes, data.num_features
    return LinkArchitecture(
        conv=model.model,
        num_nodes=nodes,
        num_features=features,
        hidden_channels=model.hidden,
        num_layers=model.layers,
        rank=model.rank if model.lrga else None,
        attention_heads=model.attention_heads,
        skip=link.skip,
        dropout=model.dropout,
        predictor=link.predictor,
        predictor_layers=link.predictor_layers,
        backend=model.backend,
    )
