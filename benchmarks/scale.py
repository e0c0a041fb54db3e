"""Time and memory of a training step over the graph's size: GCN, LRGA + GCN, and GCN with softmax attention if it fits.

    python benchmarks/scale.py [--device cuda] [--max-nodes 10000000] [--json] [--out record.json]

Graphs are synthetic (power-law degrees, communities, 20 edges per node), networks two layers of width 64. A step is
forward, cross entropy, backward and Adam on the whole graph; seconds are the median of the repeats, memory the peak of
one step in addition to graph, features and weights (PyTorch's allocator on a GPU, live tensors on a CPU). Correctness
first: the network with LRGA must agree with the O(n²) definition of the attention on a small graph.
The exponent of growth is the slope of log seconds over log nodes, for graphs from 100,000 nodes and for all.
"""

import math
import os
import statistics
import sys
import time
from collections.abc import Callable, Sequence
from typing import Any

# Waiting threads sleep: spinning threads multiply the time if the machine has other work.
os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")

import torch
import torch.nn.functional as F
from live_bytes import LiveBytes
from reporting import make_parser, report
from timing import at_least_one, need_device
from torch import Tensor, nn

import lrga
from lrga.data.datasets.synthetic import synthetic_graph
from lrga.ops._triton import allows_tf32
from lrga.ops.neighbors.edges import EdgeLayout

WIDTH, RANK, LAYERS, CLASSES, HEADS, PER_NODE = 64, 32, 2, 4, 4, 20
SIZES = (10_000, 30_000, 100_000, 300_000, 1_000_000, 3_000_000, 10_000_000)
LARGE = 100_000
METHODS = ("GCN", "LRGA + GCN", "softmax + GCN")


