"""The recipe of today, data set by data set: positional encodings, residual blocks, AdamW with warm-up and cosine.

Each row cites where its settings come from. All are *adapted*: the block is ours
(:class:`~lrga.nn.layers.residual.ResidualLayer`), the global attention is LRGA, and the width follows from the budget,
so that a network without LRGA has nearly as many parameters. What is not named in a row is the source's where it says
so, else our choice; :attr:`Row.changed` says what was changed on purpose.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from lrga.data.datasets.spec import dataset_name
from lrga.errors import OptionError
from lrga.models.budget import count_of, solve_width
from lrga.training.problems.data import plan_network
from lrga.training.problems.protocols import protocol_config

GPS = "GraphGPS (Rampášek et al., arXiv 2205.12454)"
GRIT = "GRIT (Ma et al., arXiv 2305.17589)"
GNN_PLUS = "GNN+ (Luo et al., arXiv 2502.09263)"
TUNED = "tunedGNN (Luo et al., arXiv 2406.08993)"
EGT = "EGT (Hussain et al., arXiv 2108.03348)"
REFINED_GAE = "Refined-GAE (Ma et al., arXiv 2411.03845)"
MAX_PARAMETERS = 500_000  # where the benchmark has a budget

_COMMON: dict[str, Any] = {"optimizer": "adamw", "weight_decay": 1e-5, "schedule": "cosine", "clip_gradient": 1.0}
_NETWORK: dict[str, Any] = {
    "block": "residual", "norm": "batch", "rank": 8, "attention_heads": 4, "attention_dropout": 0.2, "min_lr": 0.0,
}  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class Row:
    """The configuration of one data set.

    Attributes:
        source: The papers whose settings these are.
        options: All options of a run that are not the benchmark's, by their names.
        changed: What is different from the source beside block, attention and width.
        budget: Parameters at most, which decide the width; ``None`` where ``options`` name a width: a network without
            LRGA then has as many parameters as the one with it.
    """

    source: str
    options: Mapping[str, Any]
    changed: str = ""
    budget: int | None = MAX_PARAMETERS


def _row(
    source: str, changed: str = "", *, budget: int | None = MAX_PARAMETERS, network: Mapping[str, Any] = _NETWORK,
    **options: Any,
) -> Row:  # fmt: skip
    return Row(source=source, options={**_COMMON, **network, **options}, changed=changed, budget=budget)


MODERN: dict[str, Row] = {
    "ZINC": _row(
        f"{GNN_PLUS}, {GPS}", model="gine", layers=12, encoding=["rwse:20"], readout="sum", dropout=0.0,
        attention_dropout=0.5, lr=1e-3, warmup_epochs=50.0, max_epochs=2000, batch_size=32,
    ),
    "PATTERN": _row(
        GNN_PLUS, model="gatedgcn", layers=12, encoding=["rwse:32"], dropout=0.2, lr=5e-4, warmup_epochs=10.0,
        max_epochs=200, batch_size=32,
    ),
    "CLUSTER": _row(
        GNN_PLUS, model="gatedgcn", layers=16, encoding=["rwse:20"], dropout=0.2, lr=5e-4, warmup_epochs=5.0,
        max_epochs=100, batch_size=16,
    ),
    "MNIST": _row(
        f"{GNN_PLUS}, {GPS}", "up to 500K parameters in place of 100K", model="gatedgcn", layers=10, readout="mean",
        dropout=0.1, lr=1e-3, warmup_epochs=5.0, max_epochs=200, batch_size=16,
    ),
    "CIFAR10": _row(
        f"{GNN_PLUS}, {GPS}", "up to 500K parameters in place of 100K", model="gatedgcn", layers=10, readout="mean",
        dropout=0.15, lr=1e-3, warmup_epochs=5.0, max_epochs=200, batch_size=16,
    ),
    "TSP": _row(
        f"{EGT}, the depth", "a gated convolution on the given edges; learning rate, batches and epochs ours",
        model="gatedgcn", layers=16, dropout=0.0, lr=1e-3, warmup_epochs=5.0, max_epochs=100, batch_size=32,
    ),
    "Peptides-func": _row(
        GNN_PLUS, model="gatedgcn", layers=5, encoding=["rwse:32"], readout="mean", dropout=0.05, lr=1e-3,
        warmup_epochs=5.0, max_epochs=300, batch_size=16,
    ),
    "ogbg-molhiv": _row(
        GNN_PLUS, "at most 500K parameters", model="gatedgcn", layers=4, encoding=["rwse:20"], readout="mean",
        dropout=0.05, lr=1e-4, warmup_epochs=5.0, max_epochs=100, batch_size=32,
    ),
    "minesweeper": _row(
        TUNED, "narrower, 1,000 epochs in place of 2,000", model="gcn", layers=12,
        dropout=0.2, lr=5e-3, weight_decay=0.0, warmup_epochs=10.0, max_epochs=1000,
    ),
    "tolokers": _row(
        f"{TUNED}, which has no row for this set", "settings like those of its heterophilous sets",
        model="gat", heads=8, layers=4, dropout=0.2, lr=3e-3, weight_decay=0.0, warmup_epochs=10.0,
        max_epochs=1000,
    ),
    "Cora": _row(
        TUNED, "narrower, LayerNorm", model="gcn", layers=3, norm="layer", dropout=0.7,
        attention_dropout=0.7, lr=1e-3, weight_decay=5e-4, warmup_epochs=10.0, max_epochs=500,
    ),
    "CiteSeer": _row(
        TUNED, "narrower, LayerNorm", model="gcn", layers=2, norm="layer", dropout=0.5,
        attention_dropout=0.5, lr=1e-3, weight_decay=1e-2, warmup_epochs=10.0, max_epochs=500,
    ),
    "PubMed": _row(
        TUNED, "narrower, LayerNorm", model="gcn", layers=2, norm="layer", dropout=0.7,
        attention_dropout=0.7, lr=5e-3, weight_decay=5e-4, warmup_epochs=10.0, max_epochs=500,
    ),
    "ogbl-ddi": _row(
        REFINED_GAE, "this library's link network, with its ReLU and learned vectors: neither orthogonal vectors, nor "
        "linear propagation, nor the batch's own edges left out of the messages", budget=None, network={},
        model="gcn", layers=2, hidden=512, rank=50, dropout=0.6, predictor_layers=4, lr=1e-3, weight_decay=0.0,
        warmup_epochs=5.0, min_lr=0.0, max_epochs=500, batch_size=8192,
    ),
}  # fmt: skip
OWN = _row(
    f"{GNN_PLUS}, {GPS}", "a start for data of your own, not tuned on any", model="gatedgcn", layers=6,
    encoding=["rwse:16"], dropout=0.1, lr=1e-3, warmup_epochs=5.0, max_epochs=100, batch_size=32,
)  # fmt: skip
RECIPES: dict[str, dict[str, Row]] = {"modern": MODERN}


def recipe_row(recipe: str, dataset: str | None) -> Row:
    """The row of a data set; that of the user's own data where ``dataset`` is ``None``.

    Example:
        >>> recipe_row("modern", "ZINC").options["encoding"]
        ['rwse:20']
    """
    if recipe not in RECIPES:
        raise OptionError(f"recipe to be one of {', '.join(RECIPES)}", repr(recipe), "pick one of them")
    rows = RECIPES[recipe]
    if dataset is None:
        return OWN
    if dataset not in rows:
        raise OptionError(f"a data set with a recipe, one of {', '.join(rows)}", dataset, "set the options yourself")
    return rows[dataset]


def recipe_options(recipe: str, name: str, data_options: Mapping[str, Any], given: Mapping[str, Any]) -> dict[str, Any]:
    """All options of a run by a recipe: those given, the rest by its row, the width by the number of parameters.

    ``name`` is a data set known by name or the user's own data; what somebody asked for is ``given``, and wins.
    """
    dataset = dataset_name(name)
    if dataset is None and data_options.get("task") == "link":
        raise OptionError("a recipe for graphs", "links of your own data", "leave --recipe out")
    row = recipe_row(recipe, dataset)
    options = {**row.options, **given}
    if dataset is None:
        return {"budget": "500K", **options}  # the width follows when the data are read
    if "hidden" in given:
        return options
    config = protocol_config(name, data_options, options)
    if row.budget is None and config.model.lrga:
        return options  # of the row's own width
    target = row.budget
    if target is None:
        target = count_of(plan_network(config.changed(lrga=True)).build)
    heads = config.model.heads or 1
    width = solve_width(
        target, lambda width: plan_network(config.changed(hidden=width)).build(), multiple_of=heads, prefer="below"
    )
    return options | {"hidden": width}
