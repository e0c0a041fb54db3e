"""Time and memory of low-rank attention compared with its alternatives, in one run.

    python benchmarks/attention.py [--device cuda] [--json] [--repeats 9]

Three cases: a uniform batch (128 graphs of 40 to 190 nodes), a skewed one (one of 10,000 nodes and 200 of 20), and one
graph of 200,000 nodes; width 128, rank 32. First our values are checked against the O(n²) definition, graph by graph;
then each method's result in the batch is compared with its result for the graph alone; then all methods are timed,
forward and forward + backward, median of the repeats. On a CPU every measurement runs in its own process, and its
memory is the growth of that process's peak; on a GPU it is the peak of PyTorch's allocator.
"""

import contextlib
import json
import os
import resource
import signal
import statistics
import time
import traceback
from collections.abc import Callable, Sequence
from typing import Any

import torch
from reporting import make_parser, report
from rich.console import Console
from rich.table import Table
from timing import at_least_one, need_device
from torch import Tensor, nn

import lrga
from lrga.speed.peers import Authors, Padded, Softmax, performer, sgformer

WIDTH, RANK = 128, 32
CASES: dict[str, list[int]] = {
    "uniform": torch.randint(40, 191, (128,), generator=torch.Generator().manual_seed(0)).tolist(),
    "skewed": [10_000] + [20] * 200,
    "large": [200_000],
}
DESCRIPTIONS = {
    "uniform": "128 graphs of 40 to 190 nodes",
    "skewed": "one graph of 10,000 nodes and 200 of 20",
    "large": "one graph of 200,000 nodes",
}


METHODS: dict[str, Callable[[], nn.Module]] = {
    "lrga": lambda: lrga.LowRankGlobalAttention(WIDTH, RANK),
    "padded LRGA": lambda: Padded(WIDTH, RANK),
    "authors' arithmetic": lambda: Authors(WIDTH, RANK),
    "PyG Performer": lambda: performer(WIDTH),
    "PyG SGFormer": lambda: sgformer(WIDTH),
    "MultiheadAttention": lambda: Softmax(WIDTH),
}


def skip_reason(case: str, method: str) -> str | None:
    sizes = CASES[case]
    if method == "authors' arithmetic" and len(sizes) > 1:
        return "supports one graph only"
    scores = len(sizes) * max(sizes) ** 2
    if method == "MultiheadAttention" and scores > 1e9:
        return f"{scores:.0e} scores a head"
    return None


def inputs(case: str, device: str) -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(1)
    sizes = torch.tensor(CASES[case])
    batch = torch.repeat_interleave(torch.arange(len(sizes)), sizes)
    return torch.randn(len(batch), WIDTH, generator=generator).to(device), batch.to(device)


def relative(a: Tensor, b: Tensor) -> float:
    return ((a - b).norm() / b.norm()).item()


@torch.no_grad()
def check_values(device: str) -> dict[str, float]:
    """Compares our values with the O(n²) definition in float64, graph by graph; raises an error if they differ."""
    errors = {}
    for case in ("uniform", "skewed"):
        x, batch = inputs(case, device)
        torch.manual_seed(2)
        ours = METHODS["lrga"]().to(device)
        exact = lrga.LowRankGlobalAttention(WIDTH, RANK, backend="dense").to(device, torch.float64)
        exact.load_state_dict(ours.state_dict())
        together = ours(x, batch, len(CASES[case]))
        graphs = range(len(CASES[case]))
        errors[case] = max(relative(together[batch == g].double(), exact(x[batch == g].double())) for g in graphs)
        if errors[case] > 1e-5:
            raise SystemExit(f"{case}: values differ by {errors[case]:.1e} from the definition; no timing")
    return errors


@torch.no_grad()
def leak(method: str, device: str) -> float:
    """The largest difference between a graph's result in the uniform batch and alone."""
    x, batch = inputs("uniform", device)
    torch.manual_seed(2)
    module = METHODS[method]().to(device).eval()
    together = module(x, batch)
    graphs = range(len(CASES["uniform"]))
    return max(relative(together[batch == g], module(x[batch == g], batch[batch == g] * 0)) for g in graphs)


def measure(case: str, method: str, device: str, repeats: int) -> dict[str, float]:
    x, batch = inputs(case, device)
    torch.manual_seed(2)
    module = METHODS[method]().to(device)
    x.requires_grad_()
    weights = torch.randn_like(module(x[:4], batch[:4] * 0))[:1]

    def forward() -> None:
        with torch.no_grad():
            module(x, batch)

    def both() -> None:
        x.grad = None
        (module(x, batch) * weights).sum().backward()

    memory_mb(device)
    base = memory_mb(device)  # after resetting the peak: memory of inputs and parameters
    both()
    memory = memory_mb(device) - base
    return {
        "forward_ms": median_ms(forward, device, repeats),
        "both_ms": median_ms(both, device, repeats),
        "mb": memory,
    }


def median_ms(run: Callable[[], None], device: str, repeats: int) -> float:
    run()
    seconds = []
    for _ in range(repeats):
        synchronize(device)
        start = time.perf_counter()
        run()
        synchronize(device)
        seconds.append(time.perf_counter() - start)
        if sum(seconds) > 20:
            break
    return statistics.median(seconds) * 1e3


def synchronize(device: str) -> None:
    if device != "cpu":
        torch.cuda.synchronize()


def memory_mb(device: str) -> float:
    """The process's peak so far on a CPU; on a GPU the peak since the last call, which starts a new one."""
    if device == "cpu":
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    top = torch.cuda.max_memory_allocated() / 2**20
    torch.cuda.reset_peak_memory_stats()
    return top


