"""The edges of a GatedGCN layer on a GPU: our kernels beside the same formula in PyTorch's operations, in one run.

    python benchmarks/gated.py [--json] [--out FILE] [--dtype float32] [--profile] [--tune]

The case is a batch of PATTERN: 64 graphs of 119 nodes, 389,000 edges, 80 channels, one layer, in training. First our
values and gradients are compared with the formula in float64, those of float32 without TF32, where the library
multiplies, and with it, where our kernel does; then both are timed as replays of a CUDA graph, forward and forward +
backward, medians. Beside them stands the floor: the bytes that must travel, at the rate of a copy measured in the same
run. ``--profile`` lists the kernels of a step, ``--tune`` tries other divisions of the work.
"""

import argparse
import sys
from collections.abc import Callable, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import torch
import triton
from reporting import report
from timing import at_least_one, copy_rate, kernels_of, need_kernels, replay_ms
from torch import Tensor

from lrga.ops.gated import gpu as gated_gpu
from lrga.ops.gated.definition import gated_edges_fused, gated_edges_reference
from lrga.ops.neighbors.edges import EdgeLayout
from lrga.ops.norm.definition import BatchNormState
from lrga.version import __version__

GRAPHS, NODES = 64, 119
# Tensors of E × D that are read or written: gate arguments (2), gates and sums (1), new edges (3); backward: sums of
# the normalisation (2), by target (3), by source (2), gradients of the edges (3) and of the weight (2).
FORWARD_PASSES, BACKWARD_PASSES = 6, 12
DTYPES = {"float32": torch.float32, "bfloat16": torch.bfloat16, "float16": torch.float16}
TOLERANCE = {"float32": 2e-5, "tf32": 5e-3, "bfloat16": 5e-2, "float16": 1e-2}
# Other divisions of the work: of the kernels that walk through the edges, and of the products.
CHANGES: list[tuple[dict[str, Any], dict[str, Any]]] = [
    ({}, {}), ({"numbers": 128}, {}), ({"numbers": 512}, {}), ({"numbers": 512, "warps": 2}, {}),
    ({"programs": 1024}, {}), ({"programs": 4096}, {}), ({"flat": 512}, {}), ({"flat": 2048}, {}),
    ({"sum_programs": 384}, {}), ({"sum_numbers": 2048}, {}), ({"sum_numbers": 2048, "sum_warps": 8}, {}),
    ({}, {"rows": 32, "programs": 396}), ({}, {"rows": 32, "programs": 396, "stages": 3}),
    ({}, {"programs": 132, "stages": 3}), ({}, {"programs": 528}), ({}, {"rows": 128, "warps": 8, "programs": 132}),
]  # fmt: skip
NAMES = ["means", "edges", "d edge_attr", "d weight", "d gated", "d source", "d target", "d norm w.", "d norm b."]


def make_graph(graphs: int, nodes: int, edges: int, device: str) -> EdgeLayout:
    """Undirected random graphs with about so many edges (both directions counted)."""
    chance = edges / (graphs * nodes * (nodes - 1))
    upper = (torch.rand(graphs, nodes, nodes, device=device) < chance).triu(1)
    graph, a, b = (upper | upper.transpose(1, 2)).nonzero(as_tuple=True)
    return EdgeLayout.from_edge_index(torch.stack([graph * nodes + a, graph * nodes + b]), graphs * nodes)[0]


class Case:
    """Inputs of one layer and the gradients that reach its results."""

    def __init__(self, layout: EdgeLayout, channels: int, dtype: torch.dtype) -> None:
        device, self.layout = layout.device, layout
        shapes = [(layout.num_edges, channels), (channels, channels), (channels,)]
        shapes += [(layout.num_nodes, channels)] * 3
        drawn = [torch.randn(shape, device=device) for shape in shapes]
        drawn[1] /= channels**0.5
        self.tensors = [t.to(dtype).requires_grad_() for t in drawn]
        weight, bias, mean = (torch.randn(channels, device=device) for _ in range(3))
        var = torch.rand(channels, device=device) + 0.5
        self.norm = BatchNormState(weight.requires_grad_(), bias.requires_grad_(), mean, var, None, 0.1, 1e-5)
        with torch.no_grad():
            outputs = gated_edges_reference(*self.tensors, layout, norm=self.norm)
        self.upstream = [torch.randn_like(out) for out in outputs]

    def double(self) -> "Case":
        """The same in float64."""
        other = object.__new__(Case)
        other.layout = self.layout
        other.tensors = [t.detach().double().requires_grad_() for t in self.tensors]
        parts = {name: getattr(self.norm, name).detach().double() for name in ("mean", "var")}
        leaves = {name: getattr(self.norm, name).detach().double().requires_grad_() for name in ("weight", "bias")}
        other.norm = replace(self.norm, **parts, **leaves)
        other.upstream = [u.double() for u in self.upstream]
        return other

    def forward(self, function: Callable[..., Any]) -> tuple[Tensor, Tensor]:
        return function(*self.tensors, self.layout, norm=self.norm)

    def both(self, function: Callable[..., Any]) -> list[Tensor]:
        outputs = self.forward(function)
        # Not the bias of C: a normalisation cancels what reaches it through the edges, and noise is left.
        leaves = [self.tensors[0], self.tensors[1], *self.tensors[3:], self.norm.weight, self.norm.bias]
        return [*outputs, *torch.autograd.grad(outputs, leaves, self.upstream)]


