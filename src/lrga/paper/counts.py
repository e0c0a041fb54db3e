"""The size of every network of the paper: width, depth, exact number of parameters, printed number.

Parameters are counted on real modules, built without memory on torch's meta device.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache
from typing import Any

from lrga.errors import OptionError
from lrga.models.embeddings import EMBEDDINGS
from lrga.paper.printed import PrintedCell, published
from lrga.training.presets import make_config
from lrga.training.problems.data import plan_network

RANDOM_FEATURES = "PATTERN (random features)"  # the data set of Table 3


@dataclass(frozen=True)
class CellSize:
    """One line of ``lrga params``.

    Args:
        dataset: Name in the paper; in Table 3 ``"PATTERN (random features)"``.
        model: Name without "LRGA +".
        budget: ``"100K"`` or ``"500K"``; ``None`` in Table 2.
        lrga: Whether every layer is augmented.
        hidden: Width of the layers, or of the node vectors in the embedding rows.
        layers: Number of layers; ``None`` in the embedding rows.
        rank: The paper's κ; ``None`` without LRGA.
        parameters: Exact number of parameters.
        printed: The number in the paper as printed, or ``None``.
    """

    dataset: str
    model: str
    budget: str | None
    lrga: bool
    hidden: int
    layers: int | None
    rank: int | None
    parameters: int
    printed: str | None


@cache
def size_of(cell: PrintedCell) -> CellSize:
    """Width, depth and number of parameters of a cell's network."""
    given: dict[str, Any] = {} if cell.budget is None else {"budget": cell.budget}
    given |= {"random_features": True} if cell.table == 3 else {}
    config = make_config(cell.dataset, model=cell.model.lower(), lrga=cell.lrga, **given)
    network = plan_network(config)
    layers = None if config.model.model in EMBEDDINGS else network.num_layers
    shape = (network.hidden_channels, layers, network.rank, network.size())
    dataset = RANDOM_FEATURES if cell.table == 3 else cell.dataset
    return CellSize(dataset, cell.model, cell.budget, cell.lrga, *shape, cell.parameters)


def sizes(
    *, dataset: str | None = None, model: str | None = None, budget: str | None = None, lrga: bool | None = None
) -> list[CellSize]:
    """The sizes of all cells of Tables 1, 2 and 3, or of the cells that match.

    Args:
        dataset: A data set (``"pattern"`` includes its rows of Table 3).
        model: A model.
        budget: ``"100K"`` or ``"500K"``.
        lrga: Only LRGA rows, or only plain ones.

    Example:
        >>> [(c.model, c.parameters, c.printed) for c in sizes(dataset="ZINC", budget="500K", lrga=True)]
        [('GCN', 501570, '501K'), ('GAT', 536641, '536K'), ('GatedGCN', 446311, '446K')]
    """
    cells = published()
    dataset = _matching("dataset", dataset, (c.dataset for c in cells))
    model = _matching("model", "GraphSAGE" if _plain(model) == "sage" else model, (c.model for c in cells))
    budget = _matching("budget", budget, (c.budget for c in cells if c.budget))
    wanted = [
        cell
        for cell in cells
        if dataset in (None, cell.dataset)
        and model in (None, cell.model)
        and budget in (None, cell.budget)
        and lrga in (None, cell.lrga)
    ]
    return [size_of(cell) for cell in wanted]


def _matching(name: str, value: str | None, choices: Iterable[str]) -> str | None:
    """The choice that ``value`` means; case and separators are ignored."""
    if value is None:
        return None
    by_spelling = {_plain(choice): choice for choice in choices}
    if _plain(value) not in by_spelling:
        listed = ", ".join(by_spelling.values())
        raise OptionError(f"{name} to be one of {listed}", repr(value), f"choose one of them for {name}")
    return by_spelling[_plain(value)]


def _plain(text: str | None) -> str:
    return "".join(c for c in (text or "").lower() if c.isalnum()).removeprefix("ogbl")
