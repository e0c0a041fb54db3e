"""Batch normalisation that also meets batches of one node, without an edge, or filled up with padding."""

from torch import Tensor, nn

from lrga.checks import check_choice
from lrga.nn.linear import is_plain
from lrga.ops.norm.definition import BatchNormState, activate, batch_norm, check_activations


class BatchNorm(nn.BatchNorm1d):
    """:class:`torch.nn.BatchNorm1d` which, given fewer than two rows in training, normalises by its running statistics.

    PyTorch raises an error for a single row, such as the only node of a batch with one atom. In padded batches only the
    first ``count`` rows are used. Parameters, state dict and
    everything else are those of torch.

    Example:
        >>> import torch
        >>> BatchNorm(4).train()(torch.zeros(1, 4)).shape
        torch.Size([1, 4])
    """

    def forward(self, input: Tensor, count: Tensor | None = None) -> Tensor:
        """Normalises the first ``count`` rows (a 0-dimensional tensor), by default all."""
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
        """``residual + after(norm(before(x)))`` at once, see :func:`normalize`."""
        self._check_input_dim(x)
        return batch_norm(
            x, state_of(self), training=self.training, count=count, before=before, after=after, residual=residual
        )


NORMS = {"batch": BatchNorm, "layer": nn.LayerNorm, "rms": nn.RMSNorm}


def make_norm(kind: str | None, channels: int) -> nn.Module | None:
    """A norm by its name: ``"batch"`` over the rows, ``"layer"`` or ``"rms"`` within a row; ``None`` is none.

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
    """``residual + after(norm(before(x)))`` with any module, or none, as the norm.

    In a batch of fixed capacity a :class:`BatchNorm` takes the first ``count`` rows only. ``before`` is ``"relu"`` or
    nothing, ``after`` ``"relu"``, ``"elu"`` or nothing. All at once where the norm is a :class:`BatchNorm`. Another
    module in its place (a synchronised one, say), or one with hooks, is called as any module is.

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
