"""Packed sequences of different lengths: low-rank attention with ``cu_seqlens`` against padded attention, in one run.

    python benchmarks/packed.py [--device cuda] [--dtype bfloat16] [--out FILE] [--json] [--repeats 9]

Queries, keys and values of 8 heads of width 32 are given; projections are timed only for PyG's modules, which contain
them and are marked. Three cases, in full size on a GPU and a sixteenth of it on a CPU: sequences of
one length, lengths from 1 to 1,024, and one long among many short ones. First our values and gradients are checked
against the O(n²) definition in float64; then all methods are timed, forward and forward + backward, median of the
repeats. Padded methods are timed including padding and unpadding, which a batch of graphs needs.
"""

from collections.abc import Callable, Sequence
from typing import Any

import torch
import torch.nn.functional as F
from reporting import make_parser, report
from rich.console import Console
from rich.table import Table
from timing import at_least_one, need_device, relative, wall_ms
from torch import Tensor
from torch_geometric.utils import to_dense_batch

import lrga
from lrga.speed.peers import performer, sgformer

HEADS, WIDTH = 8, 32
SMALLER_ON_CPU = 16
MAX_SCORES = 4e9  # entries of all n × n matrices of a padded softmax, which would take 16 GB in float32
CASES: dict[str, list[int]] = {
    "equal": [512] * 128,
    "ragged": torch.randint(1, 1025, (128,), generator=torch.Generator().manual_seed(0)).tolist(),
    "skewed": [16_384] + [64] * 512,
}
DTYPES = {"float32": torch.float32, "bfloat16": torch.bfloat16, "float16": torch.float16}
Method = Callable[[Tensor, Tensor, Tensor, Tensor, Tensor], Tensor]


