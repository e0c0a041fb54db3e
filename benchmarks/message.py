"""Sums over neighbours, GAT's sum and scores, and batch normalisation on a GPU, beside PyTorch's own operations.

    python benchmarks/message.py [--cases sum norm …] [--check] [--sweep] [--json] [--out FILE]

First every kernel's values and gradients are compared with the definition in float64; then both sides are captured as
CUDA graphs and replayed, forward and forward + backward, and the median counts. Beside stands the least time that the
bytes they must move could take, at the copying speed of this GPU measured in the same run: in its cache where the
features fit there (sums gather each row once for every edge), else through its memory. The edges are a batch of 64
graphs like PATTERN's (7,600 nodes, 389,000 edges), one node with a million edges, and a graph like ogbl-ddi; for GAT
also a batch twice as large (15,168 nodes, some 770,000 edges).

On a CPU with TRITON_INTERPRET=1 small shapes are checked and nothing is timed.
"""

import argparse
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch
from reporting import report
from timing import copy_rate, need_kernels, replay_ms
from torch import Tensor

from lrga.ops.gat import gpu as gat_gpu
from lrga.ops.gat.definition import attention_sum_reference
from lrga.ops.neighbors import gpu as neighbors_gpu
from lrga.ops.neighbors import reduce as message
from lrga.ops.neighbors.edges import EdgeLayout
from lrga.ops.norm import gpu as norm_ops
from lrga.ops.norm.definition import BatchNormState, batch_norm_reference
from lrga.version import __version__

Function = Callable[..., Tensor]
MIB = 2**20


@dataclass(frozen=True)
class Case:
    """One function both ways, with what it is given and the bytes that it must move."""

    name: str
    ours: Function
    plain: Function
    inputs: list[Tensor]
    forward_bytes: float
    backward_bytes: float
    in_cache: bool


def sbm_batch(graphs: int, nodes: int, neighbours: int, device: str) -> EdgeLayout:
    """Graphs of equal size in which every two nodes are joined with the same probability, both ways."""
    draw = torch.Generator().manual_seed(0)
    joined = torch.rand(graphs, nodes, nodes, generator=draw).triu(1) > 1 - neighbours / (nodes - 1)
    g, i, j = (joined | joined.transpose(1, 2)).nonzero().t()
    return EdgeLayout.from_edge_index(torch.stack([g * nodes + i, g * nodes + j]), graphs * nodes)[0].to(device)


def star(nodes: int, edges: int, device: str) -> EdgeLayout:
    """One node that all edges end in."""
    source = torch.randint(0, nodes, (edges,), generator=torch.Generator().manual_seed(0))
    return EdgeLayout.from_edge_index(torch.stack([source, torch.zeros_like(source)]), nodes)[0].to(device)


def sum_case(name: str, layout: EdgeLayout, width: int) -> Case:
    x = torch.randn(layout.num_nodes, width, device=layout.device)
    into, out_of = layout.degree_roots
    moved = 4.0 * (layout.num_edges + layout.num_nodes) * width + 8.0 * layout.num_edges
    return Case(
        name,
        lambda x: neighbors_gpu.sum_sources(x, layout, dst_scale=into, src_scale=out_of),
        lambda x: message.sum_sources_reference(x, layout, dst_scale=into, src_scale=out_of),
        [x],
        moved,
        moved,
        True,
    )


def edge_sum_case(layout: EdgeLayout, width: int) -> Case:
    values = torch.randn(layout.num_edges, width, device=layout.device)
    moved = 4.0 * (layout.num_edges + layout.num_nodes) * width
    return Case(
        f"sum of edges, width {width}",
        lambda v: neighbors_gpu.sum_edges(v, layout),
        lambda v: message.sum_edges_reference(v, layout.target, layout.num_nodes),
        [values],
        moved,
        moved,
        False,
    )


def max_case(layout: EdgeLayout, width: int) -> Case:
    x = torch.randn(layout.num_nodes, width, device=layout.device).relu()
    gathered = 4.0 * layout.num_edges * width + 8.0 * layout.num_edges
    own = 4.0 * layout.num_nodes * width
    return Case(
        f"max, width {width}",
        lambda x: neighbors_gpu.max_sources(x, layout),
        lambda x: message.max_sources_reference(x, layout),
        [x],
        gathered + 2 * own,
        2 * gathered + 4 * own,
        True,
    )


