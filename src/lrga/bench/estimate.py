"""How many hours a table of the paper takes, cell by cell, from the records of runs made before.

Where a cell has been run, its own seconds and epochs count. Elsewhere the seconds per epoch of the nearest cells are
scaled by the work of an epoch, counted as bytes: per graph and layer, node features that are read and written, products
with the weights, and edge features or gathered rows. Nearest is the same model on the same data set, with LRGA or
without as the cell is; then that network on that data set whether or not with LRGA; the same model on any data; that
network on any; other networks on the data set, those with or without LRGA as the cell is first; at last all. Seconds
are those of the device: a run that shared it with others is charged its part (:mod:`lrga.bench.sharing`). Of several
runs, and of several cells of the data set as near, the least count: whatever disturbs a run makes it longer, never
shorter. Of cells on other data sets, whose graphs suit a device better or worse, the middle one counts. Epochs are
those of the same data set, else of the same patience, else of all. Runs in captured steps from their first start on are
preferred to others, and only runs on the same kind of device are mixed. How far off all this may be is told by the
records themselves: each cell that was run is estimated from the others, and from those of other data sets where a data
set is asked for that was not run.
"""

import json
import math
import statistics
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import cache, cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lrga.bench.cell import Cell
from lrga.bench.display import plain_text, slim_table
from lrga.bench.records import FINISHED, RunRecord, read_record
from lrga.bench.sharing import device_of, parts_of
from lrga.data.datasets.spec import spec_of
from lrga.errors import DataError, OptionError
from lrga.models.budget import count_of
from lrga.training.architecture import resolve
from lrga.training.config import ModelConfig, TrainingConfig, essence

if TYPE_CHECKING:
    from rich.table import Table as RichTable

# Matrices of E × d that the edges of a layer read and write, forward and backward; those of the nodes, N × d.
EDGE_PASSES = {"gatedgcn": 20.0, "gat": 6.0}
GATHERS, NODE_PASSES = 2.0, 20.0
FLOP_PER_BYTE = 30.0  # products of these sizes: about so many operations in the time of a byte
MEASURED = "measured"
LAYER_BYTES = 2.4e8  # what the many small kernels of a layer cost in a step whatever they move: 0.06 ms at 4 TB/s


@dataclass(frozen=True, kw_only=True)
class CellEstimate:
    """One cell: seconds of the device for an epoch, epochs, hours of all its seeds, and where the seconds come from."""

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
    """What :func:`estimate_hours` returns.

    Attributes:
        device: Of the runs.
        engine: ``"captured"`` or ``"plain"`` steps of the runs.
        runs: How many there were.
        at_a_time: How many shared the device, on average; 1 where none did.
        off: The largest factor between the seconds of a cell that was run and its estimate from the others; ``None``
            where there are no others.
        cells: In the order asked for.
        across: Whether cells of data sets are among them that were not run; ``off`` then counts estimates from other
            data sets, too.
    """

    device: str
    engine: str
    runs: int
    at_a_time: float
    off: float | None
    cells: tuple[CellEstimate, ...]
    across: bool = False

    @property
    def hours(self) -> float:
        """Of all cells."""
        return sum(cell.hours for cell in self.cells)

    @property
    def notes(self) -> list[str]:
        """The sum, and what it holds for."""
        runs = f"from {self.runs} runs{self.sharing}"
        return [
            f"{self.hours:.1f} hours in all on {self.device}, {self.engine} steps, {runs}.",
            self.caution[0].upper() + self.caution[1:] + ".",
        ]

    @property
    def sharing(self) -> str:
        """How many runs shared the device, as part of a sentence; nothing where each had it to itself.

        Example:
            >>> Estimate(device="a GPU", engine="captured", runs=9, at_a_time=2.04, off=None, cells=()).sharing
            ', which shared it, 2.0 at a time, and are charged their parts'
        """
        if self.at_a_time < 1.05:
            return ""
        return f", which shared it, {self.at_a_time:.1f} at a time, and are charged their parts"

    @property
    def caution(self) -> str:
        """How far scaled entries may be off, as part of a sentence.

        Example:
            >>> Estimate(device="a GPU", engine="captured", runs=9, at_a_time=1, off=2.31, cells=()).caution
            'estimates of measured cells from the others are off by at most a factor of 2.4'
        """
        if self.cells and all(cell.source == MEASURED for cell in self.cells):
            return "every cell was measured"
        if self.off is None:
            only = "cells of a single data set were" if self.across else "a single cell was"
            return f"how far estimates are off is unknown, for {only} measured"
        most = math.ceil(10 * self.off - 1e-9) / 10  # upwards: "at most" must hold
        others = "other data sets" if self.across else "the others"
        return f"estimates of measured cells from {others} are off by at most a factor of {most:.1f}"

    def to_json(self) -> dict[str, Any]:
        """As JSON values."""
        cells = [asdict(cell) for cell in self.cells]
        facts = {"device": self.device, "engine": self.engine, "runs": self.runs, "at_a_time": self.at_a_time}
        return {**facts, "off_by_at_most": self.off, "hours": self.hours, "cells": cells, "notes": self.notes}

    def to_rich(self) -> "RichTable":
        """For a terminal."""
        table = slim_table("Hours of one device", results=("hours",))
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


