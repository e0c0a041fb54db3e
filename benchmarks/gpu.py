"""All fast GPU implementations in one run, each compared with its usual alternative.

    python benchmarks/gpu.py [--only large small linear gcn gatedgcn mix] [--profile] [--json] [--out FILE]

large     one graph of 576,289 nodes, width 256, rank 50: ours, the authors' arithmetic, PyG's SGFormerAttention
small     128 graphs of 14,384 nodes, width 60, rank 30: ours, padded LRGA, PyG's Performer, softmax attention
linear    time for 10⁵ to 10⁷ nodes, width 64, rank 30
gcn       a training step on PATTERN, batch 64, LRGA + GCN, 8 layers of width 100: captured, and as usual PyG code
gatedgcn  the same for LRGA + GatedGCN, width 80
mix       [x, attention, convolution] → linear map, with and without the concatenated matrix

First values and gradients are compared with float64 (for a step, its loss with PyG's); wrong results are not timed.
Times are medians, forward + backward. The floor is the time to move the necessary bytes at the speed of a
copy measured in the same run. Ours is timed eager (launched operation by operation) and replayed (as a CUDA graph). The
script takes about three minutes on an H200; it needs a CUDA GPU.
"""

import sys
import time
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import torch
import torch_geometric
from gpu_attention import Row, check, large_case, linear_case, product_speeds, small_case
from gpu_steps import pattern, step_case
from passes import features, use_tf32
from reporting import make_parser, report
from timing import copy_rate, event_ms, need_device, replay_ms, show_profiles, take_profiles, workspace_mb

from lrga.ops import linear as linear_ops

MIX_ROWS = (7_600, 15_000, 30_000, 60_000, 120_000, 300_000, 576_289)
MIX_PARTS, MIX_OUT = (256, 100, 256), 256
GRAPHS = 512  # of PATTERN


def both(function: Callable[..., torch.Tensor], leaves: list[torch.Tensor], upstream: torch.Tensor) -> list[Any]:
    """Result and gradients of a linear map of ``leaves[:-2]`` with the weight and bias that follow them."""
    out = function(leaves[:-2], *leaves[-2:])
    return [out, *torch.autograd.grad(out, leaves, upstream)]


def mix_case(rate: float, *, device: str = "cuda", sizes: Sequence[int] = MIX_ROWS) -> list[Row]:
    """Three matrices side by side times a weight: in parts, and concatenated."""
    rows: list[Row] = []
    use_tf32(True)
    for nodes in sizes:
        parts = [features(nodes, width, device) for width in MIX_PARTS]
        weight = torch.randn(MIX_OUT, sum(MIX_PARTS), device=device).mul_(0.05).requires_grad_()
        bias = torch.randn(MIX_OUT, device=device, requires_grad=True)
        upstream = torch.randn(nodes, MIX_OUT, device=device)
        ways: dict[str, Callable[..., torch.Tensor]] = {
            "in parts": linear_ops._in_one_type,
            "concatenated": lambda p, w, b: torch.nn.functional.linear(torch.cat(p, -1), w, b),
        }
        leaves = [*parts, weight, bias]
        if not rows:
            wide = [t.detach().double().requires_grad_() for t in leaves]
            exact = both(ways["concatenated"], wide, upstream.double())
            error = check(*(both(way, leaves, upstream) for way in ways.values()), exact, "mix")
            print(f"mix: values and gradients within {error:.0e}", file=sys.stderr)
        if device == "cpu":
            rows.append({"case": "mix", "nodes": nodes, "method": "in parts", "error": error})
            continue
        moved = 4.0 * nodes * (3 * sum(MIX_PARTS) + 3 * MIX_OUT)
        for method, way in ways.items():
            run = partial(both, way, leaves, upstream)

            row = {
                "case": "mix", "nodes": nodes, "precision": "tf32", "method": method, "floor_ms": moved / rate * 1e3,
                "workspace_mb": workspace_mb(run),
                "taken": (nodes * sum(MIX_PARTS) >= linear_ops.MIN_MIXED_NUMBERS) == (method == "in parts"),
            }  # fmt: skip
            rows.append({**row, "launch": "eager", "both_ms": event_ms(run)})
            rows.append({**row, "launch": "replay", "both_ms": replay_ms(run)})
    return rows


def one(rows: Sequence[Row], case: str, method: str, precision: str, launch: str) -> Row | None:
    """The row with these values."""
    wanted = {"case": case, "method": method, "precision": precision, "launch": launch}
    return next((row for row in rows if all(row.get(key) == value for key, value in wanted.items())), None)