def lengths_of(case: str, device: str) -> list[int]:
    """The lengths of a case, smaller on a CPU."""
    smaller = SMALLER_ON_CPU if device == "cpu" else 1
    return [max(length // smaller, 1) for length in CASES[case]]


def inputs(lengths: Sequence[int], device: str, dtype: torch.dtype) -> tuple[list[Tensor], Tensor, Tensor]:
    """u, v, z ``[N, H, D]``, with nonnegative u and v; offsets; and the same as a batch vector."""
    generator = torch.Generator().manual_seed(1)
    counts = torch.tensor(lengths)
    rows = [torch.randn(int(counts.sum()), HEADS, WIDTH, generator=generator) for _ in range(3)]
    given = [rows[0].relu(), rows[1].relu(), rows[2]]
    offsets = torch.cat([counts.new_zeros(1), counts.cumsum(0)]).int()
    batch = torch.repeat_interleave(torch.arange(len(lengths)), counts)
    return [t.to(device, dtype).requires_grad_() for t in given], offsets.to(device), batch.to(device)


def ours(u: Tensor, v: Tensor, z: Tensor, offsets: Tensor, batch: Tensor) -> Tensor:
    del batch
    return lrga.low_rank_attention(u, v, z, cu_seqlens=offsets)


def padded(u: Tensor, v: Tensor, z: Tensor, offsets: Tensor, batch: Tensor) -> Tensor:
    """The same function over sequences padded to the longest."""
    counts = offsets.diff().clamp(min=1)
    (u, mask), (v, _), (z, _) = (to_dense_batch(t, batch) for t in (u, v, z))
    eta = (u.float().sum(1) * v.float().sum(1)).sum(-1) / counts[:, None] + 1e-6  # [G, H]
    u, v, z = (t.transpose(1, 2) for t in (u, v, z))  # [G, H, n, D]
    attended = u @ ((v.transpose(2, 3) @ z) / eta[:, :, None, None].to(z.dtype))
    return attended.transpose(1, 2)[mask]


def softmax(u: Tensor, v: Tensor, z: Tensor, offsets: Tensor, batch: Tensor) -> Tensor:
    """PyTorch's scaled_dot_product_attention with the padding masked."""
    del offsets
    (q, mask), (k, _), (z, _) = (to_dense_batch(t, batch) for t in (u, v, z))
    q, k, z = (t.transpose(1, 2) for t in (q, k, z))
    return F.scaled_dot_product_attention(q, k, z, attn_mask=mask[:, None, None]).transpose(1, 2)[mask]


def of_pyg(make: Callable[[], torch.nn.Module]) -> Method:
    """A linear attention of PyG, which includes the projections to queries, keys and values."""
    made: dict[tuple[torch.device, torch.dtype], torch.nn.Module] = {}

    def run(u: Tensor, v: Tensor, z: Tensor, offsets: Tensor, batch: Tensor) -> Tensor:
        del v, z, offsets
        key = (u.device, u.dtype)
        if key not in made:
            torch.manual_seed(2)
            made[key] = make().to(*key)
        return made[key](u.flatten(1), batch).unflatten(1, (HEADS, WIDTH))

    return run


METHODS: dict[str, Method] = {
    "lrga, packed": ours,
    "lrga, padded": padded,
    "SDPA, padded": softmax,
    "PyG Performer (with projections)": of_pyg(lambda: performer(HEADS * WIDTH, HEADS, WIDTH)),
    "PyG SGFormer (with projections)": of_pyg(lambda: sgformer(HEADS * WIDTH, HEADS * WIDTH)),
}


def gradients(out: Tensor, given: Sequence[Tensor]) -> list[Tensor]:
    weights = torch.linspace(-1, 1, out.numel(), device=out.device).view_as(out).to(out.dtype)
    return list(torch.autograd.grad(out, list(given), weights, allow_unused=True))


def check(case: str, device: str, dtype: torch.dtype) -> float:
    """The largest distance of our values and gradients from the definition, relative; a large one ends the script.

    The longest sequences are truncated, because the definition takes n² memory for each.
    """
    lengths = [min(length, 600) for length in lengths_of(case, device)[:40]]
    given, offsets, batch = inputs(lengths, device, dtype)
    exact = [t.detach().double().requires_grad_() for t in given]
    found, right = ours(*given, offsets, batch), lrga.low_rank_attention(*exact, cu_seqlens=offsets, backend="dense")
    pairs = [(found, right), *zip(gradients(found, given), gradients(right, exact), strict=True)]
    worst = max(relative(a.detach(), b.detach()) for a, b in pairs)
    if not worst <= (1e-3 if dtype == torch.float32 else 3e-2):  # TF32 may be on
        raise SystemExit(f"{case}: values differ by {worst:.1e} from the definition; no timing")
    return worst


def measure(method: str, case: str, device: str, dtype: torch.dtype, repeats: int) -> dict[str, Any]:
    lengths = lengths_of(case, device)
    row: dict[str, Any] = {"case": case, "method": method, "launch": "eager", "nodes": sum(lengths)}
    scores = HEADS * len(lengths) * max(lengths) ** 2
    if method == "SDPA, padded" and scores > MAX_SCORES:
        return row | {"skipped": f"{scores:.0e} scores"}
    if "SGFormer" in method and dtype != torch.float32:
        return row | {"skipped": "its sums are in float32"}
    given, offsets, batch = inputs(lengths, device, dtype)

    def forward() -> None:
        with torch.no_grad():
            METHODS[method](*given, offsets, batch)

    def both() -> None:
        gradients(METHODS[method](*given, offsets, batch), given)

    try:
        return row | {
            "forward_ms": wall_ms(forward, device, repeats=repeats),
            "both_ms": wall_ms(both, device, repeats=repeats),
        }
    except torch.OutOfMemoryError:
        return row | {"skipped": "out of memory"}


def run_all(device: str, dtype: str, repeats: int, progress: Callable[[str], None]) -> list[dict[str, Any]]:
    kind, rows = DTYPES[dtype], []
    for case in CASES:
        progress(f"checking our values: {case}")
        error = check(case, device, kind)
        for method in METHODS:
            progress(f"{case}: {method}")
            rows.append(measure(method, case, device, kind, repeats))
        here = [row for row in rows if row["case"] == case]
        here[0]["error"] = error
        for row in here:
            if "skipped" not in row and "skipped" not in here[0]:
                row |= {"baseline": here[0]["method"], "ratio": here[0]["both_ms"] / row["both_ms"]}
    return rows


def show(record: dict[str, Any]) -> None:
    console = Console(width=max(90, Console().width))
    worst = max(row["error"] for row in record["rows"] if "error" in row)
    console.print(f"{record['device']}, torch {record['torch']}, {record['precision']}, {HEADS} heads of width {WIDTH}")
    console.print(f"Our values and gradients are within {worst:.0e} of the O(n²) definition in float64.\n")
    for case in dict.fromkeys(row["case"] for row in record["rows"]):
        rows = [row for row in record["rows"] if row["case"] == case]
        table = Table(title=f"{case}, {rows[0]['nodes']:,} rows", title_justify="left")
        table.add_column("method")
        for column in ("forward ms", "fwd + bwd ms", "time / ours"):
            table.add_column(column, justify="right")
        for row in rows:
            if "skipped" in row:
                table.add_row(row["method"], "–", f"[dim]{row['skipped']}[/]", "")
            else:
                ratio = f"{1 / row['ratio']:.2f}" if "ratio" in row else "–"
                table.add_row(row["method"], f"{row['forward_ms']:.2f}", f"{row['both_ms']:.2f}", ratio)
        console.print(table)


def main(arguments: Sequence[str] | None = None) -> None:
    parser = make_parser(__doc__)
    parser.add_argument("--device", default="cpu", choices=["cpu", "cuda"])
    parser.add_argument("--dtype", default="float32", choices=list(DTYPES))
    parser.add_argument("--repeats", type=at_least_one, default=9)
    options = parser.parse_args(arguments)
    need_device(options.device)
    with Console(stderr=True).status("…") as status:
        rows = run_all(options.device, options.dtype, options.repeats, status.update)
    settings = {"threads": torch.get_num_threads(), "heads": HEADS, "width": WIDTH, "repeats": options.repeats}
    report("packed", rows, show, options, device=options.device, precision=options.dtype, settings=settings)


if __name__ == "__main__":
    main()