class OutOfMemory(Exception):
    """A measurement ran out of memory."""


def in_own_process(work: Callable[[], Any]) -> Any:
    """The result of ``work``, run in a forked child process to measure its peak memory.

    Raises:
        OutOfMemory: The child ran out of memory, or the system killed it for that.
        SystemExit: The child failed in another way; with its error.
    """
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(read)
        with os.fdopen(write, "w") as pipe:
            json.dump(outcome(work), pipe)
        os._exit(0)
    os.close(write)
    with os.fdopen(read) as pipe:
        text = pipe.read()
    _, status = os.waitpid(child, 0)
    code = os.waitstatus_to_exitcode(status)
    if code == -signal.SIGKILL:
        raise OutOfMemory
    if code < 0:
        raise SystemExit(f"a measurement was ended by signal {-code} ({signal.strsignal(-code)})")
    found = json.loads(text)
    if found["out_of_memory"]:
        raise OutOfMemory
    if found["error"] is not None:
        raise SystemExit(f"a measurement failed:\n{found['error']}")
    return found["result"]


def outcome(work: Callable[[], Any]) -> dict[str, Any]:
    """The result of ``work``, or its error as text: a forked child must always end here."""
    found: dict[str, Any] = {"result": None, "error": None, "out_of_memory": False}
    try:
        return {**found, "result": work()}
    except SystemExit as stop:
        return {**found, "error": str(stop)}
    except Exception as error:
        return {**found, "error": traceback.format_exc(), "out_of_memory": is_out_of_memory(error)}


def in_this_process(work: Callable[[], Any]) -> Any:
    """The same on a GPU, with the memory of PyTorch's allocator."""
    try:
        return work()
    except Exception as error:
        if not is_out_of_memory(error):
            raise
    torch.cuda.empty_cache()
    raise OutOfMemory


def is_out_of_memory(error: Exception) -> bool:
    """PyTorch's allocator on a CPU raises a plain RuntimeError."""
    return isinstance(error, MemoryError | torch.OutOfMemoryError) or "DefaultCPUAllocator" in str(error)


def run_all(device: str, repeats: int, progress: Callable[[str], None]) -> list[dict[str, Any]]:
    # PyTorch's threads must not have started before a fork, so the parent computes nothing itself.
    isolated: Callable[[Callable[[], Any]], Any] = in_own_process if device == "cpu" else in_this_process
    progress("checking our values against the definition")
    try:
        errors = isolated(lambda: check_values(device))
    except OutOfMemory:
        raise SystemExit("our values could not be checked (out of memory); no timing") from None
    rows = []
    for case in CASES:
        for method in METHODS:
            reason = skip_reason(case, method)
            progress(f"{case}: {method}")
            result: dict[str, float] = {}
            if reason is None:
                try:
                    result = isolated(lambda c=case, m=method: measure(c, m, device, repeats))
                except OutOfMemory:
                    reason = "out of memory"
            row: dict[str, Any] = {"case": case, "method": method, **result}
            if reason is not None:
                row["skipped"] = reason
            if method == "lrga" and case in errors:
                row["error"] = errors[case]
            if case == "uniform" and method != "authors' arithmetic":
                progress(f"batch against single graph: {method}")
                with contextlib.suppress(OutOfMemory):
                    row["batch_error"] = isolated(lambda method=method: leak(method, device))
            rows.append(row)
    for row in rows:
        ours = next(r for r in rows if r["case"] == row["case"] and r["method"] == "lrga")
        if "both_ms" in row and "both_ms" in ours:
            row |= {"baseline": "lrga", "ratio": ours["both_ms"] / row["both_ms"]}
    return rows


def show(results: dict[str, Any]) -> None:
    console = Console(width=max(90, Console().width))
    worst = max(row["error"] for row in results["rows"] if "error" in row)
    console.print(f"{results['device']}, {results['settings']['threads']} threads, torch {results['torch']}")
    console.print(f"Our values are within {worst:.0e} of the O(n²) definition in float64.\n")
    for case, text in DESCRIPTIONS.items():
        table = Table(title=f"{text}, width {WIDTH}, rank {RANK}", title_justify="left")
        table.add_column("method")
        for column in ("forward ms", "fwd + bwd ms", "memory MB", "time / ours", "batch vs. alone"):
            table.add_column(column, justify="right")
        for row in (r for r in results["rows"] if r["case"] == case):
            shown = f"{row['batch_error']:.1e}" if "batch_error" in row else ""
            if "skipped" in row:
                table.add_row(row["method"], "–", f"[dim]{row['skipped']}[/]", "", "", shown)
            else:
                numbers = (f"{row[key]:.1f}" for key in ("forward_ms", "both_ms", "mb"))
                table.add_row(row["method"], *numbers, f"{1 / row['ratio']:.2f}" if "ratio" in row else "–", shown)
        console.print(table)


def main(arguments: Sequence[str] | None = None) -> None:
    parser = make_parser(__doc__)
    parser.add_argument("--device", default="cpu", choices=["cpu", "cuda"])
    parser.add_argument("--repeats", type=at_least_one, default=9)
    parser.add_argument("--threads", type=int, default=2, help="CPU threads")
    options = parser.parse_args(arguments)
    need_device(options.device)
    torch.set_num_threads(options.threads)
    console = Console(stderr=True)
    with console.status("…") as status:
        rows = run_all(options.device, options.repeats, status.update)
    settings = {"threads": options.threads, "width": WIDTH, "rank": RANK, "repeats": options.repeats}
    report("attention", rows, show, options, device=options.device, settings=settings)


if __name__ == "__main__":
    main()
