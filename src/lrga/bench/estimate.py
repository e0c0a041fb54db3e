"""How many hours a table of the paper takes, cell by cell, from the records of runs made before.

Where a cell has been run, its own seconds and epochs count. Elsewhere the seconds per epoch of the nearest runs are
scaled by the work of an epoch, counted as bytes: per graph and layer, node features that are read and written, products
with the weights, and edge features or gathered rows. The nearest runs are those of the same network on the same data
set, else of the same network, else of the same data set, else all. Epochs are those of the same data set, else of all.
Runs in captured steps are preferred to others, and only runs on the same kind of device are mixed.
"""

import statistics
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lrga.bench.cell import Cell, essence
from lrga.bench.display import plain_text, slim_table
from lrga.bench.records import FINISHED, RunRecord, read_record
from lrga.data.catalog import dataset_facts
from lrga.errors import DataError, OptionError
from lrga.models.budget import count_of
from lrga.models.zoo import INPUTS
from lrga.training.architecture import resolve
from lrga.training.config import TrainingConfig

if TYPE_CHECKING:
    from rich.table import Table as RichTable

# Matrices of E × d that the edges of a layer read and write, forward and backward; those of the nodes, N × d.
EDGE_PASSES = {"gatedgcn": 20.0, "gat": 6.0}
GATHERS, NODE_PASSES = 2.0, 20.0
FLOP_PER_BYTE = 30.0  # products of these sizes: about so many operations in the time of a byte
LAYER_BYTES = 2.4e8  # what the many small kernels of a layer cost in a step whatever they move: 0.06 ms at 4 TB/s


@dataclass(frozen=True, kw_only=True)
class CellEstimate:
    """One cell: seconds of an epoch, epochs, hours of all its seeds, and where the seconds come from."""

    dataset: str
    model: str
    budget: str
    seeds: int
    seconds_per_epoch: float
    epochs: float
    hours: float
    source: str


@dataclass(frozen=True, kw_only=True)
class Estimate:
    """What :func:`estimate_hours` returns."""

    device: str
    engine: str
    cells: tuple[CellEstimate, ...]

    @property
    def hours(self) -> float:
        """Of all cells."""
        return sum(cell.hours for cell in self.cells)

    @property
    def notes(self) -> list[str]:
        """The sum, and what it holds for."""
        return [
            f"{self.hours:.1f} hours in all, one run after the other, on {self.device}, {self.engine} steps.",
            "Scaled entries follow the work of an epoch; expect them to be right within a factor of two.",
        ]

    def to_json(self) -> dict[str, Any]:
        """As JSON values."""
        cells = [asdict(cell) for cell in self.cells]
        return {"device": self.device, "engine": self.engine, "hours": self.hours, "cells": cells, "notes": self.notes}

    def to_rich(self) -> "RichTable":
        """For a terminal."""
        table = slim_table("Hours on one device", results=("hours",))
        for heading in ("data set", "model", "budget"):
            table.add_column(heading, no_wrap=True)
        for heading in ("s/epoch", "epochs", "seeds", "hours"):
            table.add_column(heading, justify="right", no_wrap=True)
        table.add_column("from", no_wrap=True)
        for cell in self.cells:
            numbers = f"{cell.seconds_per_epoch:.2f}", f"{cell.epochs:.0f}", str(cell.seeds), f"{cell.hours:.2f}"
            table.add_row(cell.dataset, cell.model, cell.budget, *numbers, cell.source)
        return table

    def to_text(self) -> str:
        """Without colours."""
        return plain_text(self.to_rich(), self.notes)


def estimate_hours(cells: Sequence[Cell], records: Iterable[RunRecord]) -> Estimate:
    """The hours of cells that predict on graphs.

    Args:
        cells: Of :func:`lrga.bench.cells_of`.
        records: Of finished runs, such as :func:`find_records` reads.
    """
    if any(cell.config.link is not None for cell in cells):
        raise OptionError(
            "a table of networks on graphs", "cells of link prediction", "estimate table1, table3 or rank"
        )
    device, engine, runs = _comparable(list(records))
    known = [Known(TrainingConfig.from_json(run.config), run) for run in runs]
    found = [_estimate(cell, known) for cell in cells]
    return Estimate(device=device, engine=engine, cells=tuple(found))