def attention_case(layout: EdgeLayout, heads: int, depth: int) -> Case:
    n, e, device = layout.num_nodes, layout.num_edges, layout.device
    inputs = [torch.randn(n, heads, depth, device=device), *torch.randn(2, n, heads, device=device).unbind()]
    edge_index = layout.edge_index
    gathered = 4.0 * e * heads * depth + 4.0 * e * heads + 8.0 * e
    return Case(
        f"GAT, {heads} heads of {depth}, {n:,} nodes",
        lambda x, s, t: gat_gpu.attention_sum(x, s, t, layout, 0.2),
        lambda x, s, t: attention_sum_reference(x, s, t, edge_index, negative_slope=0.2),
        inputs,
        gathered + 4.0 * n * heads * depth,
        gathered + 16.0 * e * heads + 12.0 * n * heads * depth,
        True,
    )


def scores_case(nodes: int, heads: int, depth: int, device: str) -> Case:
    """GAT's terms of the scores, added up so that there is one result."""
    inputs = [torch.randn(nodes, heads, depth, device=device), *torch.randn(2, heads, depth, device=device).unbind()]
    numbers = 4.0 * nodes * heads * depth
    return Case(
        f"GAT's scores, {heads} heads of {depth}",
        lambda x, a, b: torch.add(*gat_gpu.node_scores(x, a, b)),
        lambda x, a, b: (x * a).sum(-1) + (x * b).sum(-1),
        inputs,
        numbers,
        2 * numbers,
        numbers * 2 < 40 * MIB,
    )


