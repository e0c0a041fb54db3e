"""Batch normalisation for batches that may have a single row, no row, or padding."""

from torch import Tensor, nn

from lrga.checks import check_choice
from lrga.nn.linear import is_plain
from lrga.ops.norm.definition import BatchNormState, activate, batch_norm, check_activations


class BatchNorm(nn.BatchNorm1d):
    """:class:`torch.nn.BatchNorm1d` that uses its running statistics for fewer than two rows in training.

    PyTorch raises an error for a single row, for example for a molecule of one atom. In padded batches only the first
    ``count`` rows are used. Everything else, including the state dict, is PyTorch's.

    Example:
        >>> import torch
        >>> BatchNorm(4).train()(torch.zeros(1, 4)).shape
        torch.Size([1, 4])
    """

    def forward(self, input: Tensor, count: Tensor | None = None) -> Tensor:
        """Normalises the first ``count`` rows (a 0-dimensional tensor); all by default."""
        return self.normalize(input, count=count)

    def normalize(
        self,
        x: Tensor,
        *,
        count: Tensor | None = None,
        before: str | None = None,
        after: str | None = None,
        residual: Tensor | None = None,
    ) -> Tensor:
        """``residual + after(norm(before(x)))`` in one operation, see :func:`normalize`."""
        self._check_input_dim(x)
        return batch_norm(
            x, state_of(self), training=self.training, count=count, before=before, after=after, residual=residual
        )


NORMS = {"batch": BatchNorm, "layer": nn.LayerNorm, "rms": nn.RMSNorm}


def make_norm(kind: str | None, channels: int) -> nn.Module | None:
    """Creates a norm by name: ``"batch"`` over the rows, ``"layer"`` or ``"rms"`` within a row, or ``None``.

    Example:
        >>> make_norm("rms", 4)
        RMSNorm((4,), eps=None, elementwise_affine=True)
    """
    if kind is None:
        return None
    check_choice("norm", kind, tuple(NORMS))
    return NORMS[kind](channels)


def state_of(norm: nn.BatchNorm1d) -> BatchNormState:
    """Parameters and running statistics, for the operators."""
    return BatchNormState(
        norm.weight,
        norm.bias,
        norm.running_mean,
        norm.running_var,
        norm.num_batches_tracked,
        norm.momentum,
        norm.eps,
    )


def normalize(
    norm: nn.Module | None,
    x: Tensor,
    *,
    count: Tensor | None = None,
    before: str | None = None,
    after: str | None = None,
    residual: Tensor | None = None,
) -> Tensor:
    """``residual + after(norm(before(x)))``, where ``norm`` is any module or ``None``.

    In a padded batch a :class:`BatchNorm` uses the first ``count`` rows only. ``before`` is ``"relu"`` or ``None``,
    ``after`` is ``"relu"``, ``"elu"`` or ``None``. A :class:`BatchNorm` computes all of this in one operation; any
    other module, or one with hooks, is called as usual.

    Example:
        >>> import torch
        >>> x = torch.tensor([[-1.0], [1.0]])
        >>> normalize(BatchNorm(1), x, after="relu", residual=x).round().tolist()
        [[-1.0], [2.0]]
        >>> normalize(None, x, after="relu").tolist()
        [[0.0], [1.0]]
    """
    if is_plain(norm, BatchNorm):
        return norm.normalize(x, count=count, before=before, after=after, residual=residual)
    check_activations(before, after)
    x = activate(x, before)
    if norm is not None:
        x = norm(x, count) if count is not None and isinstance(norm, BatchNorm) else norm(x)
    x = activate(x, after)
    return x if residual is None else residual + x
