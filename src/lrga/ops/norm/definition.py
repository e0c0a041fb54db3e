r"""Batch normalisation of the real rows of a batch, with the activation and the residual that stand beside it.

.. math::
    y = r + \phi\left( \frac{x - \mu}{\sqrt{\sigma^2 + \epsilon}} \, w + b \right)

φ is ReLU, ELU or nothing; a ReLU may stand before the normalisation, on x; with a residual r or without. In training
μ and σ² are those of the batch, which the running ones then follow, as in :class:`torch.nn.BatchNorm1d`; a batch of
fewer than two rows, which has no variance, is normalised by the running ones, as all are in evaluation.

Where only the first ``count`` rows are real (a batch of fixed capacity), only these count; the others give zero, or
the residual as it is. :func:`batch_norm_reference` is the definition; on a GPU :mod:`lrga.ops.norm.kernels` reads x
once for the statistics and once for the result.

Letters: R rows, D channels.
"""

from collections.abc import Callable
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

from lrga.checks import check_choice
from lrga.errors import ShapeError
from lrga.ops._triton import runs_on_gpu

ACTIVATIONS: dict[str, Callable[[Tensor], Tensor]] = {"relu": F.relu, "elu": F.elu}
BEFORE, AFTER = (None, "relu"), (None, *ACTIVATIONS)


@dataclass(frozen=True, eq=False)
class BatchNormState:
    """The state of a batch normalisation: parameters and what it remembers of batches.

    Args:
        weight: w, ``[D]``; ``None`` is one.
        bias: b, ``[D]``; ``None`` is zero.
        mean: Running μ, ``[D]``; ``None`` remembers nothing, and every batch is normalised by its own statistics.
        var: Running σ² (unbiased), ``[D]``.
        batches: Batches seen, 0-dimensional int64.
        momentum: Share of a new batch in the running statistics; ``None`` is the plain average of all batches.
        eps: ε.
    """

    weight: Tensor | None
    bias: Tensor | None
    mean: Tensor | None
    var: Tensor | None
    batches: Tensor | None
    momentum: float | None = 0.1
    eps: float = 1e-5

    @property
    def running(self) -> tuple[Tensor, Tensor]:
        """Running μ and σ², which there are."""
        assert self.mean is not None
        assert self.var is not None
        return self.mean, self.var


def batch_norm(
    x: Tensor,
    state: BatchNormState,
    *,
    training: bool,
    count: Tensor | None = None,
    before: str | None = None,
    after: str | None = None,
    residual: Tensor | None = None,
) -> Tensor:
    """Normalises the rows of ``x`` ``[R, D]``; in training the running statistics are brought up to date.

    Args:
        x: ``[R, D]``.
        state: Parameters and running statistics.
        training: Whether the statistics of the batch are used and remembered.
        count: How many rows are real, the first, as a 0-dimensional int64 tensor; ``None`` is all.
        before: ``"relu"`` where it is applied to x, or ``None``.
        after: ``"relu"`` or ``"elu"`` where it is applied to the normalised rows, or ``None``.
        residual: Added at the end, ``[R, D]``.

    Example:
        >>> import torch
        >>> state = BatchNormState(None, None, torch.zeros(1), torch.ones(1), torch.tensor(0))
        >>> x = torch.tensor([[1.0], [3.0], [9.0]])
        >>> batch_norm(x, state, training=True, count=torch.tensor(2)).round().tolist()
        [[-1.0], [1.0], [0.0]]
        >>> state.mean.tolist(), state.batches.item()
        ([0.20000000298023224], 1)
    """
    check_activations(before, after)
    _check_shapes(x, state, residual)
    function = batch_norm_reference
    if x.dim() == 2 and state.mean is not None and runs_on_gpu(x, residual, state.weight, state.mean):
        from lrga.ops.norm import gpu as norm_ops

        function = norm_ops.batch_norm
    return function(x, state, training=training, count=count, before=before, after=after, residual=residual)


def batch_norm_reference(
    x: Tensor,
    state: BatchNormState,
    *,
    training: bool,
    count: Tensor | None = None,
    before: str | None = None,
    after: str | None = None,
    residual: Tensor | None = None,
) -> Tensor:
    """:func:`batch_norm`, one tensor operation after the other."""
    x = activate(x, before)
    h = _all_rows(x, state, training) if count is None else _real_rows(x, state, training, count)
    h = activate(h, after)
    return h if residual is None else residual + h


