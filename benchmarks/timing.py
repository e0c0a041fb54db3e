"""Shared by the benchmarks: requirements, replays of CUDA graphs, medians, speeds and memory."""

import argparse
import statistics
import time
from collections.abc import Callable, Iterable
from typing import Any

import torch
from torch import Tensor

from lrga.errors import DeviceError

MIB = 2**20


def need_device(device: str) -> None:
    """Ends the script with an error if ``device`` is a GPU and there is none."""
    if device != "cpu" and not torch.cuda.is_available():
        raise SystemExit(str(DeviceError("a CUDA GPU", "none that PyTorch sees", "run it on a machine with one")))


def need_kernels(device: str) -> None:
    """The same for scripts that launch Triton kernels: on a CPU they need its interpreter."""
    from lrga.ops._triton import HAS_TRITON, why_not_triton

    need_device(device)
    why, remedy = why_not_triton(torch.empty(0, device=device)), "install Triton and run it on a GPU that it supports"
    if why is not None and device == "cpu" and HAS_TRITON:
        why = "a CPU without Triton's interpreter"
        remedy = "run it on a machine with a GPU, or set TRITON_INTERPRET=1 for the interpreter, which is slow"
    if why is not None:
        raise SystemExit(str(DeviceError("a CUDA GPU that Triton's kernels run on", why, remedy)))


def at_least_one(text: str) -> int:
    """The type of options such as ``--repeats``: an integer of at least 1."""
    if not text.strip().isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"expected a whole number of at least 1, got {text!r}")
    return int(text)


def replay_ms(run: Callable[[], Any], repeats: int = 15, *, inner: int = 1) -> float:
    """Milliseconds of ``run`` in a replayed CUDA graph of ``inner`` runs, the median."""
    replay = captured(lambda: [run() for _ in range(inner)])
    return event_ms(replay, repeats=repeats) / inner


def captured(run: Callable[[], Any]) -> Callable[[], None]:
    """``run`` captured as a CUDA graph; calling the result replays it."""
    aside = torch.cuda.Stream()
    aside.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(aside):
        for _ in range(2):
            run()
    torch.cuda.current_stream().wait_stream(aside)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        run()
    return graph.replay


def event_ms(run: Callable[[], Any], *, repeats: int = 15, warm_ups: int = 3) -> float:
    """Milliseconds between two events of the GPU around ``run``, the median."""
    times = []
    for _ in range(warm_ups + repeats):
        begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        begin.record()
        run()
        end.record()
        end.synchronize()
        times.append(begin.elapsed_time(end))
    return statistics.median(times[warm_ups:])


def wall_ms(run: Callable[[], Any], device: str, *, repeats: int = 7, inner: int = 1, warm_ups: int = 1) -> float:
    """Milliseconds of wall time for ``run``, synchronising the GPU after every ``inner`` runs, the median."""
    times = []
    for _ in range(warm_ups + repeats):
        synchronize(device)
        start = time.perf_counter()
        for _ in range(inner):
            run()
        synchronize(device)
        times.append((time.perf_counter() - start) * 1e3 / inner)
    return statistics.median(times[warm_ups:])


def synchronize(device: str) -> None:
    if device != "cpu":
        torch.cuda.synchronize()


def copy_rate(megabytes: int) -> float:
    """Bytes per second read and written by a kernel that copies ``megabytes``.

    ``copy_`` is not used: in a CUDA graph it runs on the copy engine, at two thirds of a kernel's speed.
    """
    a = torch.randn(megabytes * MIB // 4, device="cuda")
    b = torch.empty_like(a)
    return 2 * a.numel() * 4 / (replay_ms(lambda: torch.neg(a, out=b), inner=20 if megabytes < 64 else 2) / 1e3)


def workspace_mb(run: Callable[[], Iterable[Tensor]]) -> float:
    """Peak megabytes (2²⁰) of ``run`` in addition to earlier memory and its results."""
    list(run())  # libraries allocate workspaces at the first call
    torch.cuda.synchronize()
    before = torch.cuda.memory_allocated()
    torch.cuda.reset_peak_memory_stats()
    kept = list(run())
    torch.cuda.synchronize()
    peak = torch.cuda.max_memory_allocated() - before
    returned = {tensor.untyped_storage().data_ptr(): tensor.untyped_storage().nbytes() for tensor in kept}
    return (peak - sum(returned.values())) / MIB


def relative(a: Tensor, b: Tensor) -> float:
    """The distance of a from b in the Euclidean norm, relative to the norm of b."""
    return float((a.double() - b.double()).norm() / b.double().norm().clamp(min=1e-30))


def kernels_of(run: Callable[[], Any], most: int = 15) -> list[dict[str, Any]]:
    """The kernels of one ``run``, longest first."""
    run()
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CUDA]) as recorded:
        run()
        torch.cuda.synchronize()
    events = sorted(recorded.key_averages(), key=lambda event: -event.self_device_time_total)
    return [
        {"kernel": event.key[:80], "calls": event.count, "us": round(event.self_device_time_total, 1)}
        for event in events[:most]
        if event.self_device_time_total > 0
    ]


def take_profiles(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Moves the results of ``kernels_of`` from the ``profile`` of rows to a flat list."""
    return [
        {"case": row["case"], **({"precision": row["precision"]} if "precision" in row else {}), **kernel}
        for row in rows
        for kernel in row.pop("profile", [])
    ]


def show_profiles(record: dict[str, Any]) -> None:
    """Prints the kernels of a record, longest first in each case."""
    for kernel in record.get("profiles", []):
        print(f"{kernel['case']:24.24}{kernel['us']:>10.1f} µs {kernel['calls']:>4} × {kernel['kernel'][:60]}")
