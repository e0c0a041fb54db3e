"""The attention on a GPU: one large graph, many small graphs, and time over the number of nodes. Cases of gpu.py."""

from collections.abc import Callable, Iterable
from typing import Any

import torch
from passes import LARGE, SMALL, Pass, features, small_sizes, use_tf32
from timing import captured, event_ms, kernels_of, relative, replay_ms, workspace_mb
from torch import Tensor, nn

import lrga
from lrga.ops.attention.segments import Segments
from lrga.speed.peers import Authors, Padded, Softmax, performer, sgformer

Row = dict[str, Any]
# Whether float32 products may be TF32, whether autocast is on, the type of x.
PRECISIONS: dict[str, tuple[bool, bool, torch.dtype]] = {
    "float32": (False, False, torch.float32),
    "tf32": (True, False, torch.float32),
    "bf16 autocast": (True, True, torch.float32),
    "bf16 autocast, x bf16": (True, True, torch.bfloat16),
}
LINEAR = {"sizes": (100_000, 300_000, 1_000_000, 3_000_000, 10_000_000), "width": 64, "rank": 30}


def same_weights(module: nn.Module, other: nn.Module) -> nn.Module:
    """``other`` with the weights of ``module``, which has parameters of the same names."""
    other.load_state_dict(module.state_dict())
    return other


def floor_bytes(nodes: int, width: int, rank: int, size: int = 4, out_size: int | None = None) -> float:
    """Minimum bytes of forward + backward: x is read twice, the result written, its gradient read, that of x written.

    No kernel reaches it: η and VᵀZ are sums over all nodes, so U is read a second time or computed again.
    """
    return nodes * (3.0 * width * size + 2.0 * (2 * rank) * (out_size or size))


def check(found: list[Tensor], usual: list[Tensor], exact: list[Tensor], what: str) -> float:
    """The largest distance from float64 of the result and its gradients; an error if plain PyTorch is much closer.

    The possible accuracy depends on the precision: rounding switches some ReLUs, which changes gradients.
    """
    errors = [relative(a.detach(), b.detach()) for a, b in zip(found, exact, strict=True)]
    others = [relative(a.detach(), b.detach()) for a, b in zip(usual, exact, strict=True)]
    for number, (error, other) in enumerate(zip(errors, others, strict=True)):
        if not error <= 4 * other + 2e-5:
            name = "the result" if number == 0 else f"gradient {number}"
            raise SystemExit(f"{what}: {name} is wrong by {error:.1e} (PyTorch's operations: {other:.1e}); no timing")
    return max(errors)


def exact_pass(run: Pass, reference: nn.Module) -> list[Tensor]:
    """The same in float64 by ``reference``."""
    x = run.x.detach().double().requires_grad_()
    wide = Pass(same_weights(run.module, reference).to(x.device, torch.float64), x, run.arguments)
    wide.upstream = run.upstream.double()
    return [t.detach() for t in wide.both()]


def large_case(rate: float, *, device: str = "cuda", nodes: int = LARGE["nodes"], profile: bool = False) -> list[Row]:
    """One graph: ours, the authors' arithmetic and PyG's SGFormerAttention, in four precisions."""
    width, rank, rows = LARGE["width"], LARGE["rank"], []
    for precision, (tf32, autocast, dtype) in PRECISIONS.items():
        use_tf32(tf32)
        x = features(nodes, width, device, dtype)
        torch.manual_seed(2)
        ours = lrga.LowRankGlobalAttention(width, rank).to(device)
        authors = same_weights(ours, Authors(width, rank).to(device))
        runs = {"lrga": Pass(ours, x, autocast=autocast), "authors' arithmetic": Pass(authors, x, autocast=autocast)}
        runs["lrga"].upstream = runs["authors' arithmetic"].upstream.to(runs["lrga"].upstream.dtype)
        usual = [t.detach() for t in runs["authors' arithmetic"].both()]
        exact = exact_pass(runs["authors' arithmetic"], Authors(width, rank))
        error = check(runs["lrga"].both(), usual, exact, f"large, {precision}")
        del usual, exact
        floor = floor_bytes(nodes, width, rank, dtype.itemsize, 2 if autocast else 4) / rate * 1e3
        facts = {"case": "large", "nodes": nodes, "precision": precision, "floor_ms": floor}
        if device == "cpu":
            rows.append({**facts, "method": "lrga", "error": error})
            continue
        for method, run in runs.items():
            memory = workspace_mb(run.both)
            rows += _times(run, {**facts, "method": method, "workspace_mb": memory})
        rows[-len(runs) * 2]["error"] = error
        if profile and precision in ("tf32", "bf16 autocast"):
            rows[-len(runs) * 2 + 1]["profile"] = kernels_of(runs["lrga"].both)
        if precision == "tf32":
            rows += _peer(sgformer(width), x, "PyG SGFormer", facts)
        torch.cuda.empty_cache()
    return rows


def _times(run: Pass, facts: Row) -> list[Row]:
    """Two rows: launched by PyTorch, and replayed as a CUDA graph."""
    eager = {**facts, "launch": "eager", "forward_ms": event_ms(run.inference), "both_ms": event_ms(run.both)}
    replayed = {
        **facts,
        "launch": "replay",
        "forward_ms": event_ms(captured(run.inference)),
        "both_ms": event_ms(captured(run.both)),
    }
    return [eager, replayed]