def estimate_hours(
    cells: Sequence[Cell], records: Iterable[RunRecord], *, beside: Iterable[RunRecord] | None = None
) -> Estimate:
    """The hours of cells that predict on graphs.

    Args:
        cells: Of :func:`lrga.bench.cells_of`.
        records: Such as :func:`find_records` reads. Finished runs on graphs count; others tell who shared the device.
        beside: All records of the time, where ``records`` are not all.
    """
    if any(cell.config.problem == "links" for cell in cells):
        raise OptionError(
            "a table of networks on graphs", "cells of link prediction", "estimate table1, table3 or rank"
        )
    records = list(records)
    device, engine, runs = _comparable([record for record in records if _counts(record)])
    alone = [
        replace(run, seconds=run.seconds * part)
        for run, part in zip(runs, parts_of(runs, records if beside is None else beside), strict=True)
    ]
    known = _measured(alone)
    found = tuple(_estimate(cell, known) for cell in cells)
    across = not {cell.dataset for cell in found} <= {_data_of(cell) for cell in known.values()}
    taken = sum(run.seconds for run in alone)
    share = sum(run.seconds for run in runs) / taken if taken else 1.0
    off = _largest_factor(known, _network_of)
    if across and off is not None:
        strange = _largest_factor(known, _data_of)
        off = None if strange is None else max(off, strange)
    return Estimate(device=device, engine=engine, runs=len(runs), at_a_time=share, off=off, cells=found, across=across)


def find_records(folder: str | Path, *, every: bool = False) -> list[RunRecord]:
    """All records of finished runs below a folder; other JSON files there are passed over.

    Args:
        folder: Where they lie.
        every: Also those of unfinished runs and of link prediction, beside at least one of a finished run on graphs.

    Raises:
        DataError: Where there is none.
    """
    place = Path(folder)
    records: list[RunRecord] = []
    others: list[RunRecord] = []
    links, unread = 0, 0
    for path in sorted(place.rglob("*.json")) if place.is_dir() else []:
        try:
            record = read_record(path)
        except DataError:
            unread += 1  # speeds, results of run folders and so on
            continue
        links += "link" in record.config
        (records if _counts(record) else others).append(record)
    if not records and links:
        got, remedy = "records of link prediction alone", "estimate table1, table3 or rank"
        raise DataError(f"records of networks on graphs in {place}", got, remedy)
    if not records:
        raise DataError(
            f"records of finished runs in {place}",
            f"none, and {unread} other or damaged files" if unread else "none",
            "name a folder that lrga reproduce wrote, or results/table1",
        )
    return records + others if every else records


def _counts(record: RunRecord) -> bool:
    """Whether it is of a finished run on graphs."""
    return record.status == FINISHED and record.epochs > 0 and "link" not in record.config


def work_of(config: TrainingConfig) -> float:
    """The work of an epoch, in bytes.

    Example:
        >>> from lrga.bench.protocols import paper_config
        >>> work = [work_of(paper_config("PATTERN", model)) for model in ("gcn", "gatedgcn")]
        >>> 3 < work[1] / work[0] < 10
        True
    """
    return _work(config.data.name, config.model, config.optimizer.batch_size)


@cache
def _work(name: str, model: ModelConfig, batch_size: int) -> float:
    facts = spec_of(name)
    network = resolve(model, facts.inputs, dataset=name)
    width, layers = network.hidden_channels, network.num_layers
    graphs = facts.splits["train"] + (facts.splits["val"] + facts.splits["test"]) / 3  # evaluated: forward alone
    nodes, edges = graphs * facts.mean_nodes, graphs * facts.mean_edges
    passes = EDGE_PASSES.get(model.model, GATHERS)
    moved = 4.0 * layers * width * (NODE_PASSES * nodes + passes * edges)
    products = 6.0 * count_of(network.build) * nodes / FLOP_PER_BYTE
    if model.model == "gatedgcn":  # every layer multiplies the edges with a square matrix, too
        products += 6.0 * layers * width**2 * edges / FLOP_PER_BYTE
    return moved + products + LAYER_BYTES * layers * graphs / batch_size


