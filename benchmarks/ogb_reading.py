"""Seconds and peak memory of reading a data set as large as ogbl-ppa from files in OGB's exact layout.

    python benchmarks/ogb_reading.py [--nodes 576289] [--edges 21231931] [--keep FOLDER] [--json] [--out FILE]

The files are generated first (576,289 nodes with 58 features, 21.2 million training edges, 6.1 and 3.0 million held
out, 3 million negatives each) in a separate process; then our reader builds the set in another, whose peak memory is
measured, and a third process loads the built set. For comparison, numpy's text reader reads the edges only.
"""

import gzip
import multiprocessing
import os
import resource
import shutil
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
from reporting import make_parser, report

NODES, EDGES = 576_289, 21_231_931
LIMIT = 6 * 2**30


def make(folder: Path, nodes: int, edges: int) -> None:
    """Writes the files, some lines at a time."""
    import torch

    rng = np.random.default_rng(0)
    raw, split = folder / "raw", folder / "split" / "throughput"
    raw.mkdir(parents=True)
    split.mkdir(parents=True)
    train = rng.integers(0, nodes, (edges, 2))
    with gzip.open(raw / "edge.csv.gz", "wb", compresslevel=1) as file:
        for first in range(0, edges, 1 << 20):
            part = train[first : first + (1 << 20)]
            file.write(("\n".join([f"{a},{b}" for a, b in part.tolist()]) + "\n").encode())
    hot = rng.integers(0, 58, nodes)
    lines = [(",".join("1" if k == j else "0" for k in range(58)) + "\n").encode() for j in range(58)]
    with gzip.open(raw / "node-feat.csv.gz", "wb", compresslevel=1) as file:
        for first in range(0, nodes, 1 << 16):
            file.write(b"".join(lines[k] for k in hot[first : first + (1 << 16)].tolist()))
    for name, count in (("node", nodes), ("edge", edges)):
        with gzip.open(raw / f"num-{name}-list.csv.gz", "wb") as file:
            file.write(f"{count}\n".encode())
    torch.save({"edge": train}, split / "train.pt", pickle_protocol=4)
    share = edges / EDGES
    for name, positive in (("valid", 6_062_562), ("test", 3_031_780)):
        pairs = {"edge": rng.integers(0, nodes, (max(1, int(positive * share)), 2))}
        pairs["edge_neg"] = rng.integers(0, nodes, (max(1, int(3_000_000 * share)), 2))
        torch.save(pairs, split / f"{name}.pt", pickle_protocol=4)


def build(folder: Path, root: Path, answer: "multiprocessing.Queue") -> None:
    """Builds the set; returns its time and peak memory."""
    from lrga.data import load

    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    begin = time.perf_counter()
    data = load("ogbl-ppa", root, source=folder, progress=lambda *_: None)
    seconds = time.perf_counter() - begin
    size = sum(path.stat().st_size for path in root.rglob("*.safetensors"))
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    answer.put({
        "seconds": seconds, "peak_bytes": peak * 1024, "imports_bytes": before * 1024, "bytes_on_disk": size,
        "nodes": data.num_nodes, "directed_edges": 2 * data.edge.size(0), "features": data.num_features,
    })  # fmt: skip


def with_numpy(folder: Path, answer: "multiprocessing.Queue") -> None:
    """Reads only the edges, with numpy.loadtxt."""
    begin = time.perf_counter()
    edges = np.loadtxt(folder / "raw" / "edge.csv.gz", delimiter=",", dtype=np.int64, max_rows=2_000_000)
    seconds = (time.perf_counter() - begin) / len(edges)
    from lrga.data.datasets.source import read_numbers

    begin = time.perf_counter()
    ours = read_numbers(folder / "raw" / "edge.csv.gz", columns=2)
    own = (time.perf_counter() - begin) / len(ours)
    if not np.array_equal(ours[: len(edges)], edges):
        raise SystemExit("the edges differ from numpy's; no timing")
    answer.put({"baseline_rows_per_second": round(1 / seconds), "rows_per_second": round(1 / own)})


def apart(function, *arguments) -> dict:  # type: ignore[no-untyped-def]
    """Runs a function in its own process and returns its result."""
    context = multiprocessing.get_context("spawn")
    answer = context.Queue()
    process = context.Process(target=function, args=(*arguments, answer))
    process.start()
    found = answer.get()
    process.join()
    return dict(found)


def show(record: dict[str, Any]) -> None:
    *built, text = record["rows"]
    first = built[0]
    print(f"{first['directed_edges']:,} directed edges, {first['nodes']:,} nodes, {first['features']} features")
    for row in built:
        print(f"{row['case']:26} {row['seconds']:6.1f} s, peak memory {row['peak_bytes'] / 2**30:.2f} GiB")
    print(f"{text['case']}: {text['rows_per_second'] / 1e6:.1f} M rows/s, {text['ratio']} times {text['baseline']}")


def main() -> int:
    parser = make_parser(__doc__)
    parser.add_argument("--nodes", type=int, default=NODES)
    parser.add_argument("--edges", type=int, default=EDGES)
    parser.add_argument("--keep", type=Path, help="folder in which the generated files are kept")
    options = parser.parse_args()
    place = options.keep or Path(tempfile.mkdtemp())
    folder, root = place / "ogbl_ppa", place / "root"
    try:
        if not folder.exists():
            make(folder, options.nodes, options.edges)
        shutil.rmtree(root, ignore_errors=True)
        first = apart(build, folder, root)
        again = apart(build, folder, root)
        text = apart(with_numpy, folder)
    finally:
        if options.keep is None:
            shutil.rmtree(place)
    ratio = round(text["rows_per_second"] / text["baseline_rows_per_second"], 1)
    reached = first["peak_bytes"] < LIMIT
    rows = [
        {"case": "from CSV and split files", **first, "reached": reached},
        {"case": "built before", **again},
        {"case": "edge.csv.gz alone", **text, "baseline": "numpy.loadtxt", "ratio": ratio},
    ]
    settings = {"numpy": np.__version__, "cores": os.cpu_count(), "wanted_peak_bytes": LIMIT}
    report("ogb_reading", rows, show, options, device="cpu", settings=settings)
    return 0 if reached else 1


if __name__ == "__main__":
    sys.exit(main())
