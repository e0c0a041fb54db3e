"""Table 2 of the paper: three OGB sets, six rows; each cell is a full configuration with the published number.

LRGA + GCN uses the authors' settings, the other rows those of OGB's examples
(:mod:`lrga.training.problems.protocols`); the result is the test metric of the best epoch in validation,
over ten seeds. If text, parameter counts and released code of the paper leave something open, the choice is
an option and stored in every record. Rank and skip connection follow from the printed counts; no validation edge
is used for the test on collab.
"""

from collections.abc import Iterable, Mapping
from typing import Any

from lrga.data.datasets.spec import dataset_name
from lrga.errors import OptionError
from lrga.experiments.cell import Cell, model_label, refuse_taken
from lrga.models.embeddings import EMBEDDINGS
from lrga.models.link import CONVOLUTIONS, LINK_SETS
from lrga.models.zoo import model_name
from lrga.paper.printed import published, published_for
from lrga.training.presets import make_config, runs_of_a_table
from lrga.training.problems.protocols import idle_options

LINK_SEEDS = tuple(range(10))
GRID: dict[str, list[int]] = {"rank": [25, 50, 100], "hidden": [150, 256]}
"""The authors' search grid on these sets: ``lrga sweep ogbl-ddi --paper-grid``."""


def table2(
    dataset: str,
    model: str = "gcn",
    *,
    lrga: bool | None = None,
    seeds: Iterable[int] | None = None,
    data_options: Mapping[str, Any] | None = None,
    **options: Any,
) -> Cell:
    """A cell of Table 2.

    Args:
        dataset: ``"ogbl-ppa"``, ``"ogbl-collab"`` or ``"ogbl-ddi"``.
        model: ``"gcn"``, ``"graphsage"`` or another convolution; ``"node2vec"``, ``"deepwalk"`` or ``"mf"``.
        lrga: Whether every layer has low-rank global attention; by default if the model has layers.
        seeds: By default ten.
        data_options: Not used; all experiments accept it.
        **options: Changes of the protocol, by option name.

    Example:
        >>> cell = table2("ogbl-ddi")
        >>> cell.published.mean, cell.config.model.rank, cell.config.option("skip")
        (0.623, 50, False)
    """
    refuse_taken(options, seed="seeds", name="dataset")
    name, kind = _dataset(dataset), _model(model)
    lrga = kind not in EMBEDDINGS if lrga is None else lrga
    config = make_config(name, model=kind, lrga=lrga, data_options=data_options, **options)
    return Cell(
        labels={"dataset": name, "model": model_label(config)},
        config=config,
        seeds=LINK_SEEDS if seeds is None else tuple(seeds),
        published=published_for(config),
        protocol=make_config(name, model=kind, lrga=lrga),
    )


@runs_of_a_table()
def cells_of_table2(
    *,
    dataset: str | None = None,
    model: str | None = None,
    lrga: bool | None = None,
    seeds: Iterable[int] | None = None,
    **options: Any,
) -> list[Cell]:
    """The cells of Table 2 that match; a network that is not in the table can be selected by name.

    Example:
        >>> [cell.labels["model"] for cell in cells_of_table2(dataset="ogbl-ddi", lrga=False, model="gcn")]
        ['GCN']
    """
    sets = list(LINK_SETS) if dataset is None else [_dataset(dataset)]
    rows = [(_model(c.model), c.lrga) for c in published() if c.table == 2 and c.dataset == "ogbl-ddi"]
    if model is not None:
        kind = _model(model)
        rows = [row for row in rows if row[0] == kind] or [(kind, False), (kind, True)]
    if lrga is not None:
        rows = [row for row in rows if row[1] == lrga]
        kinds = [] if model is None or _model(model) in EMBEDDINGS else [_model(model)]
        rows = rows or [(kind, lrga) for kind in kinds]
    if not rows:
        got = f"model={model}, lrga={lrga}"
        raise OptionError("a row of table2 (an embedding has no LRGA)", got, "use fewer filters")
    # An option applies to the rows that use it; if none uses it, the first row raises an error.
    idle = {kind: idle_options(options, kind) for kind, _ in rows}
    for_all = [key for key in options if all(key in unread for unread in idle.values())]
    return [
        table2(
            name, kind, lrga=with_lrga, seeds=seeds,
            **{key: value for key, value in options.items() if key in for_all or key not in idle[kind]},
        )
        for name in sets
        for kind, with_lrga in rows
    ]  # fmt: skip


def _dataset(name: str) -> str:
    found = dataset_name(name) or dataset_name(f"ogbl-{name}")
    if found not in LINK_SETS:
        raise OptionError(f"a data set of table2, one of {', '.join(LINK_SETS)}", repr(name), "choose one of them")
    return found


def _model(name: str) -> str:
    plain = "".join(c for c in str(name).lower() if c.isalnum())
    if plain in EMBEDDINGS:
        return plain
    try:
        return model_name(plain)
    except OptionError as error:
        choices = ", ".join((*CONVOLUTIONS, *EMBEDDINGS))
        raise OptionError(f"a model of table2, one of {choices}", repr(name), "choose one of them") from error