def norm_case(rows: int, width: int, device: str, padding: int = 0, after: str = "relu") -> Case:
    """BatchNorm → ReLU or ELU → residual in training."""
    x, residual = torch.randn(2, rows, width, device=device).unbind()
    parameters = [torch.rand(width, device=device) + 0.5, torch.randn(width, device=device)]
    count = torch.tensor(rows - padding, device=device) if padding else None
    states: dict[Any, BatchNormState] = {}

    def run(function: Any, x: Tensor, residual: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
        key = (function, weight.dtype)
        if key not in states:  # the running statistics of each side
            mean, var = torch.zeros(2, width, device=device, dtype=weight.dtype).unbind()
            states[key] = BatchNormState(weight, bias, mean, var, torch.zeros((), dtype=torch.int64, device=device))
        state = replace(states[key], weight=weight, bias=bias)
        return function(x, state, training=True, count=count, after=after, residual=residual)

    return Case(
        f"norm, {rows:,} × {width}" + (", padded" if padding else "") + (", ELU" if after == "elu" else ""),
        lambda *inputs: run(norm_ops.batch_norm, *inputs),
        lambda *inputs: run(batch_norm_reference, *inputs),
        [x, residual, *parameters],
        16.0 * rows * width,
        20.0 * rows * width,
        rows * width * 12 < 40 * MIB,
    )


def cases(device: str, wanted: Sequence[str]) -> list[Case]:
    """The cases named, small ones on a CPU."""
    small = device == "cpu"
    pattern = sbm_batch(*((2, 8, 5) if small else (64, 119, 51)), device)

    def sums() -> list[Case]:
        return [sum_case(f"GCN sum, width {w}", pattern, w) for w in ((7,) if small else (60, 100, 172))]

    def known() -> list[Case]:
        return [sum_case("the same, 100, no long row", replace(pattern, longest=200), 7 if small else 100)]

    def skewed() -> list[Case]:
        return [
            sum_case("a node with 10⁶ edges, width 100", star(*((9, 50) if small else (10_000, 10**6)), device), 100)
        ]

    def ddi() -> list[Case]:
        return [sum_case("like ogbl-ddi, width 256", sbm_batch(1, *((9, 4) if small else (4267, 500)), device), 256)]

    def attentions() -> list[Case]:
        if small:
            return [attention_case(pattern, 2, 5), attention_case(pattern, 8, 3)]
        return [attention_case(pattern, 8, 19), attention_case(sbm_batch(96, 158, 51, device), 8, 22)]

    def norms() -> list[Case]:
        if small:
            return [norm_case(40, 5, device), norm_case(40, 5, device, 9), norm_case(40, 5, device, after="elu")]
        shapes = ((7_616, 100, device), (7_616, 100, device, 100), (450_000, 80, device))
        return [*(norm_case(*shape) for shape in shapes), norm_case(15_168, 176, device, after="elu")]

    makers: dict[str, Callable[[], list[Case]]] = {
        "sum": sums,
        "known": known,
        "star": skewed,
        "ddi": ddi,
        "edges": lambda: [edge_sum_case(pattern, 5 if small else 80)],
        "max": lambda: [max_case(pattern, 5 if small else 90)],
        "gat": attentions,
        "scores": lambda: [scores_case(40, 3, 5, device) if small else scores_case(15_168, 8, 22, device)],
        "norm": norms,
    }
    return [case for name in wanted for case in makers[name]()]


CASES = ("sum", "known", "star", "ddi", "edges", "max", "gat", "scores", "norm")


def relative(a: Tensor, b: Tensor) -> float:
    return float((a.double() - b).norm() / b.norm().clamp(min=1e-30))


def check(case: Case) -> float:
    """The largest error of the values and of all gradients against the definition in float64; stops if it is large."""
    mine = [t.detach().clone().requires_grad_() for t in case.inputs]
    exact = [t.detach().double().requires_grad_() for t in case.inputs]
    out, expected = case.ours(*mine), case.plain(*exact)
    upstream = torch.randn_like(out)
    grads = torch.autograd.grad(out, mine, upstream)
    wanted = torch.autograd.grad(expected, exact, upstream.double())
    error = max(relative(a.detach(), b.detach()) for a, b in zip((out, *grads), (expected, *wanted), strict=True))
    if not error < 1e-4:
        raise SystemExit(f"{case.name}: wrong by {error:.1e}; nothing is timed on wrong values")
    return error


def replayed_us(run: Callable[[], Any]) -> float:
    """Microseconds of one ``run`` when a captured graph of several is replayed, the median."""
    return 1e3 * replay_ms(run, inner=4)


def time_case(case: Case, speeds: dict[str, float]) -> dict[str, Any]:
    inputs = [t.detach().clone().requires_grad_() for t in case.inputs]
    with torch.no_grad():
        upstream = torch.randn_like(case.ours(*inputs))
    row: dict[str, Any] = {"case": case.name}
    for side, function in (("ours", case.ours), ("pytorch", case.plain)):

        def forward(function: Function = function) -> None:
            with torch.no_grad():
                function(*inputs)

        def both(function: Function = function) -> None:
            torch.autograd.grad(function(*inputs), inputs, upstream)

        row[f"{side}_forward_us"], row[f"{side}_both_us"] = replayed_us(forward), replayed_us(both)
    speed = speeds["cache" if case.in_cache else "memory"]
    row["floor_forward_us"] = case.forward_bytes / speed
    row["floor_both_us"] = (case.forward_bytes + case.backward_bytes) / speed
    row["floor_is_of"] = "cache" if case.in_cache else "memory"
    row["times_faster"] = row["pytorch_both_us"] / row["ours_both_us"]
    return row


def sweep() -> list[dict[str, Any]]:
    """The forward sum of the batch with other divisions of the work."""
    layout = replace(sbm_batch(64, 119, 51, "cuda"), longest=200)
    x = torch.randn(layout.num_nodes, 100, device="cuda")
    into, out_of = layout.degree_roots
    rows: list[dict[str, Any]] = []
    for nodes in (1, 2, 4, 8):
        for edges, block, warps in ((4, 128, 1), (8, 128, 1), (16, 128, 1), (8, 128, 2), (16, 128, 4), (16, 64, 1)):
            how = neighbors_gpu.Plan(nodes, edges, block, warps)

            def run(how: neighbors_gpu.Plan = how) -> Tensor:
                arguments = (layout.in_ptr, layout.source, layout.target, False, torch.float32, how)
                return neighbors_gpu.launch_sum(x, None, None, into, out_of, *arguments)

            rows.append({"plan": str(how), "us": replayed_us(run)})
    return sorted(rows, key=lambda row: row["us"]) + sweep_attention()


def sweep_attention() -> list[dict[str, Any]]:
    """GAT's sum, forward and backward, with other groups of heads and other numbers of edges at once."""
    case = attention_case(sbm_batch(96, 158, 51, "cuda"), 8, 22)
    inputs = [t.requires_grad_() for t in case.inputs]
    upstream = torch.randn_like(inputs[0])
    chosen = (gat_gpu.WIDEST, gat_gpu.NUMBERS)
    rows: list[dict[str, Any]] = []
    for widest, numbers in ((256, 16), (256, 32), (256, 64), (128, 16), (128, 32), (128, 64), (64, 32), (32, 32)):
        gat_gpu.WIDEST, gat_gpu.NUMBERS = widest, numbers

        def run() -> None:
            torch.autograd.grad(case.ours(*inputs), inputs, upstream)

        plan = f"GAT, heads together up to {widest} numbers, {numbers} numbers of a thread"
        rows.append({"plan": plan, "us": replayed_us(run)})
    gat_gpu.WIDEST, gat_gpu.NUMBERS = chosen
    return sorted(rows, key=lambda row: row["us"])


def show(results: dict[str, Any]) -> None:
    """The table, which wants 100 columns."""
    speeds = ", ".join(f"{name} {speed:.1f} TB/s" for name, speed in results["copy_speed_tb_s"].items())
    print(f"{results['device']}, torch {results['torch']}; copies: {speeds}")
    columns = f"{'floor':>7}{'PyTorch':>9}"
    print(f"{'µs, median under replay':34}{'forward':>9}{columns}{'both':>9}{columns}{'faster':>8}")
    for r in results["rows"]:
        forward = f"{r['ours_forward_us']:>9.1f}{r['floor_forward_us']:>7.1f}{r['pytorch_forward_us']:>9.1f}"
        both = f"{r['ours_both_us']:>9.1f}{r['floor_both_us']:>7.1f}{r['pytorch_both_us']:>9.1f}"
        print(f"{r['case']:34}{forward}{both}{r['times_faster']:>7.1f}x   error {r['error']:.0e}")
    for r in results.get("sweep", []):
        print(f"{r['us']:8.1f} µs  {r['plan']}")


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cases", nargs="+", choices=CASES, default=CASES, help="which to measure")
    parser.add_argument("--check", action="store_true", help="compare values and gradients and time nothing")
    parser.add_argument(
        "--sweep", action="store_true", help="try other divisions of the work for GCN's and GAT's sum, too"
    )
    parser.add_argument("--json", action="store_true", help="print JSON instead of a table")
    parser.add_argument("--out", type=Path, help="write the JSON there")
    options = parser.parse_args(arguments)
    device = "cuda" if torch.cuda.is_available() else "cpu"
    need_kernels(device)
    torch.manual_seed(0)
    chosen = cases(device, options.cases)
    rows = []
    for case in chosen:
        rows.append({"case": case.name, "error": check(case)})
        print(f"checked {case.name}: {rows[-1]['error']:.1e}", file=sys.stderr)
    if device == "cpu" or options.check:
        print("values and gradients agree; times are taken on a CUDA device only", file=sys.stderr)
        return
    speeds = {"cache": copy_rate(8) / 1e6, "memory": copy_rate(512) / 1e6}  # bytes a microsecond
    for row, case in zip(rows, chosen, strict=True):
        row |= time_case(case, speeds)
    results: dict[str, Any] = {
        "device": torch.cuda.get_device_name(),
        "lrga": __version__,
        "torch": torch.__version__,
        "copy_speed_tb_s": {name: speed / 1e6 for name, speed in speeds.items()},
        "rows": rows,
    }
    if options.sweep:
        results["sweep"] = sweep()
    report(results, show, out=options.out, as_json=options.json)


if __name__ == "__main__":
    main()