def _peer(module: nn.Module, x: Tensor, method: str, facts: Row) -> list[Row]:
    batch = torch.zeros(len(x), dtype=torch.int64, device=x.device)
    run = Pass(module.to(x.device), x, [batch])
    memory = workspace_mb(run.both)
    times = {"forward_ms": event_ms(run.inference, repeats=7), "both_ms": event_ms(run.both, repeats=7)}
    return [{**facts, "method": method, "launch": "eager", "workspace_mb": memory, **times}]


def small_case(rate: float, *, device: str = "cuda", sizes: list[int] | None = None) -> list[Row]:
    """Many small graphs: ours replayed, and the alternatives launched by PyTorch."""
    width, rank, sizes = SMALL["width"], SMALL["rank"], sizes or small_sizes()
    counts = torch.tensor(sizes, device=device)
    batch = torch.repeat_interleave(torch.arange(len(sizes), device=device), counts)
    ptr = torch.nn.functional.pad(counts.cumsum(0), (1, 0))
    # Computed once, as a model does for all its layers.
    segments = Segments.from_ptr(ptr, batch)
    rows = []
    for precision in ("float32", "tf32", "bf16 autocast"):
        tf32, autocast, dtype = PRECISIONS[precision]
        use_tf32(tf32)
        x = features(len(batch), width, device, dtype)
        torch.manual_seed(2)
        ours = lrga.LowRankGlobalAttention(width, rank).to(device)
        run = Pass(ours, x, [segments], autocast=autocast)
        padded = Pass(same_weights(ours, Padded(width, rank).to(device)), x, [batch], autocast=autocast)
        padded.upstream = run.upstream.to(padded.upstream.dtype)
        error = check(run.both(), padded.both(), exact_pass(padded, Padded(width, rank)), f"small, {precision}")
        floor = floor_bytes(len(batch), width, rank, out_size=2 if autocast else 4) / rate * 1e3
        facts = {"case": "small", "nodes": len(batch), "precision": precision, "floor_ms": floor}
        if device == "cpu":
            rows.append({**facts, "method": "lrga", "error": error})
            continue
        mine = {**facts, "method": "lrga", "workspace_mb": workspace_mb(run.both)}
        eager = {"launch": "eager", "forward_ms": event_ms(run.inference), "both_ms": event_ms(run.both)}
        replayed = {"forward_ms": replay_ms(run.inference, inner=4), "both_ms": replay_ms(run.both, inner=4)}
        rows += [{**mine, **eager, "error": error}, {**mine, "launch": "replay", **replayed}]
        peers: dict[str, nn.Module] = {"padded LRGA": padded.module}
        if precision == "tf32":
            peers |= {"PyG Performer": performer(width), "MultiheadAttention": Softmax(width)}
        for method, module in peers.items():
            peer = Pass(module.to(device), x, [batch], autocast=autocast)
            times = {"launch": "eager", "forward_ms": event_ms(peer.inference), "both_ms": event_ms(peer.both)}
            rows.append({**facts, "method": method, "workspace_mb": workspace_mb(peer.both), **times})
    return rows


def linear_case(rate: float, *, device: str = "cuda", sizes: Iterable[int] = LINEAR["sizes"]) -> list[Row]:
    """Time and memory over the number of nodes, TF32, eager and under replay."""
    width, rank, rows = LINEAR["width"], LINEAR["rank"], []
    use_tf32(True)
    torch.manual_seed(2)
    module = lrga.LowRankGlobalAttention(width, rank).to(device)
    for nodes in sizes:
        run = Pass(module, features(nodes, width, device))
        if not rows:  # larger graphs use the same kernels
            authors = Pass(same_weights(module, Authors(width, rank).to(device)), run.x)
            authors.upstream = run.upstream
            error = check(run.both(), authors.both(), exact_pass(authors, Authors(width, rank)), "linear")
        floor = floor_bytes(nodes, width, rank) / rate * 1e3
        row: Row = {"case": "linear", "nodes": nodes, "precision": "tf32", "method": "lrga", "floor_ms": floor}
        if not rows:
            row["error"] = error
        if device != "cpu":
            row["workspace_mb"] = workspace_mb(run.both)
            rows.append({**row, "launch": "eager", "both_ms": event_ms(run.both)})
            row |= {"launch": "replay", "both_ms": replay_ms(run.both)}
            row["ns_per_node"] = row["both_ms"] * 1e6 / nodes
        rows.append(row)
    return rows


def product_speeds(nodes: int = LARGE["nodes"]) -> dict[str, float]:
    """TFLOP/s of the vendor's library on the three products of the large case, TF32, and their time together."""
    width, columns = LARGE["width"], 4 * LARGE["rank"]
    use_tf32(True)
    x, g = features(nodes, width, "cuda").detach(), features(nodes, columns, "cuda").detach()
    weight = torch.randn(columns, width, device="cuda")
    across = weight.t().contiguous()
    products: dict[str, Callable[[], Tensor]] = {
        "projection": lambda: torch.nn.functional.linear(x, weight),
        "gradient of x": lambda: g @ across.t(),
        "gradient of the weight": lambda: g.t() @ x,
    }
    times = {name: replay_ms(run) for name, run in products.items()}
    flop = 2.0 * nodes * width * columns
    speeds = {f"{name}, TFLOP/s": flop / (ms * 1e-3) / 1e12 for name, ms in times.items()}
    return {**speeds, "three products, ms": sum(times.values())}
