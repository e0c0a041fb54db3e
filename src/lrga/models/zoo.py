"""The networks of the paper's Tables 1 and 3 by name: five convolutions, with and without LRGA, on six data sets.

Widths and depths of the LRGA rows are the paper's; where its text and its printed parameter counts disagree, the counts
are used. The plain rows have the benchmark's. If no shape is published, the width is computed from the budget.
"""

from dataclasses import dataclass
from typing import Any

from lrga.checks import check_count
from lrga.data.datasets.spec import Inputs, dataset_name, spec_of
from lrga.errors import OptionError
from lrga.models.budget import solve_width
from lrga.models.gnn import CONVOLUTIONS, GNN


@dataclass(frozen=True)
class Shape:
    """Width (of all heads together), depth and number of GAT heads."""

    hidden: int
    layers: int
    heads: int = 1


PAPER_SETS = ("PATTERN", "CLUSTER", "ZINC", "MNIST", "CIFAR10", "TSP")
MODELS: dict[str, str] = {"gcn": "GCN", "gat": "GAT", "gatedgcn": "GatedGCN", "graphsage": "GraphSAGE", "gin": "GIN"}
MODEL_LABELS = MODELS | {"gine": "GINE"}  # and those that are not in the paper
ALIASES = {"sage": "graphsage"}
BUDGETS: dict[str, int] = {"100K": 100_000, "500K": 500_000}
RANK = 30

_SBM, _SUPERPIXELS = ("PATTERN", "CLUSTER"), ("MNIST", "CIFAR10")


def _for(sets: tuple[str, ...], shape: Shape) -> dict[str, Shape]:
    return dict.fromkeys(sets, shape)


# (model, budget) → data set → shape
LRGA_SHAPES: dict[tuple[str, str], dict[str, Shape]] = {
    ("gcn", "100K"): _for(PAPER_SETS, Shape(60, 4)),
    ("gat", "100K"): _for(PAPER_SETS, Shape(60, 4, heads=4)),
    ("gatedgcn", "100K"): _for(PAPER_SETS, Shape(45, 4)),
    ("gcn", "500K"): {**_for(_SBM, Shape(100, 8)), "ZINC": Shape(90, 12), **_for(_SUPERPIXELS, Shape(110, 8))},
    ("gat", "500K"): {
        "PATTERN": Shape(120, 8, heads=8),
        "CLUSTER": Shape(60, 12, heads=4),
        "ZINC": Shape(120, 8, heads=4),
        **_for(_SUPERPIXELS, Shape(112, 8, heads=4)),
    },
    ("gatedgcn", "500K"): {
        "PATTERN": Shape(80, 8),
        "CLUSTER": Shape(50, 16),
        "ZINC": Shape(60, 12),
        **_for(_SUPERPIXELS, Shape(80, 8)),
    },
}


def _plain_100k(sbm: int, zinc: int, superpixels: int, tsp: int, heads: int = 1) -> dict[str, Shape]:
    shapes = {name: Shape(heads * sbm, 4, heads) for name in _SBM}
    shapes |= {name: Shape(heads * superpixels, 4, heads) for name in _SUPERPIXELS}
    return shapes | {"ZINC": Shape(heads * zinc, 4, heads), "TSP": Shape(heads * tsp, 4, heads)}


PLAIN_SHAPES: dict[tuple[str, str], dict[str, Shape]] = {
    ("gcn", "100K"): _plain_100k(146, 145, 146, 120),
    ("gat", "100K"): _plain_100k(19, 18, 19, 15, heads=8),
    ("gatedgcn", "100K"): _plain_100k(70, 70, 70, 65),
    ("graphsage", "100K"): _plain_100k(89, 90, 90, 82),
    ("gin", "100K"): _plain_100k(110, 110, 110, 73),
    # No configuration for the superpixels at 500K is public. With the 8 layers of the LRGA rows, exactly one width
    # gives each printed count (504K, 441K and 442K, 500K); the solver finds it.
    ("gcn", "500K"): {**_for((*_SBM, "ZINC"), Shape(172, 16)), **_for(_SUPERPIXELS, Shape(240, 8))},
    ("gat", "500K"): {**_for((*_SBM, "ZINC"), Shape(176, 16, 8)), **_for(_SUPERPIXELS, Shape(224, 8, 8))},
    ("gatedgcn", "500K"): {**_for((*_SBM, "ZINC"), Shape(78, 16)), **_for(_SUPERPIXELS, Shape(110, 8))},
    ("graphsage", "500K"): _for((*_SBM, "ZINC"), Shape(101, 16)),
    ("gin", "500K"): _for((*_SBM, "ZINC"), Shape(124, 16)),
}


