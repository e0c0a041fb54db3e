"""Link prediction at the size of ogbl-ppa from beginning to end, on files of OGB's exact layout made here.

    python benchmarks/ogb_pipeline.py [--device cuda] [--epochs 1] [--nodes 576289] [--edges 21231931] [--out FILE]
    python benchmarks/ogb_pipeline.py --device cpu --batch-size 1048576 --recompute-layers  # an hour on 2 cores

The files are those of ``ogb_reading.py`` (random edges: the scores mean nothing, the work is that of the real set).
Then the commands that a user would give, each in a process of its own: ``lrga reproduce run table2 --dataset ogbl-ppa``
reads them and trains LRGA + GCN for some epochs, with validation and test; ``lrga predict`` scores pairs and lists new
links of a node. Written down are the seconds of each command and of the epochs, the peak of memory, and the GPU's.
"""

import argparse
import json
import platform
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
from reporting import report

from lrga.version import __version__

PAIRS, TOP = 100_000, 10
# Runs a command of lrga and prints, as the last line, the most memory of the GPU that it had.
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
    """Seconds and peak memory of ``lrga WORDS``; raises with its last lines unless it ends well."""
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
        "peak_bytes": resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss * 1024,  # of the largest so far
        "gpu_peak_bytes": gpu[-1] if gpu else None,
        "stdout": done.stdout,
    }


def measure(
    place: Path, *, nodes: int, edges: int, epochs: int, device: str, changes: dict[str, object] | None = None
) -> dict[str, Any]:
    folder, runs, root = place / "ogbl_ppa", place / "runs", place / "root"
    begin = time.perf_counter()
    if not folder.exists():
        make(folder, nodes, edges)
    record: dict[str, Any] = {
        "benchmark": "ogb_pipeline", "lrga": __version__, "python": platform.python_version(),
        "torch": torch.__version__,
        "device": torch.cuda.get_device_name() if device == "cuda" else platform.machine(),
        "nodes": nodes, "directed_edges": 2 * edges, "changes": changes or {},
        "making_files_seconds": round(time.perf_counter() - begin, 1),
    }  # fmt: skip
    where = ("--device", device, "--data-root", root)
    extra: list[object] = []
    for name, value in (changes or {}).items():
        extra += [f"--{name.replace('_', '-')}", *([] if value is True else [value])]
    trained = command(
        "reproduce", "run", "table2", "--dataset", "ogbl-ppa", "--model", "gcn", "--lrga", "--seeds", 0,
        "--epochs", epochs,
        "--source", folder, "--output", runs, "--quiet", *where, *extra,
    )  # fmt: skip
    (path,) = (runs / "records").glob("*.json")
    run = json.loads(path.read_text(encoding="utf-8"))
    if run["status"] != "finished":
        raise SystemExit(f"the run ended as {run['status']}: {run['reason']}")
    record["train"] = {key: trained[key] for key in ("seconds", "peak_bytes", "gpu_peak_bytes")} | {
        "epochs": run["epochs"], "run_seconds": run["seconds"], "parameters": run["model"]["parameters"],
        "train_loss": run["last"]["train_loss"], "test_metric": run["last"]["test_metric"],
    }  # fmt: skip
    pairs = np.random.default_rng(1).integers(0, nodes, (PAIRS, 2))
    np.savetxt(place / "pairs.csv", pairs, fmt="%d", delimiter=",")
    scored = command("predict", runs / run["run"], place / "pairs.csv", "-o", place / "scores.csv", *where)
    rows = (place / "scores.csv").read_text(encoding="utf-8").splitlines()
    listed = command("predict", runs / run["run"], "--node", 17, "--top-k", TOP, *where)
    links = listed["stdout"].strip().splitlines()
    if len(rows) != PAIRS + 1 or len(links) != TOP + 1:
        raise SystemExit(f"expected {PAIRS} scores and {TOP} links, got {len(rows) - 1} and {len(links) - 1}")
    for name, found in (("score_pairs", scored), ("new_links", listed)):
        record[name] = {key: found[key] for key in ("seconds", "gpu_peak_bytes")}
    return record


def show(record: dict[str, Any]) -> None:
    print(f"{record['device']}: {record['nodes']:,} nodes, {record['directed_edges']:,} directed edges")
    train = record["train"]
    print(
        f"reading and training: {train['seconds']:.0f} s, of these {train['run_seconds']:.0f} s for {train['epochs']} ",
        end="",
    )
    print(f"epochs; peak memory {train['peak_bytes'] / 2**30:.1f} GiB", end="")
    print(f", of the GPU {train['gpu_peak_bytes'] / 2**30:.1f} GiB" if train["gpu_peak_bytes"] else "")
    for name, text in (
        ("score_pairs", f"scoring {PAIRS:,} pairs"),
        ("new_links", f"the {TOP} likeliest links of a node"),
    ):
        print(f"{text}: {record[name]['seconds']:.0f} s")


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--nodes", type=int, default=NODES)
    parser.add_argument("--edges", type=int, default=EDGES)
    parser.add_argument("--epochs", type=int, default=1)
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--batch-size", type=int, help="pairs in a batch in place of the protocol's 65,536")
    parser.add_argument("--recompute-layers", action="store_true", default=None, help="activation checkpointing")
    parser.add_argument("--keep", type=Path, help="where to make the files and leave them")
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.add_argument("--out", type=Path, help="write the record as JSON")
    options = parser.parse_args(arguments)
    place = options.keep or Path(tempfile.mkdtemp())
    try:
        given = {"batch_size": options.batch_size, "recompute_layers": options.recompute_layers}
        changes = {name: value for name, value in given.items() if value is not None}
        sizes = {"nodes": options.nodes, "edges": options.edges, "epochs": options.epochs}
        record = measure(place, **sizes, device=options.device, changes=changes)
    finally:
        if options.keep is None:
            shutil.rmtree(place)
    report(record, show, out=options.out, as_json=options.json)


if __name__ == "__main__":
    main()
