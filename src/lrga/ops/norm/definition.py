r"""Batch normalisation of the real rows of a batch, with the activation and the residual around it.

.. math::
    y = r + \phi\left( \frac{x - \mu}{\sqrt{\sigma^2 + \epsilon}} \, w + b \right)

φ is ReLU, ELU or nothing; an optional ReLU is applied to x first; the residual r is optional. In training
μ and σ² are those of the batch and update the running statistics, as in :class:`torch.nn.BatchNorm1d`; a batch of
fewer than two rows has no variance and is normalised with the running statistics, as in evaluation.

In a padded batch only the first ``count`` rows are real and count; the others give zero, or
the unchanged residual. :func:`batch_norm_reference` is the definition; on a GPU :mod:`lrga.ops.norm.kernels` reads x
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
from lrga.ops._operator import is_plain_tensor
from lrga.ops._triton import runs_on_gpu

ACTIVATIONS: dict[str, Callable[[Tensor], Tensor]] = {"relu": F.relu, "elu": F.elu}
BEFORE, AFTER = (None, "relu"), (None, *ACTIVATIONS)
MAX_UNIT_WIDTH = 1024  # columns that a program of unit_rows holds


@dataclass(frozen=True, eq=False)
class BatchNormState:
    """The state of a batch normalisation: parameters and running statistics.

    Args:
        weight: w, ``[D]``; ``None`` is 1.
        bias: b, ``[D]``; ``None`` is 0.
        mean: Running μ, ``[D]``; with ``None`` every batch is normalised with its own statistics.
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
        """Running μ and σ², which must exist."""
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
    """Normalises the rows of ``x`` ``[R, D]``; in training, updates the running statistics.

    Args:
        x: ``[R, D]``.
        state: Parameters and running statistics.
        training: Whether to use the statistics of the batch and update the running ones.
        count: Number of real rows, which come first, as a 0-dimensional int64 tensor; ``None`` means all.
        before: Activation of x: ``"relu"`` or ``None``.
        after: Activation of the normalised rows: ``"relu"``, ``"elu"`` or ``None``.
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
    function = batch_norm_reference  # a compiler fuses the definition itself
    has_kernel = x.dim() == 2 and state.mean is not None and is_plain_tensor(x)
    if has_kernel and runs_on_gpu(x, residual, state.weight, state.mean):
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
    """:func:`batch_norm`, in plain tensor operations."""
    x = activate(x, before)
    h = _all_rows(x, state, training) if count is None else _real_rows(x, state, training, count)
    h = activate(h, after)
    return h if residual is None else residual + h


def activate(x: Tensor, activation: str | None) -> Tensor:
    """ReLU, ELU, or x unchanged."""
    return x if activation is None else ACTIVATIONS[activation](x)


def _all_rows(x: Tensor, state: BatchNormState, training: bool) -> Tensor:
    """Batch normalisation of torch; with the running statistics if the batch has no variance."""
    if state.mean is None:
        training = True
    elif x.size(0) < 2:  # a separate statement, because comparing symbolic sizes gives no plain bool
        training = False
    share = float(share_of_batch(state, x.size(0))) if training else 0.0
    return F.batch_norm(x, state.mean, state.var, state.weight, state.bias, training, share, state.eps)


def _real_rows(x: Tensor, state: BatchNormState, training: bool, count: Tensor) -> Tensor:
    """Masks the first ``count`` rows without reading the number: shapes stay the same, without synchronisation."""
    wide = x.float() if x.dtype in (torch.float16, torch.bfloat16) else x
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
    """Updates the running statistics with those of a batch of ``count`` rows, unless there are too few rows."""
    share = share_of_batch(state, count)
    for running, own in zip(state.running, (mean, unbiased_var), strict=True):
        if isinstance(count, Tensor):
            running.copy_(torch.where(count >= 2, running + share * (own - running), running))
        elif count >= 2:
            running.lerp_(own.to(running.dtype), share)


@torch.no_grad()
def share_of_batch(state: BatchNormState, count: Tensor | int) -> Tensor | float:
    """Counts a batch, unless it has fewer than two rows, and returns its share in the running statistics.

    If the share depends on numbers on a GPU, it is a tensor there, to avoid synchronisation.
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
    """Raises an error for unknown activations and wrong shapes."""
    check_choice("before", before, BEFORE)
    check_choice("after", after, AFTER)


def _check_shapes(x: Tensor, state: BatchNormState, residual: Tensor | None) -> None:
    if residual is not None and residual.shape != x.shape:
        shape = f"shape {list(residual.shape)}"
        raise ShapeError(f"a residual of shape {list(x.shape)}, the shape of x", shape, "leave it out if widths differ")
    known = state.mean if state.mean is not None else state.weight
    if known is not None and (x.dim() < 2 or x.size(1) != known.size(0)):
        raise ShapeError(
            f"x of shape [R, {known.size(0)}]", f"shape {list(x.shape)}", "use a norm with as many channels as x"
        )


def unit_rows(x: Tensor, eps: float = 1e-12) -> Tensor:
    """Rows divided by their Euclidean length, or by ``eps`` if that is larger: :func:`torch.nn.functional.normalize`.

    ``eps`` is at least the smallest normal number of the dtype: float16 rounds 1e-12 to zero, and a row of zeros would
    become NaN.

    Example:
        >>> unit_rows(torch.tensor([[3.0, 4.0], [0.0, 0.0]])).tolist()
        [[0.6000000238418579, 0.800000011920929], [0.0, 0.0]]
    """
    fits = x.dtype == torch.float32 and x.dim() == 2 and x.size(1) <= MAX_UNIT_WIDTH
    if not fits or not is_plain_tensor(x) or not runs_on_gpu(x):
        return F.normalize(x, eps=max(eps, torch.finfo(x.dtype).tiny))
    from lrga.ops.norm import gpu

    y: Tensor = gpu.UnitRows.apply(x, eps)
    return y
