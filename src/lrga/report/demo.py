"""``lrga demo``: LRGA compared with the plain network on generated data, on a CPU."""

import os
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from lrga.errors import MissingDependencyError
from lrga.experiments.comparison import comparison
from lrga.experiments.study import Study
from lrga.experiments.table import Table, gains
from lrga.paper.reference import THE_PAPER
from lrga.report.pictures import plot_curves
from lrga.report.sources import gather
from lrga.speed.measure import cpu_threads

SIZES = (1500, 250, 250)
EPOCHS = 12
BATCH_SIZE = 32
NORM_BATCHES = 20
OUTPUT = "demo"
MAX_THREADS = 4  # more threads are slower at these sizes


def demo_study(output: str | Path = OUTPUT, *, sizes: Sequence[int] | None = None, epochs: int | None = None) -> Study:
    """GCN with and without LRGA, with the shapes of the 100K budget, on a small CLUSTER.

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
    remark = "The paper trained on the full data set to the end: compare the gain, not the level."
    return replace(study, remark=lambda rows: [*gains(rows), remark])


def run_demo(
    output: str | Path = OUTPUT,
    *,
    sizes: Sequence[int] | None = None,
    epochs: int | None = None,
    threads: int | None = None,
    progress: bool = True,
) -> tuple[Table, Path | None]:
    """Generates a small CLUSTER, trains GCN with and without LRGA on the CPU, and draws the curves (with matplotlib).

    Args:
        output: Folder for data, run folders, records and figure. A second call skips finished runs.
        sizes: Number of graphs in train, val and test; :data:`SIZES` by default.
        epochs: Number of epochs of each run; :data:`EPOCHS` by default.
        threads: Number of CPU threads; by default the number of free cores.
        progress: Whether to show progress on stderr.

    Returns:
        The table, and the picture of the learning curves if matplotlib is installed.
    """
    with cpu_threads(free_cores() if threads is None else threads):
        study = demo_study(output, sizes=sizes, epochs=epochs)
        table = study.run(output, progress=progress)
    config = study.cells[0].config
    title = f"{table.title}: {config.data.options['sizes'][0]:,} graphs, {config.optimizer.max_epochs} epochs"
    try:
        return table, plot_curves(gather([output]), Path(output) / "curves.png", title=title)
    except MissingDependencyError:
        return table, None


def free_cores(most: int = MAX_THREADS) -> int:
    """Number of idle cores, at least one: threads that wait for each other are slow on a busy machine."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    idle = round(cores - os.getloadavg()[0]) if hasattr(os, "getloadavg") else cores
    return max(1, min(cores, idle, most))