def check(case: Case, tolerance: float) -> dict[str, float]:
    """Relative distance of each result from float64; raises unless all are small."""
    found, exact = case.both(gated_edges_fused), case.double().both(gated_edges_reference)
    errors = {}
    for name, a, b in zip(NAMES, found, exact, strict=True):
        errors[name] = float((a.detach().double() - b.detach()).norm() / b.detach().norm())
        limit = tolerance if "d " not in name else max(4 * tolerance, 2e-3)  # roundings open and close some ReLUs
        if not errors[name] <= limit:
            raise SystemExit(f"{name} is wrong by {errors[name]:.1e}; nothing is timed on wrong values")
    return errors


def times_of(case: Case, function: Callable[..., Any], repeats: int) -> dict[str, float]:
    def forward() -> None:
        with torch.no_grad():
            case.forward(function)

    return {
        "forward_ms": replay_ms(forward, repeats),
        "both_ms": replay_ms(lambda: case.both(function), repeats),
    }


def tune(case: Case, repeats: int) -> list[dict[str, Any]]:
    """Times with one number of the division of the work changed at a time."""
    usual, tiles = gated_gpu.tiling, gated_gpu.product_tiles
    rows = []
    for change, of_map in CHANGES:
        gated_gpu.tiling, gated_gpu.product_tiles = replace(usual, **change), replace(tiles, **of_map)
        both = {**asdict(gated_gpu.tiling), "map": asdict(gated_gpu.product_tiles)}
        rows.append({**both, **times_of(case, gated_edges_fused, repeats)})
        print({**change, **of_map}, rows[-1]["forward_ms"], rows[-1]["both_ms"], file=sys.stderr, flush=True)
    gated_gpu.tiling, gated_gpu.product_tiles = usual, tiles
    return rows


def measure(options: argparse.Namespace) -> dict[str, Any]:
    torch.manual_seed(0)
    torch.backends.cuda.matmul.allow_tf32 = False
    layout = make_graph(GRAPHS, NODES, options.edges, "cuda")
    case = Case(layout, options.channels, DTYPES[options.dtype])
    errors = check(case, TOLERANCE[options.dtype])
    torch.backends.cuda.matmul.allow_tf32 = True  # as it is timed
    in_tf32 = check(case, TOLERANCE["tf32"]) if options.dtype == "float32" else {}
    rate = copy_rate(1024)
    one_pass = layout.num_edges * options.channels * case.tensors[0].element_size() / rate * 1e3
    ours, plain = (times_of(case, f, options.repeats) for f in (gated_edges_fused, gated_edges_reference))
    record = {
        "lrga": __version__,
        "torch": torch.__version__,
        "triton": triton.__version__,
        "device": torch.cuda.get_device_name(),
        "dtype": options.dtype,
        "tf32": True,
        "nodes": layout.num_nodes,
        "edges": layout.num_edges,
        "channels": options.channels,
        "error_against_float64": errors,
        "error_in_tf32": in_tf32,
        "copy_gb_per_s": round(rate / 1e9),
        "floor": {
            "forward_ms": FORWARD_PASSES * one_pass,
            "both_ms": (FORWARD_PASSES + BACKWARD_PASSES) * one_pass,
        },
        "fused": ours,
        "pytorch": plain,
        "times_faster": {key: plain[key] / ours[key] for key in ours},
    }
    if options.profile:
        record["profile"] = kernels_of(lambda: case.both(gated_edges_fused))
    if options.tune:
        record["tune"] = tune(case, options.repeats)
    return record


def show(record: dict[str, Any]) -> None:
    print(f"{record['device']}, torch {record['torch']}, {record['dtype']}, TF32 products")
    print(f"{record['nodes']:,} nodes, {record['edges']:,} edges, {record['channels']} channels")
    print(f"errors against float64: at most {max(record['error_against_float64'].values()):.1e}")
    if record["error_in_tf32"]:
        print(f"in TF32: at most {max(record['error_in_tf32'].values()):.1e}")
    print(f"copy: {record['copy_gb_per_s']:,} GB/s\n")
    print(f"{'':26}{'forward ms':>12}{'fwd + bwd ms':>14}")
    for name, key in (("memory floor", "floor"), ("fused kernels", "fused"), ("PyTorch's operations", "pytorch")):
        print(f"{name:26}{record[key]['forward_ms']:>12.3f}{record[key]['both_ms']:>14.3f}")
    print(f"{'times faster':26}{record['times_faster']['forward_ms']:>12.1f}{record['times_faster']['both_ms']:>14.1f}")
    for row in record.get("profile", []):
        print(f"{row['us']:>10.1f} us {row['calls']:>3}x {row['kernel']}")


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--edges", type=int, default=389_000)
    parser.add_argument("--channels", type=int, default=80)
    parser.add_argument("--dtype", choices=list(DTYPES), default="float32")
    parser.add_argument("--repeats", type=at_least_one, default=20)
    parser.add_argument("--profile", action="store_true", help="list the kernels of a step")
    parser.add_argument("--tune", action="store_true", help="try other divisions of the work (a minute)")
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.add_argument("--out", type=Path, help="write the record as JSON")
    options = parser.parse_args(arguments)
    need_kernels("cuda")
    record = measure(options)
    report(record, show, out=options.out, as_json=options.json)


if __name__ == "__main__":
    main()
