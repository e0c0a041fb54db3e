r"""Differentiable sums over all ranks and exchanges between them; every byte is counted.

The loss of a step is the sum of the losses of the ranks, :math:`L = \sum_r L_r`. The gradient of a sum over ranks is
therefore the sum of the gradients on all ranks, and the gradient of an exchange is the reverse exchange.

Letters: W ranks, D channels.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor
from torch.autograd import Function

Group = dist.ProcessGroup | None


@dataclass
class Traffic:
    """Bytes that this rank sends to others, by purpose (``"halo"``, ``"attention"``, ``"norm"``, ``"gradients"``, …).

    An all-reduce of b bytes counts as 2 b (W - 1) / W, the traffic of a ring; an all-gather as b (W - 1); an all-to-all
    as the bytes for other ranks. ``payload`` is the size of the arguments, independent of the number of ranks.

    Example:
        >>> traffic = Traffic()
        >>> traffic.add("halo", payload=800, wire=600)
        >>> traffic.wire, traffic.total
        ({'halo': 600}, 600)
    """

    wire: dict[str, int] = field(default_factory=dict)
    payload: dict[str, int] = field(default_factory=dict)
    calls: dict[str, int] = field(default_factory=dict)

    def add(self, purpose: str, *, payload: int, wire: int) -> None:
        """Counts one more collective."""
        for counts, value in ((self.wire, wire), (self.payload, payload), (self.calls, 1)):
            counts[purpose] = counts.get(purpose, 0) + value

    @property
    def total(self) -> int:
        """All bytes sent."""
        return sum(self.wire.values())

    def __str__(self) -> str:
        parts = [f"{name} {self.wire[name]:,} B in {self.calls[name]} calls" for name in sorted(self.wire)]
        return f"sent {self.total:,} B: " + (", ".join(parts) or "nothing")


_counter: ContextVar[Traffic | None] = ContextVar("traffic", default=None)


@contextmanager
def count_traffic() -> Iterator[Traffic]:
    """Counts the bytes that this rank sends inside the block, including later backward passes through it.

    Example:
        >>> with count_traffic() as traffic:
        ...     pass
        >>> print(traffic)
        sent 0 B: nothing
    """
    traffic = Traffic()
    token = _counter.set(traffic)
    try:
        yield traffic
    finally:
        _counter.reset(token)


def world_size(group: Group = None) -> int:
    """Number of ranks; 1 without a process group."""
    return dist.get_world_size(group) if dist.is_available() and dist.is_initialized() else 1


def rank_of(group: Group = None) -> int:
    """Rank of this process; 0 without a process group."""
    return dist.get_rank(group) if dist.is_available() and dist.is_initialized() else 0


def reduce_(tensor: Tensor, purpose: str, group: Group = None, traffic: Traffic | None = None) -> Tensor:
    """Sums ``tensor`` over all ranks in place; not differentiable."""
    ranks = world_size(group)
    if ranks > 1:
        size = tensor.numel() * tensor.element_size()
        _count(purpose, size, 2 * size * (ranks - 1) // ranks, traffic)
        sent = _within_reach(tensor, group)
        dist.all_reduce(sent, group=group)
        if sent is not tensor:
            tensor.copy_(sent)
    return tensor


def gather_rows(rows: Tensor, purpose: str, group: Group = None) -> Tensor:
    """Stacks the tensors ``[…]`` of all ranks, which must have one shape, to ``[W, …]``; not differentiable."""
    ranks = world_size(group)
    if ranks == 1:
        return rows.unsqueeze(0)
    rows = rows.contiguous()
    size = rows.numel() * rows.element_size()
    _count(purpose, size, size * (ranks - 1), None)
    sent = _within_reach(rows, group)
    parts = [torch.empty_like(sent) for _ in range(ranks)]
    dist.all_gather(parts, sent, group=group)
    return torch.stack(parts).to(rows.device)


def gather_ragged(rows: Tensor, purpose: str = "output", group: Group = None) -> Tensor:
    """Concatenates the rows of all ranks; their numbers may differ; not differentiable."""
    if world_size(group) == 1:
        return rows
    counts = gather_rows(torch.tensor([rows.size(0)], device=rows.device), purpose, group).flatten().tolist()
    padded = rows.new_zeros(max(counts), *rows.shape[1:])
    padded[: rows.size(0)] = rows
    together = gather_rows(padded, purpose, group)
    return torch.cat([together[rank, :count] for rank, count in enumerate(counts)])


def all_reduce_sum(x: Tensor, *, purpose: str = "sum", group: Group = None) -> Tensor:
    """The sum of ``x`` over all ranks, on every rank; the gradient is the sum of the ranks' gradients.

    Args:
        x: A tensor of the same shape on all ranks.
        purpose: Name under which the bytes are counted.
        group: Process group, by default all ranks.

    Example:
        >>> all_reduce_sum(torch.ones(2))  # without a process group there is one rank
        tensor([1., 1.])
    """
    return x if world_size(group) == 1 else _AllReduce.apply(x, purpose, group, _counter.get())


def exchange(rows: Tensor, send: Sequence[int], receive: Sequence[int], purpose: str, group: Group = None) -> Tensor:
    """Sends rows to each rank and returns the rows received from each rank (an all-to-all); differentiable.

    Args:
        rows: ``[sum(send), …]``, in the order of the ranks that receive them.
        send: Number of rows for each rank.
        receive: Number of rows from each rank.
        purpose: Name under which the bytes are counted.
        group: Process group.
    """
    return _Exchange.apply(rows, tuple(send), tuple(receive), purpose, group, _counter.get())


def _within_reach(tensor: Tensor, group: Group) -> Tensor:
    """The tensor, or a copy in main memory if it is on a GPU and the backend is gloo (several ranks on one GPU)."""
    return tensor.cpu() if tensor.is_cuda and dist.get_backend(group) == "gloo" else tensor


def _count(purpose: str, payload: int, wire: int, traffic: Traffic | None) -> None:
    traffic = traffic or _counter.get()
    if traffic is not None:
        traffic.add(purpose, payload=payload, wire=wire)


class _AllReduce(Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, purpose: str, group: Group, traffic: Traffic | None) -> Tensor:
        ctx.purpose, ctx.group, ctx.traffic = purpose, group, traffic
        return reduce_(x.clone(memory_format=torch.contiguous_format), purpose, group, traffic)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, None, None, None]:
        # An autograd function again, so second derivatives are correct too.
        return _AllReduce.apply(grads[0], ctx.purpose, ctx.group, ctx.traffic), None, None, None


class _Exchange(Function):
    @staticmethod
    def forward(
        ctx: Any,
        rows: Tensor,
        send: tuple[int, ...],
        receive: tuple[int, ...],
        purpose: str,
        group: Group,
        traffic: Traffic | None,
    ) -> Tensor:
        ctx.back = (receive, send, purpose, group, traffic)
        device, rows = rows.device, _within_reach(rows.contiguous(), group)
        out = rows.new_empty(sum(receive), *rows.shape[1:])
        size = rows.shape[1:].numel() * rows.element_size()
        _count(purpose, size * sum(send), size * (sum(send) - send[rank_of(group)]), traffic)
        dist.all_to_all_single(out, rows, list(receive), list(send), group=group)
        return out.to(device)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, None, None, None, None, None]:
        return _Exchange.apply(grads[0], *ctx.back), None, None, None, None, None