def find_records(folder: str | Path) -> list[RunRecord]:
    """All records of finished runs below a folder; other JSON files there are passed over.

    Raises:
        DataError: Where there is none.
    """
    place = Path(folder)
    records, links = [], 0
    for path in sorted(place.rglob("*.json")) if place.is_dir() else []:
        try:
            record = read_record(path)
        except DataError:
            continue  # speeds, results of run folders and so on
        links += "link" in record.config
        if record.status == FINISHED and record.epochs and "link" not in record.config:
            records.append(record)
    if not records and links:
        got, remedy = "records of link prediction alone", "estimate table1, table3 or rank"
        raise DataError(f"records of networks on graphs in {place}", got, remedy)
    if not records:
        raise DataError(
            f"records of finished runs in {place}", "none", "name a folder that lrga reproduce wrote, or results/table1"
        )
    return records


def work_of(config: TrainingConfig) -> float:
    """The work of an epoch, in bytes.

    Example:
        >>> from lrga.bench.protocols import paper_config
        >>> work = [work_of(paper_config("PATTERN", model)) for model in ("gcn", "gatedgcn")]
        >>> 3 < work[1] / work[0] < 10
        True
    """
    name = config.data.name.upper()
    facts, network = dataset_facts(name), resolve(config.model, INPUTS[name], dataset=name)
    width, layers = network.hidden_channels, network.num_layers
    graphs = facts.splits["train"] + (facts.splits["val"] + facts.splits["test"]) / 3  # evaluated: forward alone
    nodes, edges = graphs * facts.mean_nodes, graphs * facts.mean_edges
    passes = EDGE_PASSES.get(config.model.model, GATHERS)
    moved = 4.0 * layers * width * (NODE_PASSES * nodes + passes * edges)
    products = 6.0 * count_of(network.build) * nodes / FLOP_PER_BYTE
    if config.model.model == "gatedgcn":  # every layer multiplies the edges with a square matrix, too
        products += 6.0 * layers * width**2 * edges / FLOP_PER_BYTE
    return moved + products + LAYER_BYTES * layers * graphs / config.optimizer.batch_size


def _comparable(records: list[RunRecord]) -> tuple[str, str, list[RunRecord]]:
    """The records of one device and one loop: captured steps if there are some, on the device of most records."""
    if not records:
        raise DataError("records of finished runs", "none", "make some runs first")
    by_kind: dict[tuple[bool, str], list[RunRecord]] = {}
    for record in records:
        where = record.environment[-1] if record.environment else {}
        device = str(where.get("gpu") or where.get("cpu") or "an unknown device")
        by_kind.setdefault((where.get("engine") == "captured", device), []).append(record)
    captured, device = max(by_kind, key=lambda kind: (kind[0], len(by_kind[kind])))
    return device, "captured" if captured else "plain", by_kind[captured, device]


class Known:
    """A run made before."""

    def __init__(self, config: TrainingConfig, run: RunRecord) -> None:
        self.config, self.run = config, run
        self.seconds = run.seconds / run.epochs

    @cached_property
    def seconds_per_byte(self) -> float:
        return self.seconds / work_of(self.config)


def _estimate(cell: Cell, runs: Sequence[Known]) -> CellEstimate:
    own = cell.config
    name, model = own.data.name.upper(), own.model.model
    exact = [known for known in runs if _same(known.config, own)]
    same_data = [known for known in runs if known.config.data.name.upper() == name]
    same_model = [known for known in runs if known.config.model.model == model]
    if exact:
        source, seconds = "measured", statistics.median(known.seconds for known in exact)
    else:
        tiers = {
            f"scaled from {name}, {model}": [known for known in same_data if known in same_model],
            f"scaled from {model}": same_model,
            f"scaled from {name}": same_data,
            "scaled from all": list(runs),
        }
        source, nearest = next((text, found) for text, found in tiers.items() if found)
        seconds = work_of(own) * statistics.median(known.seconds_per_byte for known in nearest)
    epochs = statistics.median(known.run.epochs for known in exact or same_data or runs)
    return CellEstimate(
        dataset=name,
        model=str(cell.labels["model"]),
        budget=str(own.model.budget),
        seeds=len(cell.seeds),
        seconds_per_epoch=seconds,
        epochs=epochs,
        hours=seconds * epochs * len(cell.seeds) / 3600,
        source=source,
    )


def _same(config: TrainingConfig, own: TrainingConfig) -> bool:
    """Whether two runs do the same work: the same network and batches on the same data."""
    here, there = essence(config), essence(own)
    return (
        config.data.name.upper() == own.data.name.upper()
        and here["model"] == there["model"]
        and here["optimizer"]["batch_size"] == there["optimizer"]["batch_size"]
    )