def build_model(
    dataset: str,
    model: str = "gcn",
    *,
    budget: str | int = "100K",
    lrga: bool = True,
    hidden: int | None = None,
    layers: int | None = None,
    heads: int | None = None,
    rank: int = RANK,
    edge_features: bool = True,
    **options: Any,
) -> GNN:
    """Builds the network of one cell of the paper's tables, or a variation of it.

    Args:
        dataset: ``"PATTERN"``, ``"CLUSTER"``, ``"ZINC"``, ``"MNIST"``, ``"CIFAR10"`` or ``"TSP"`` (in any case).
        model: ``"gcn"``, ``"gat"``, ``"gatedgcn"``, ``"graphsage"`` or ``"gin"`` (in any case).
        budget: ``"100K"``, ``"500K"`` or a number of parameters.
        lrga: Whether every layer is augmented.
        hidden: Width of the layers; by default the published width or, if there is none, the width that meets the
            budget.
        layers: Number of layers; by default the published number or, if there is none, 4 at 100K and 8 otherwise.
        heads: Heads of GAT; by default the published number.
        rank: The paper's κ; no effect without ``lrga``.
        edge_features: With ``False``, GatedGCN uses ones instead of the edge features of the data set.
        **options: Further options of :class:`~lrga.models.gnn.GNN`: ``preset``, ``wiring``, ``dropout``,
            ``attention_heads``, ``random_features``, ``generator``, ``readout``, …

    Example:
        >>> import lrga
        >>> model = lrga.build_model("PATTERN", "gcn", budget="500K")
        >>> model.hidden_channels, model.num_layers, model.num_parameters
        (100, 8, 396437)
    """
    inputs, conv = graph_inputs(dataset), model_name(model)
    kind, width = (inputs.edge_encoder, inputs.edge_channels) if edge_features else ("ones", 1)

    def build(hidden: int, layers: int, heads: int) -> GNN:
        return GNN(
            inputs.in_channels,
            hidden,
            inputs.out_channels,
            layers,
            conv=conv,
            rank=rank if lrga else None,
            task=inputs.task,
            encoder=inputs.encoder,
            edge_encoder=kind,
            edge_channels=width,
            heads=heads,
            **options,
        )

    shape = published_shape(dataset, model, budget=budget, lrga=lrga)
    if shape is not None:
        return build(
            shape.hidden if hidden is None else hidden,
            shape.layers if layers is None else layers,
            shape.heads if heads is None else heads,
        )
    target, label = budget_of(budget)
    layers = (4 if label == "100K" else 8) if layers is None else layers
    heads = (4 if conv == "gat" else 1) if heads is None else heads
    if hidden is None:
        hidden = solve_width(target, lambda width: build(width, layers, heads), multiple_of=heads)
    return build(hidden, layers, heads)


def published_shape(dataset: str, model: str, *, budget: str | int, lrga: bool) -> Shape | None:
    """Width, depth and heads of a cell; ``None`` if neither the paper nor the benchmark publishes one."""
    _, label = budget_of(budget)
    shapes = LRGA_SHAPES if lrga else PLAIN_SHAPES
    return None if label is None else shapes.get((model_name(model), label), {}).get(dataset_name(dataset) or "")


def paper_set(name: str) -> str:
    """Name of a data set of Tables 1 and 3 in the paper's spelling, from a name in any case."""
    found = dataset_name(name)
    if found not in PAPER_SETS:
        raise OptionError(f"dataset to be one of {', '.join(PAPER_SETS)}", repr(name), "pick one of them")
    return found


def graph_inputs(dataset: str) -> Inputs:
    """Inputs and outputs of the network for a data set of graphs; an error for link-prediction data sets."""
    spec = spec_of(dataset)
    if spec.links:
        got, remedy = f"{spec.name}, a link-prediction data set", "use lrga.models.build_link_model"
        raise OptionError("a data set for the prediction of nodes, edges or graphs", got, remedy)
    return spec.inputs


def model_name(name: str) -> str:
    """Name of a model in the zoo, from a name in any case."""
    plain = "".join(c for c in str(name).lower() if c.isalnum())
    plain = ALIASES.get(plain, plain)
    if plain not in CONVOLUTIONS:
        raise OptionError(f"model to be one of {', '.join(CONVOLUTIONS)}", repr(name), "pick one of them")
    return plain


def budget_of(budget: str | int) -> tuple[int, str | None]:
    """The budget as a number of parameters, and its label if the paper uses it."""
    if isinstance(budget, str):
        if budget.upper() not in BUDGETS:
            raise OptionError(
                f"budget to be one of {', '.join(BUDGETS)} or a number of parameters", repr(budget), "pass an int"
            )
        return BUDGETS[budget.upper()], budget.upper()
    check_count("budget", budget, minimum=1)
    return budget, None
