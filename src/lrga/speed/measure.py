"""Speed and memory of low-rank attention compared with alternatives, on this machine.

Values are checked first: ours are compared with the O(n²) definition in float64, graph by graph, and for every method
the result for a graph in a batch is compared with the result for the graph alone. Times are medians of forward +
backward. Memory is what a method keeps for the backward pass, without input and parameters: it grows with the batch and
is the same on every machine.
"""

import statistics
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from typing import Any

import torch
from torch import Tensor, nn

from lrga.checks import check_count
from lrga.errors import NonFiniteError, OptionError
from lrga.nn.attention import LowRankGlobalAttention
from lrga.speed.peers import Authors, Padded, Softmax, performer, sgformer
from lrga.speed.record import conditions, device_name, make_record
from lrga.training.determinism import choose_device

WIDTH, RANK = 64, 30
TOLERANCE = 1e-4
MAX_SCORES = 2e7  # limit for quadratic methods: more take too much time and memory
SECONDS = 0.5  # time for one measurement
CASES: dict[str, Sequence[int]] = {
    "24 graphs of 40 to 190 nodes": torch.randint(40, 191, (24,), generator=torch.Generator().manual_seed(0)).tolist(),
    "one graph of 500 nodes and 40 of 20": [500] + [20] * 40,
    "one graph of 20,000 nodes": [20_000],
}
OURS = "lrga"
METHODS: dict[str, Callable[[int, int], nn.Module]] = {  # arguments: width and rank
    OURS: lambda width, rank: LowRankGlobalAttention(width, rank),
    "lrga, O(n²) definition": lambda width, rank: LowRankGlobalAttention(width, rank, backend="dense"),
    "padded LRGA": Padded,
    "authors' arithmetic": Authors,
    "PyG Performer": lambda width, _: performer(width, _heads(width)),
    "PyG SGFormer": lambda width, _: sgformer(width, width),
    "MultiheadAttention": lambda width, _: Softmax(width, _heads(width)),
}


def _heads(width: int) -> int:
    """Four heads if the width is divisible by four, else one."""
    return 4 if width % 4 == 0 else 1


@dataclass(frozen=True, kw_only=True)
class SpeedRow:
    """Measurement of one method on one batch.

    Attributes:
        case: The batch.
        method: Which attention.
        forward_ms: Median time of the forward pass.
        both_ms: Median time of forward + backward.
        kept_mb: Megabytes (2²⁰ bytes) kept for the backward pass.
        alone: Difference between the result of a small graph in this batch and its result alone.
        skipped: Why it was not measured.
    """

    case: str
    method: str
    forward_ms: float | None = None
    both_ms: float | None = None
    kept_mb: float | None = None
    alone: float | None = None
    skipped: str | None = None


@dataclass(frozen=True, kw_only=True)
class SpeedResult:
    """Result of :func:`measure_speed`."""

    device: str
    threads: int
    width: int
    rank: int
    error: float
    rows: tuple[SpeedRow, ...]
    started: dict[str, Any]

    def times_ours(self, row: SpeedRow) -> float | None:
        """The time of a row divided by ours on the same batch."""
        ours = next((own.both_ms for own in self.rows if (own.case, own.method) == (row.case, OURS)), None)
        return None if row.both_ms is None or not ours else row.both_ms / ours

    def to_json(self) -> dict[str, Any]:
        """The record of the benchmark, see :mod:`lrga.speed.record`."""
        rows = []
        for row in self.rows:
            known = {key: value for key, value in asdict(row).items() if value is not None}
            ratio = {} if (times := self.times_ours(row)) is None else {"baseline": OURS, "ratio": 1 / times}
            rows.append({**known, **ratio, "launch": "eager"})
        settings = {"threads": self.threads, "width": self.width, "rank": self.rank, "error": self.error}
        return make_record(
            "bench", rows, device=self.device, precision="float32", settings=settings, started=self.started
        )