class SoftmaxAttention(nn.Module):
    """Softmax attention over all nodes, as wide as LRGA's result, by PyTorch's fused kernels."""

    def __init__(self) -> None:
        super().__init__()
        self.project = nn.Linear(WIDTH, 3 * 2 * RANK)

    def forward(self, x: Tensor, segments: object = None) -> Tensor:
        del segments
        q, k, v = self.project(x).view(1, -1, 3, HEADS, 2 * RANK // HEADS).permute(2, 0, 3, 1, 4)  # [1, H, N, C] each
        return F.scaled_dot_product_attention(q, k, v)[0].transpose(0, 1).flatten(1)


def make_model(method: str, device: str) -> lrga.GNN:
    torch.manual_seed(0)
    model = lrga.GNN(WIDTH, WIDTH, CLASSES, LAYERS, conv="gcn", rank=None if method == "GCN" else RANK)
    if method == "softmax + GCN":
        for layer in model.layers:
            layer.attention = SoftmaxAttention()
    return model.to(device)


class Graph:
    """A synthetic graph, its edges sorted, on the device."""

    def __init__(self, nodes: int, device: str) -> None:
        begin = time.perf_counter()
        made = synthetic_graph(nodes, PER_NODE, features=WIDTH, classes=CLASSES, device=device)
        self.nodes, self.x, self.y = nodes, made.x, made.y
        self.edges, _ = EdgeLayout.from_edge_index(made.edge_index, nodes, check=False)
        synchronize(device)
        self.seconds = time.perf_counter() - begin


def check(device: str) -> float:
    """Compares scores with LRGA in linear time and by its O(n²) definition in float64; an error if they differ."""
    graph, scores = Graph(2_000, device), []
    for backend, dtype in (("auto", torch.float32), ("dense", torch.float64)):
        model = make_model("LRGA + GCN", device).to(dtype)
        for layer in model.layers:
            layer.attention.backend = backend
        with torch.no_grad():
            scores.append(model(graph.x.to(dtype), graph.edges).double())
    difference = float((scores[0] - scores[1]).norm() / scores[1].norm())
    if not difference < (2e-3 if allows_tf32() else 1e-4):
        raise SystemExit(f"scores differ by {difference:.1e} from the definition; no timing")
    return difference


def measure(method: str, graph: Graph, device: str, repeats: int, seconds: float) -> dict[str, Any]:
    """Seconds and bytes of a step; with LRGA also the share of the attention."""
    model = make_model(method, device)
    adam = torch.optim.Adam(model.parameters(), fused=True)

    def step() -> None:
        adam.zero_grad()
        F.cross_entropy(model(graph.x, graph.edges), graph.y).backward()
        adam.step()

    step()  # creates Adam's moments and the layout's caches, and compiles
    result: dict[str, Any] = {"peak_bytes": peak_bytes(step, device), "seconds": timed(step, device, repeats, seconds)}
    if method == "LRGA + GCN":
        attention = model.layers[0].attention
        x = torch.randn(graph.nodes, WIDTH, device=device, requires_grad=True)
        grad = torch.randn(graph.nodes, 2 * RANK, device=device)

        def attend() -> None:
            x.grad = None
            attention(x).backward(grad)

        attend()
        result["attention_seconds"] = LAYERS * timed(attend, device, repeats, seconds)
        result["attention_share"] = result["attention_seconds"] / result["seconds"]
    return result


def peak_bytes(run: Callable[[], None], device: str) -> int:
    if device == "cpu":
        with LiveBytes() as live:
            run()
        return live.peak
    synchronize(device)
    torch.cuda.reset_peak_memory_stats()
    before = torch.cuda.memory_allocated()
    run()
    synchronize(device)
    return torch.cuda.max_memory_allocated() - before


def timed(run: Callable[[], None], device: str, repeats: int, seconds: float) -> float:
    times: list[float] = []
    while len(times) < repeats and (not times or sum(times) < seconds):
        synchronize(device)
        begin = time.perf_counter()
        run()
        synchronize(device)
        times.append(time.perf_counter() - begin)
    return statistics.median(times)


def synchronize(device: str) -> None:
    if device != "cpu":
        torch.cuda.synchronize()


def exponent(rows: list[dict[str, Any]], method: str, key: str, *, least: int = 0) -> float | None:
    """Slope of log ``key`` over log nodes; ``None`` for fewer than two sizes."""
    points = [(r["nodes"], r[key]) for r in rows if r["method"] == method and r.get(key) and r["nodes"] >= least]
    if len(points) < 2:
        return None
    x, y = torch.tensor(points, dtype=torch.float64).log().t()
    return float(((x - x.mean()) * (y - y.mean())).sum() / (x - x.mean()).square().sum())


def run_all(
    device: str, sizes: list[int], repeats: int, limit: float, progress: Callable[[str], None]
) -> tuple[list[dict[str, Any]], dict[str, Any]]:
    """Rows and settings of the record."""
    progress("checking LRGA against its definition")
    difference, rows, quadratic = check(device), [], 0.0
    for nodes in sizes:
        progress(f"{nodes:,} nodes: making the graph")
        graph = Graph(nodes, device)
        for method in METHODS:
            row: dict[str, Any] = {
                "case": "training step", "method": method, "nodes": nodes, "edges": graph.edges.num_edges,
            }  # fmt: skip
            rows.append(row)
            if method == "softmax + GCN" and quadratic * (nodes / max(last_softmax(rows), 1)) ** 2 > limit:
                row["skipped"] = f"a step would take more than {limit:g} s"
                continue
            progress(f"{nodes:,} nodes: {method}")
            try:
                row |= measure(method, graph, device, repeats, seconds=limit)
            except (torch.OutOfMemoryError, MemoryError) as error:
                row["skipped"] = f"out of memory: {str(error).splitlines()[0][:80]}"
            if method == "softmax + GCN":
                quadratic = row.get("seconds", math.inf)
            if device != "cpu":
                torch.cuda.empty_cache()
        rows[-1]["graph_seconds"] = graph.seconds
        del graph
    return rows, {
        "threads": torch.get_num_threads(), "width": WIDTH, "rank": RANK, "layers": LAYERS,
        "edges_per_node": PER_NODE, "error": difference,
    }  # fmt: skip


def last_softmax(rows: list[dict[str, Any]]) -> int:
    """Nodes of the last graph on which softmax attention was timed."""
    return next((r["nodes"] for r in reversed(rows) if r["method"] == "softmax + GCN" and "seconds" in r), 0)


def show(record: dict[str, Any]) -> None:
    print(f"{record['device']}, torch {record['torch']}; width {WIDTH}, rank {RANK}, {LAYERS} layers")
    print(f"scores with LRGA within {record['settings']['error']:.0e} of the O(n²) definition\n")
    print(f"{'nodes':>12}{'edges':>14}  {'method':15}{'s / step':>10}{'peak GB':>9}{'attention':>11}")
    for row in record["rows"]:
        start = f"{row['nodes']:>12,}{row['edges']:>14,}  {row['method']:15}"
        if "seconds" not in row:
            print(f"{start}  {row['skipped']}")
            continue
        share = f"{100 * row['attention_share']:.0f} %" if "attention_share" in row else ""
        print(f"{start}{row['seconds']:>10.4f}{row['peak_bytes'] / 1e9:>9.2f}{share:>11}")
    print("\nexponent of growth (seconds from 100,000 nodes, seconds of all, memory):")
    for method in METHODS:
        found = [
            exponent(record["rows"], method, key, least=least)
            for key, least in (("seconds", LARGE), ("seconds", 0), ("peak_bytes", LARGE))
        ]
        numbers = ", ".join("–" if value is None else f"{value:.2f}" for value in found)
        print(f"  {method:15}{numbers}")


def main(given: Sequence[str] | None = None) -> None:
    parser = make_parser(__doc__)
    parser.add_argument("--device", default="cpu", choices=["cpu", "cuda"])
    parser.add_argument("--min-nodes", type=int, default=SIZES[0])
    parser.add_argument("--max-nodes", type=int, default=1_000_000)
    parser.add_argument("--repeats", type=at_least_one, default=3)
    parser.add_argument("--limit", type=float, default=5.0, help="maximum seconds for one method on one graph")
    parser.add_argument("--threads", type=int, default=torch.get_num_threads(), help="CPU threads")
    parser.add_argument("--tf32", action="store_true", help="let matrix products on a GPU use TF32")
    arguments = parser.parse_args(given)
    torch.set_num_threads(arguments.threads)
    torch.backends.cuda.matmul.allow_tf32 = arguments.tf32
    sizes = [size for size in SIZES if arguments.min_nodes <= size <= arguments.max_nodes]
    if not sizes:
        known = ", ".join(map(str, SIZES))
        span = f"{arguments.min_nodes} and {arguments.max_nodes}"
        parser.error(f"none of the sizes {known} between {span}")
    if arguments.out is not None and not arguments.out.parent.is_dir():
        parser.error(f"--out {arguments.out}: the folder {arguments.out.parent} does not exist")
    need_device(arguments.device)
    progress = lambda text: print(text, file=sys.stderr, flush=True)  # noqa: E731
    rows, settings = run_all(arguments.device, sizes, arguments.repeats, arguments.limit, progress)
    precision = "tf32" if allows_tf32() else "float32"
    report("scale", rows, show, arguments, device=arguments.device, precision=precision, settings=settings)


if __name__ == "__main__":
    main()
