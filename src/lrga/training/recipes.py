"""A modern recipe for each data set: positional encodings, residual blocks, AdamW with warm-up and cosine schedule.

Each row cites the source of its settings. All are *adapted*: the block is ours
(:class:`~lrga.nn.layers.residual.ResidualLayer`), the global attention is LRGA, and the width follows from the budget,
so a network without LRGA has nearly the same number of parameters. Settings that a row does not cite come from the
source if stated there, else from us; :attr:`Row.changed` lists deliberate changes.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from lrga.checks import check_choice
from lrga.data.datasets.spec import dataset_name
from lrga.errors import OptionError
from lrga.models.budget import count_of, solve_width
from lrga.models.zoo import budget_of
from lrga.training.problems.data import plan_network
from lrga.training.problems.protocols import protocol_config

GPS = "GraphGPS (Rampášek et al., arXiv 2205.12454)"
GRIT = "GRIT (Ma et al., arXiv 2305.17589)"
GNN_PLUS = "GNN+ (Luo et al., arXiv 2502.09263)"
TUNED = "tunedGNN (Luo et al., arXiv 2406.08993)"
EGT = "EGT (Hussain et al., arXiv 2108.03348)"
REFINED_GAE = "Refined-GAE (Ma et al., arXiv 2411.03845)"
MAX_PARAMETERS = 500_000  # for sets for which the benchmark has a budget

_COMMON: dict[str, Any] = {"optimizer": "adamw", "weight_decay": 1e-5, "schedule": "cosine", "clip_gradient": 1.0}
_NETWORK: dict[str, Any] = {
    "block": "residual", "norm": "batch", "rank": 8, "attention_heads": 4, "attention_dropout": 0.2, "min_lr": 0.0,
}  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class Row:
    """The configuration of one data set.

    Attributes:
        source: The papers with these settings.
        options: All options of a run that differ from the benchmark, by name.
        changed: Differences from the source other than block, attention and width.
        budget: Maximum number of parameters, which determines the width. ``None`` if ``options`` contain a width: a
            network without LRGA then has the same number of parameters as the one with LRGA.
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
    **{
        name: _row(
            TUNED, f"{width} wide, 2 layers, LayerNorm, linear head, dropout 0.5, learning rate 0.005, weight decay "
            "0.02, 200 epochs", budget=None, model="gcn", layers=2, hidden=width, norm="layer", head_layers=1,
            dropout=0.5, attention_dropout=0.5, optimizer="adam", lr=5e-3, weight_decay=2e-2, warmup_epochs=10.0,
            max_epochs=200,
        )
        for name, width in (("Cora", 128), ("CiteSeer", 96), ("PubMed", 128))  # CiteSeer has many features
    },
    "ogbl-ddi": _row(
        REFINED_GAE, "a predictor of 5 layers in place of 8, AdamW with warm-up and cosine", budget=None, network={},
        model="gcn", layers=2, hidden=1024, rank=50, dropout=0.6, linear_layers=True, input_residual=0.1,
        orthogonal=True, mask_batch=True, predictor_layers=5, predictor_residual=True, lr=1e-3, weight_decay=0.0,
        warmup_epochs=5.0, min_lr=0.0, max_epochs=500, batch_size=8192,
    ),
}  # fmt: skip
OWN = _row(
    f"{GNN_PLUS}, {GPS}", "a start for data of your own, not tuned on any", model="gatedgcn", layers=6,
    encoding=["rwse:16"], dropout=0.1, lr=1e-3, warmup_epochs=5.0, max_epochs=100, batch_size=32,
)  # fmt: skip


def recipe_options(recipe: str, name: str, data_options: Mapping[str, Any], given: Mapping[str, Any]) -> dict[str, Any]:
    """All options of a run by a recipe: given options, then those of the row, and a width for the parameter budget.

    ``name`` is a named data set or the user's own data; ``given`` options override the recipe.
    """
    dataset = dataset_name(name)
    check_choice("recipe", recipe, ("modern",))
    if dataset is None and data_options.get("task") == "link":
        raise OptionError("a recipe for graphs", "links of your own data", "omit --recipe")
    if dataset is None:
        return {"budget": "500K", **OWN.options, **given}  # the width is determined when the data are read
    if dataset not in MODERN:
        raise OptionError(f"a data set with a recipe, one of {', '.join(MODERN)}", dataset, "set the options yourself")
    row = MODERN[dataset]
    options = {**row.options, **given}
    if "hidden" in given:
        return options
    config = protocol_config(name, data_options, options)
    budget = row.budget if given.get("budget") is None else budget_of(given["budget"])[0]
    if budget is None and config.model.lrga:
        return options  # with the width of the row
    target = budget or count_of(plan_network(config.changed(lrga=True)).build)
    made, heads = lambda width: plan_network(config.changed(hidden=width)).build(), config.model.heads or 1
    return options | {"hidden": solve_width(target, made, multiple_of=heads, prefer="below")}