def targets(rows: Sequence[Row]) -> list[Row]:
    """The targets and the results of the cases that were run."""
    found: list[Row] = []

    def ratio(what: str, wanted: float, slow: tuple[str, ...], fast: tuple[str, ...]) -> None:
        a, b = one(rows, *slow), one(rows, *fast)
        if a and b:
            got = a["both_ms"] / b["both_ms"]
            found.append({"what": what, "wanted": f"{wanted:g}×", "got": f"{got:.2f}×", "reached": got >= wanted})

    def most(what: str, wanted: float, unit: str, row: Row | None, key: str) -> None:
        if row:
            got = row[key]
            found.append(
                {"what": what, "wanted": f"≤ {wanted:g} {unit}", "got": f"{got:.3g} {unit}", "reached": got <= wanted}
            )

    half = "bf16 autocast, x bf16"
    for precision, wanted in (("tf32", 2.1), (half, 2.5)):
        authors, ours = (("large", method, precision, "replay") for method in ("authors' arithmetic", "lrga"))
        ratio(f"large graph, {precision}: authors' arithmetic / ours, replayed", wanted, authors, ours)
    slow, fast = (one(rows, "large", "lrga", "tf32", launch) for launch in ("eager", "replay"))
    if slow and fast:
        most("large graph, tf32: eager / replayed", 1.2, "×", {"ratio": slow["both_ms"] / fast["both_ms"]}, "ratio")
    most("large graph, tf32: workspace", 640, "MB", fast, "workspace_mb")
    most("128 small graphs, replayed", 0.1, "ms", one(rows, "small", "lrga", "tf32", "replay"), "both_ms")
    line = [row for row in rows if row["case"] == "linear" and "ns_per_node" in row and row["nodes"] >= 10**6]
    if line:
        spread = max(r["ns_per_node"] for r in line) / min(r["ns_per_node"] for r in line)
        most("time per node, 10⁶ to 10⁷ nodes: largest / least", 1.2, "×", {"spread": spread}, "spread")
    for label, wanted in (("GCN", 20), ("GatedGCN", 8)):
        case = f"step LRGA + {label}"
        name = f"PATTERN step, LRGA + {label}: PyG, eager / ours, replayed"
        ratio(name, wanted, (case, "PyG", "tf32", "eager"), (case, "lrga", "tf32", "replay"))
    return found


def compare(rows: Sequence[Row]) -> None:
    """Adds to each row the baseline of its case and the speed-up over it."""
    baselines = {"large": "authors' arithmetic", "small": "padded LRGA", "mix": "concatenated"}
    for row in rows:
        method = baselines.get(row["case"], "PyG" if row["case"].startswith("step") else None)
        same = [r for r in rows if (r["case"], r["method"]) == (row["case"], method) and "both_ms" in r]
        if row["case"] == "mix":
            same = [r for r in same if r["nodes"] == row["nodes"]]
        launch = row.get("launch") if row["case"] == "mix" else "eager"
        eager = [r for r in same if r["precision"] == "tf32" and r["launch"] == launch]
        if eager and "both_ms" in row:
            baseline = f"{method}, {eager[0]['launch']}, tf32"
            row |= {"baseline": baseline, "ratio": eager[0]["both_ms"] / row["both_ms"]}


def measure(
    only: Sequence[str], say: Callable[[str], None], *, profile: bool = False
) -> tuple[list[Row], dict[str, Any]]:
    """Rows and settings of the record."""
    rates = {"memory": copy_rate(1024), "cache": copy_rate(8)}
    memory = rates["memory"]
    splits = pattern(GRAPHS, "cuda") if {"gcn", "gatedgcn"} & set(only) else {}
    makers: dict[str, Callable[[], list[Row]]] = {
        "large": lambda: large_case(memory, profile=profile),
        "small": lambda: small_case(memory),
        "linear": lambda: linear_case(memory),
        "gcn": lambda: step_case("gcn", rates, splits, profile=profile),
        "gatedgcn": lambda: step_case("gatedgcn", rates, splits, profile=profile),
        "mix": lambda: mix_case(memory),
    }
    rows: list[Row] = []
    for name in only:
        start = time.perf_counter()
        rows += makers[name]()
        torch.cuda.empty_cache()
        say(f"{name}: {time.perf_counter() - start:.0f} s")
    compare(rows)
    import triton

    return rows, {
        "torch_geometric": torch_geometric.__version__,
        "triton": triton.__version__,
        **{f"copy through {name}, TB/s": rate / 1e12 for name, rate in rates.items()},
        **(product_speeds() if "large" in only else {}),
        "mix_worth_it": linear_ops.MIN_MIXED_NUMBERS,
    }


def show(record: dict[str, Any]) -> None:
    print(f"{record['device']}, torch {record['torch']}")
    for name, value in record["settings"].items():
        print(f"{name}: {value:.4g}" if isinstance(value, float) else f"{name}: {value}")
    print(f"\n{'':20}{'':27}{'':23}{'fwd ms':>8}{'both ms':>9}{'floor':>8}{'MB':>8}{'faster':>8}")
    for r in record["rows"]:
        numbers = [(r.get("forward_ms"), 8, 3), (r.get("both_ms"), 9, 3), (r.get("floor_ms"), 8, 3)]
        numbers += [(r.get("workspace_mb"), 8, 0), (r.get("ratio"), 8, 1)]
        shown = "".join(" " * width if n is None else f"{n:>{width}.{digits}f}" for n, width, digits in numbers)
        size = f" {r['nodes']:,}" if r["case"] in ("linear", "mix") else ""
        print(f"{r['case'] + size:20.20}{r['method'] + ', ' + r['launch']:27.27}{r['precision']:23}{shown}")
    show_profiles(record)
    for target in targets(record["rows"]):
        verdict = "reached" if target["reached"] else "MISSED"
        print(f"{target['what']:50}{target['wanted']:>10}{target['got']:>10}  {verdict}")


CASES = ("large", "small", "linear", "gcn", "gatedgcn", "mix")


def main(arguments: Sequence[str] | None = None) -> None:
    parser = make_parser(__doc__)
    parser.add_argument("--only", nargs="+", choices=CASES, default=CASES, help="the cases to measure")
    parser.add_argument("--profile", action="store_true", help="list the kernels of the large graph and of the steps")
    options = parser.parse_args(arguments)
    need_device("cuda")
    start = time.perf_counter()
    say = lambda text: print(text, file=sys.stderr, flush=True)  # noqa: E731
    rows, settings = measure(options.only, say, profile=options.profile)
    settings["seconds"] = round(time.perf_counter() - start, 1)
    report("gpu", rows, show, options, device="cuda", settings=settings, profiles=take_profiles(rows))


if __name__ == "__main__":
    main()