def measure_speed(
    device: str = "auto",
    *,
    width: int = WIDTH,
    rank: int = RANK,
    threads: int | None = None,
    cases: dict[str, Sequence[int]] | None = None,
    seconds: float | None = None,
    progress: Callable[[str, int, int | None], None] | None = None,
) -> SpeedResult:
    """Measures every method on every case.

    Args:
        device: ``"auto"``, ``"cpu"``, ``"cuda"`` or ``"cuda:N"``.
        width: Channels of the nodes.
        rank: Rank of the attention.
        threads: Number of CPU threads; by default PyTorch's.
        cases: Name → number of nodes of each graph; by default :data:`CASES`.
        seconds: Approximate time of one measurement.
        progress: Called with a name, the number of finished measurements and the total.

    Example:
        >>> result = measure_speed("cpu", cases={"two": [5, 9]}, seconds=0.01)
        >>> result.rows[0].method, result.times_ours(result.rows[0]), result.error < 1e-5
        ('lrga', 1.0, True)
    """
    check_count("width", width, minimum=1)
    check_count("rank", rank, minimum=1)
    cases = CASES if cases is None else cases
    for case, sizes in cases.items():
        if not sizes or min(sizes) < 1:
            got = str(list(sizes))
            raise OptionError(f"graphs of at least one node in {case!r}", got, "give the size of each graph")
    place, started = choose_device(device), conditions()
    with cpu_threads(threads) as used:
        error, rows = _measure(cases, (width, rank), place, seconds or SECONDS, progress)
    return SpeedResult(
        device=device_name(str(place)), threads=used, width=width, rank=rank, error=error, rows=tuple(rows),
        started=started,
    )  # fmt: skip


@contextmanager
def cpu_threads(count: int | None) -> Iterator[int]:
    """Sets PyTorch's number of threads inside the block; ``None`` does not change it."""
    before = torch.get_num_threads()
    if count is not None:
        check_count("threads", count, minimum=1)
        torch.set_num_threads(count)
    try:
        yield torch.get_num_threads()
    finally:
        torch.set_num_threads(before)


def _measure(
    cases: Mapping[str, Sequence[int]],
    shape: tuple[int, int],
    device: torch.device,
    seconds: float,
    progress: Callable[[str, int, int | None], None] | None,
) -> tuple[float, list[SpeedRow]]:
    error = max((_error(sizes, shape, device) for sizes in cases.values()), default=0.0)
    if not error <= TOLERANCE:
        raise NonFiniteError("values within 1e-4 of the definition", f"{error:.1e}", "report this; nothing was timed")
    rows: list[SpeedRow] = []
    for case, sizes in cases.items():
        for method in METHODS:
            if progress is not None:
                progress("measuring", len(rows), len(cases) * len(METHODS))
            rows.append(measure_method(case, sizes, method, device, shape=shape, seconds=seconds))
    return error, rows


def measure_method(
    case: str,
    sizes: Sequence[int],
    method: str,
    device: torch.device,
    *,
    shape: tuple[int, int],
    seconds: float,
) -> SpeedRow:
    """Measures one method on one batch; ``shape`` is width and rank."""
    if (reason := skip_reason(sizes, method)) is not None:
        return SpeedRow(case=case, method=method, skipped=reason)
    x, batch = _inputs(sizes, shape[0], device)
    torch.manual_seed(2)
    module = METHODS[method](*shape).to(device)
    x.requires_grad_()
    upstream = torch.randn_like(module(x, batch).detach())

    def forward() -> None:
        with torch.no_grad():
            module(x, batch)

    def both() -> None:
        x.grad = None
        module(x, batch).backward(upstream)

    kept = kept_mb(lambda: module(x, batch), given=[x, batch, *module.parameters()])
    return SpeedRow(
        case=case,
        method=method,
        forward_ms=_median_ms(forward, device, seconds / 3),
        both_ms=_median_ms(both, device, seconds),
        kept_mb=kept,
        alone=_alone(module.eval(), x.detach(), batch, sizes),
    )