def _comparable(records: list[RunRecord]) -> tuple[str, str, list[RunRecord]]:
    """The records of one device and one loop: captured steps if there are some, on the device of most records."""
    if not records:
        raise DataError("records of finished runs", "none", "make some runs first")
    by_kind: dict[tuple[bool, str], list[RunRecord]] = {}
    for record in records:
        starts = record.environment
        captured = bool(starts) and all(start.get("engine") == "captured" for start in starts)
        by_kind.setdefault((captured, device_of(record)), []).append(record)
    captured, device = max(by_kind, key=lambda kind: (kind[0], len(by_kind[kind])))
    return device, "captured" if captured else "plain", by_kind[captured, device]


class Known:
    """A cell that was run: its least seconds per epoch, and the epochs of its runs."""

    def __init__(self, config: TrainingConfig, runs: Sequence[RunRecord]) -> None:
        self.config, self.epochs = config, [run.epochs for run in runs]
        self.seconds = min(run.seconds / run.epochs for run in runs)

    @cached_property
    def seconds_per_byte(self) -> float:
        return self.seconds / work_of(self.config)


def _measured(runs: Iterable[RunRecord]) -> dict[str, Known]:
    """The cells that were run, by what decides their work."""
    together: dict[str, list[RunRecord]] = {}
    for run in runs:
        together.setdefault(_work_key(TrainingConfig.from_json(run.config)), []).append(run)
    return {key: Known(TrainingConfig.from_json(own[0].config), own) for key, own in together.items()}


def _estimate(cell: Cell, known: Mapping[str, Known]) -> CellEstimate:
    own = cell.config
    name, exact = own.data.name.upper(), known.get(_work_key(own))
    if exact is None:
        source, seconds = _scaled(own, list(known.values()))
        cells, patience = list(known.values()), own.optimizer.patience
        near = [other for other in cells if _data_of(other) == name]
        near = near or [other for other in cells if other.config.optimizer.patience == patience] or cells
    else:
        source, seconds, near = MEASURED, exact.seconds, [exact]
    epochs = statistics.median(count for other in near for count in other.epochs)
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


def _scaled(own: TrainingConfig, others: Sequence[Known]) -> tuple[str, float]:
    """Seconds of an epoch from the nearest of other cells, and which these are."""
    name, network = own.data.name.upper(), own.model.model

    def of(*, data: bool = False, model: bool = False, lrga: bool = False) -> list[Known]:
        return [
            other
            for other in others
            if (not data or _data_of(other) == name)
            and (not model or other.config.model.model == network)
            and (not lrga or other.config.model.lrga == own.model.lrga)
        ]

    tiers = {
        f"scaled from {name}, same model": of(data=True, model=True, lrga=True),
        f"scaled from {name}, {network}": of(data=True, model=True),
        "scaled from same model": of(model=True, lrga=True),
        f"scaled from {network}": of(model=True),
        f"scaled from {name}, {'LRGA' if own.model.lrga else 'plain'}": of(data=True, lrga=True),
        f"scaled from {name}": of(data=True),
        "scaled from all": list(others),
    }
    source, nearest = next((text, found) for text, found in tiers.items() if found)
    same_graphs = [other for other in nearest if _data_of(other) == name]
    rates = [other.seconds_per_byte for other in same_graphs or nearest]
    return source, work_of(own) * (min(rates) if same_graphs else statistics.median(rates))


def _largest_factor(known: Mapping[str, Known], group: Callable[[Known], str]) -> float | None:
    """How far off the estimate of a cell that was run is from those of other groups, at most: always 1 or more."""
    groups: dict[str, list[Known]] = {}
    for cell in known.values():
        groups.setdefault(group(cell), []).append(cell)
    if len(groups) < 2:
        return None
    ratios = [
        _scaled(cell.config, [c for other, of_other in groups.items() if other != own for c in of_other])[1]
        / cell.seconds
        for own, of_own in groups.items()
        for cell in of_own
    ]
    return max(max(ratio, 1 / ratio) for ratio in ratios)


def _data_of(cell: Known) -> str:
    return cell.config.data.name.upper()


def _network_of(cell: Known) -> str:
    """The network and its data; one and the same in other batches would tell nothing."""
    return json.dumps([_data_of(cell), essence(cell.config)["model"]], sort_keys=True)


def _work_key(config: TrainingConfig) -> str:
    """Equal for runs that do the same work: the same network and batches, those for the norms too, on the same data."""
    own, optimizer = essence(config), config.optimizer
    batches = optimizer.batch_size, optimizer.recalibrate_norm
    return json.dumps([config.data.name.upper(), own["model"], batches], sort_keys=True)