def activate(x: Tensor, activation: str | None) -> Tensor:
    """ReLU, ELU, or x as it is."""
    return x if activation is None else ACTIVATIONS[activation](x)


def _all_rows(x: Tensor, state: BatchNormState, training: bool) -> Tensor:
    """torch's own normalisation, by the running statistics where the batch has no variance."""
    if state.mean is None:
        training = True
    elif x.size(0) < 2:  # a statement of its own, for a compiler's symbolic sizes give no plain bool
        training = False
    share = float(share_of_batch(state, x.size(0))) if training else 0.0
    return F.batch_norm(x, state.mean, state.var, state.weight, state.bias, training, share, state.eps)


def _real_rows(x: Tensor, state: BatchNormState, training: bool, count: Tensor) -> Tensor:
    """The first ``count`` rows, without a look at the number: shapes stay what they are, and nothing waits."""
    half = x.dtype in (torch.float16, torch.bfloat16)
    wide = x.float() if half else x
    real = (torch.arange(x.size(0), device=x.device) < count).unsqueeze(-1)
    mean, var = state.mean, state.var
    if training or mean is None or var is None:
        n = count.clamp(min=1).to(wide.dtype)
        own_mean = wide.masked_fill(~real, 0.0).sum(0) / n
        own_var = (wide - own_mean).masked_fill(~real, 0.0).square().sum(0) / n
        if mean is None or var is None:
            mean, var = own_mean, own_var
        else:
            old_mean, old_var = mean.to(wide.dtype, copy=True), var.to(wide.dtype, copy=True)
            follow(state, own_mean.detach(), own_var.detach() * (n / (n - 1).clamp(min=1)), count)
            mean, var = (torch.where(count >= 2, own, old) for own, old in ((own_mean, old_mean), (own_var, old_var)))
    h = (wide - mean) * (var + state.eps).rsqrt()
    if state.weight is not None:
        h = h * state.weight
    if state.bias is not None:
        h = h + state.bias
    return h.masked_fill(~real, 0.0).to(x.dtype)


@torch.no_grad()
def follow(state: BatchNormState, mean: Tensor, unbiased_var: Tensor, count: Tensor | int) -> None:
    """Brings the running statistics up to date with those of a batch of ``count`` rows, unless these are too few."""
    share = share_of_batch(state, count)
    for running, own in zip(state.running, (mean, unbiased_var), strict=True):
        if isinstance(count, Tensor):
            running.copy_(torch.where(count >= 2, running + share * (own - running), running))
        elif count >= 2:
            running.lerp_(own.to(running.dtype), share)


@torch.no_grad()
def share_of_batch(state: BatchNormState, count: Tensor | int) -> Tensor | float:
    """Counts a batch, unless it has fewer than two rows, and returns its share in the running statistics.

    Where that depends on numbers on a GPU it is a tensor there, so that nothing waits.
    """
    if state.batches is not None:
        state.batches.add_(count >= 2 if isinstance(count, Tensor) else int(count >= 2))
    if state.momentum is not None:
        return state.momentum
    if state.batches is None or state.mean is None:
        return 0.0
    batches = state.batches.clamp(min=1)  # the plain average of all batches
    if isinstance(count, Tensor) or batches.device.type != "cpu":
        return batches.to(torch.promote_types(state.mean.dtype, torch.float32)).reciprocal()
    return 1.0 / float(batches)


def check_activations(before: str | None, after: str | None) -> None:
    """Refuses what is not known in its place."""
    check_choice("before", before, BEFORE)
    check_choice("after", after, AFTER)


def _check_shapes(x: Tensor, state: BatchNormState, residual: Tensor | None) -> None:
    if residual is not None and residual.shape != x.shape:
        shape = f"shape {list(residual.shape)}"
        raise ShapeError(f"a residual of shape {list(x.shape)}, as x has", shape, "leave it out where widths differ")
    known = state.mean if state.mean is not None else state.weight
    if known is not None and (x.dim() < 2 or x.size(1) != known.size(0)):
        raise ShapeError(
            f"x of shape [R, {known.size(0)}]", f"shape {list(x.shape)}", "normalise as many channels as there are"
        )
