"""Link prediction at the size of ogbl-ppa from files to predictions, on generated files in OGB's exact layout.

    python benchmarks/ogb_pipeline.py [--device cuda] [--epochs 1] [--nodes 576289] [--edges 21231931] [--out FILE]
    python benchmarks/ogb_pipeline.py --device cpu --batch-size 1048576 --recompute-layers  # an hour on 2 cores

The files are those of ``ogb_reading.py`` (random edges: the scores are meaningless, the work is realistic).
Then the commands of a user run, each in its own process: ``lrga reproduce run table2 --dataset ogbl-ppa``
reads them and trains LRGA + GCN for some epochs, with validation and test; ``lrga predict`` scores pairs and lists new
links of a node. The record holds the seconds of each command and of the epochs, the peak memory, and that of the GPU.
"""

import json
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from ogb_reading import EDGES, NODES, make
from reporting import make_parser, report

PAIRS, TOP = 100_000, 10
MEMORY = {"peak memory": "peak_bytes", "of the GPU": "gpu_peak_bytes"}
TRAIN = "lrga reproduce run table2 --dataset ogbl-ppa"
# Runs a command of lrga and prints, as the last line, its peak GPU memory.
WATCHED = """
import sys, torch
from lrga.cli.main import run
try:
    run()
finally:
    if torch.cuda.is_available():
        print(f"GPU-PEAK {torch.cuda.max_memory_allocated()}", file=sys.stderr)
"""


def command(*words: object) -> dict[str, Any]:
    """Seconds and peak memory of ``lrga WORDS``; raises an error with its last lines if it fails."""
    begin = time.perf_counter()
    done = subprocess.run(
        [sys.executable, "-c", WATCHED, *map(str, words)], capture_output=True, text=True, encoding="utf-8", check=False
    )
    seconds = time.perf_counter() - begin
    if done.returncode:
        raise SystemExit(
            f"lrga {' '.join(map(str, words))} ended with {done.returncode}:\n{(done.stdout + done.stderr)[-3000:]}"
        )
    gpu = [int(line.split()[1]) for line in done.stderr.splitlines() if line.startswith("GPU-PEAK")]
    return {
        "seconds": round(seconds, 1),
        "peak_bytes": resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss * 1024,  # of the largest command so far
        "gpu_peak_bytes": gpu[-1] if gpu else None,
        "stdout": done.stdout,
    }


def measure(
    place: Path, *, nodes: int, edges: int, epochs: int, device: str, changes: dict[str, object] | None = None
) -> tuple[list[dict[str, Any]], dict[str, Any]]:
    """Rows and settings of the record."""
    folder, runs, root = place / "ogbl_ppa", place / "runs", place / "root"
    if not folder.exists():
        make(folder, nodes, edges)
    where = ("--device", device, "--data-root", root)
    extra: list[object] = []
    for name, value in (changes or {}).items():
        extra += [f"--{name}", *([] if value is True else [value])]
    trained = command(
        "reproduce", "run", "table2", "--dataset", "ogbl-ppa", "--model", "gcn", "--lrga", "--seeds", 0,
        "--epochs", epochs,
        "--source", folder, "--output", runs, "--quiet", *where, *extra,
    )  # fmt: skip
    (path,) = (runs / "records").glob("*.json")
    run = json.loads(path.read_text(encoding="utf-8"))
    if run["status"] != "finished":
        raise SystemExit(f"the run ended as {run['status']}: {run['reason']}")
    pairs = np.random.default_rng(1).integers(0, nodes, (PAIRS, 2))
    np.savetxt(place / "pairs.csv", pairs, fmt="%d", delimiter=",")
    scored = command("predict", runs / run["run"], place / "pairs.csv", "-o", place / "scores.csv", *where)
    rows = (place / "scores.csv").read_text(encoding="utf-8").splitlines()
    listed = command("predict", runs / run["run"], "--node", 17, "--top-k", TOP, *where)
    links = listed["stdout"].strip().splitlines()
    if len(rows) != PAIRS + 1 or len(links) != TOP + 1:
        raise SystemExit(f"expected {PAIRS} scores and {TOP} links, got {len(rows) - 1} and {len(links) - 1}")
    for one in (trained, scored, listed):
        del one["stdout"]
    settings = {
        "nodes": nodes, "directed_edges": 2 * edges, "epochs": run["epochs"],
        "parameters": run["model"]["parameters"], "train_loss": run["last"]["train_loss"],
        "test_metric": run["last"]["test_metric"], **{f"--{name}": value for name, value in (changes or {}).items()},
    }  # fmt: skip
    times = {TRAIN: trained, "of these training and evaluation": {"seconds": run["seconds"]}}
    times |= {
        "lrga predict RUN pairs.csv": {**scored, "pairs": PAIRS},
        f"lrga predict RUN --node 17 --top-k {TOP}": listed,
    }
    return [{"case": case, **found} for case, found in times.items()], settings


def show(record: dict[str, Any]) -> None:
    sizes = record["settings"]
    print(f"{record['device']}: {sizes['nodes']:,} nodes, {sizes['directed_edges']:,} directed edges")
    for row in record["rows"]:
        memory = [f", {name} {row[key] / 2**30:.1f} GiB" for name, key in MEMORY.items() if row.get(key)]
        print(f"{row['case']}: {row['seconds']:.0f} s{''.join(memory)}")


def main(arguments: Sequence[str] | None = None) -> None:
    parser = make_parser(__doc__)
    parser.add_argument("--nodes", type=int, default=NODES)
    parser.add_argument("--edges", type=int, default=EDGES)
    parser.add_argument("--epochs", type=int, default=1)
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--batch-size", type=int, help="pairs per batch instead of the protocol's 65,536")
    parser.add_argument("--recompute-layers", action="store_true", default=None, help="activation checkpointing")
    parser.add_argument("--keep", type=Path, help="folder in which the generated files are kept")
    options = parser.parse_args(arguments)
    place = options.keep or Path(tempfile.mkdtemp())
    try:
        given = {"batch-size": options.batch_size, "recompute-layers": options.recompute_layers}
        changes = {name: value for name, value in given.items() if value is not None}
        sizes = {"nodes": options.nodes, "edges": options.edges, "epochs": options.epochs}
        rows, settings = measure(place, **sizes, device=options.device, changes=changes)
    finally:
        if options.keep is None:
            shutil.rmtree(place)
    report("ogb_pipeline", rows, show, options, device=options.device, settings=settings)


if __name__ == "__main__":
    main()