def skip_reason(sizes: Sequence[int], method: str) -> str | None:
    """Why a method is not measured on graphs of these sizes; ``None`` if it is.

    Example:
        >>> skip_reason([3, 4], "authors' arithmetic")
        'supports one graph only'
        >>> skip_reason([50_000], "MultiheadAttention")
        'too large: 2.5e+09 scores'
    """
    if method == "authors' arithmetic" and len(sizes) > 1:
        return "supports one graph only"
    quadratic = {"MultiheadAttention": len(sizes) * max(sizes) ** 2, "lrga, O(n²) definition": sum(sizes) ** 2}
    scores = quadratic.get(method, 0)
    return f"too large: {scores:.1e} scores" if scores > MAX_SCORES else None


def kept_mb(forward: Callable[[], Tensor], given: Sequence[Tensor] = ()) -> float:
    """Megabytes that a forward pass keeps for the backward pass, beyond the tensors ``given``.

    Example:
        >>> x = torch.zeros(2**18, requires_grad=True)
        >>> kept_mb(lambda: x.exp().sum())  # the exponential is its own derivative
        1.0
    """
    known = {tensor.untyped_storage().data_ptr() for tensor in given}
    kept: dict[int, int] = {}

    def note(tensor: Tensor) -> Tensor:
        storage = tensor.untyped_storage()
        if storage.data_ptr() not in known:
            kept[storage.data_ptr()] = storage.nbytes()
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(note, lambda tensor: tensor):
        out = forward()
    del out
    return sum(kept.values()) / 2**20


def _inputs(sizes: Sequence[int], width: int, device: torch.device) -> tuple[Tensor, Tensor]:
    counts = torch.tensor(sizes)
    batch = torch.repeat_interleave(torch.arange(len(counts)), counts)
    x = torch.randn(len(batch), width, generator=torch.Generator().manual_seed(1))
    return x.to(device), batch.to(device)


@torch.no_grad()
def _error(sizes: Sequence[int], shape: tuple[int, int], device: torch.device) -> float:
    """Compares our values with the O(n²) definition in float64, graph by graph, if its matrices fit into memory."""
    x, batch = _inputs(sizes, shape[0], device)
    torch.manual_seed(2)
    ours = LowRankGlobalAttention(*shape).to(device)
    exact = LowRankGlobalAttention(*shape, backend="dense").to(device, torch.float64)
    exact.load_state_dict(ours.state_dict())
    parts = zip(ours(x, batch).split(list(sizes)), x.double().split(list(sizes)), strict=True)
    small = [(found, own) for found, own in parts if len(own) ** 2 <= MAX_SCORES / 4]
    return max((_relative(found.double(), exact(own)) for found, own in small), default=0.0)


@torch.no_grad()
def _alone(module: nn.Module, x: Tensor, batch: Tensor, sizes: Sequence[int]) -> float | None:
    """Compares the result of the smallest graph in the batch with its result alone."""
    if len(sizes) == 1:
        return None
    graph = min(range(len(sizes)), key=lambda g: sizes[g])
    own = batch == graph
    return _relative(module(x, batch)[own], module(x[own], batch[own] * 0))


def _relative(a: Tensor, b: Tensor) -> float:
    return float((a - b).norm() / b.norm().clamp(min=1e-30))


def _median_ms(run: Callable[[], None], device: torch.device, seconds: float) -> float:
    """Repeats until the time is up, at least once; the first run is not counted."""
    synchronize = torch.cuda.synchronize if device.type == "cuda" else lambda _: None
    run()
    times: list[float] = []
    while not times or (sum(times) < seconds and len(times) < 100):
        synchronize(device)
        start = time.perf_counter()
        run()
        synchronize(device)
        times.append(time.perf_counter() - start)
    return statistics.median(times) * 1e3
