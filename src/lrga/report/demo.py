"""The first minutes: LRGA beside the plain network, on data made on the spot, on a CPU."""

import os
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from lrga.data.datasets.source import default_workers
from lrga.errors import MissingDependencyError
from lrga.experiments.comparison import comparison
from lrga.experiments.study import Study
from lrga.experiments.table import Row, Table, gains
from lrga.paper.reference import THE_PAPER
from lrga.report.pictures import plot_curves
from lrga.report.sources import gather
from lrga.speed.measure import cpu_threads

SIZES = (1500, 250, 250)
EPOCHS = 12
BATCH_SIZE = 32
NORM_BATCHES = 20
OUTPUT = "demo"
MOST_THREADS = 4  # more cost time at these sizes


@dataclass(frozen=True)
class Demo:
    """What the demo gave: the table, and the learning curves where matplotlib is installed."""

    table: Table
    picture: Path | None


def demo_study(output: str | Path = OUTPUT, *, sizes: Sequence[int] | None = None, epochs: int | None = None) -> Study:
    """GCN with and without LRGA at the shapes of the 100K budget, on a small CLUSTER.

    Example:
        >>> [cell.labels["model"] for cell in demo_study().cells]
        ['GCN', 'LRGA + GCN']
    """
    study = comparison(
        "CLUSTER",
        "gcn",
        budget="100K",
        max_epochs=EPOCHS if epochs is None else epochs,
        batch_size=BATCH_SIZE,
        recalibrate_norm=NORM_BATCHES,
        device="cpu",
        root=str(Path(output) / "data"),
        data_options={"sizes": SIZES if sizes is None else tuple(sizes)},
        reference=THE_PAPER,
    )
    return replace(study, remark=_remarks)


def _remarks(rows: Sequence[Row]) -> list[str]:
    return [*gains(rows), "The paper trained on the full data set to the end: compare the gain, not the level."]


def run_demo(
    output: str | Path = OUTPUT,
    *,
    sizes: Sequence[int] | None = None,
    epochs: int | None = None,
    threads: int | None = None,
    progress: bool = True,
) -> Demo:
    """Makes a small CLUSTER, trains GCN with and without LRGA on the CPU, and draws the curves (with matplotlib).

    Args:
        output: Folder of everything: data, run folders, records, picture. Called again, what is done is not done again.
        sizes: Graphs of train, val and test, :data:`SIZES` by default.
        epochs: Of each training, :data:`EPOCHS` by default.
        threads: Of the CPU; by default as many as are free.
        progress: Whether to show progress on stderr.
    """
    with cpu_threads(free_cores() if threads is None else threads):
        study = demo_study(output, sizes=sizes, epochs=epochs)
        table = study.run(output, progress=progress)
    config = study.cells[0].config
    title = f"{table.title}: {config.data.options['sizes'][0]:,} graphs, {config.optimizer.max_epochs} epochs"
    try:
        return Demo(table, plot_curves(gather([output]), Path(output) / "curves.png", title=title))
    except MissingDependencyError:
        return Demo(table, None)


def free_cores(most: int = MOST_THREADS) -> int:
    """Cores that nobody else uses, at least one: threads that wait for each other are slow on a busy machine."""
    cores = min(default_workers(), most)
    if not hasattr(os, "getloadavg"):
        return cores
    return max(1, min(cores, round(default_workers() - os.getloadavg()[0])))
