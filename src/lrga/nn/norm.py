"""Batch normalisation that also meets batches of one node, without an edge, or filled up with padding."""

from torch import Tensor, nn

from lrga.kernels.norm import Running, activate, batch_norm, check_activations
from lrga.kernels.padding import real_rows
from lrga.nn.linear import is_plain


class BatchNorm(nn.BatchNorm1d):
    """:class:`torch.nn.BatchNorm1d` which, given fewer than two rows in training, normalises by its running statistics.

    One row has no variance: torch refuses it, and a training set of single graphs would stop at the first molecule
    without a bond. In batches of a fixed capacity only the real rows count (:mod:`lrga.kernels.padding`). Parameters,
    state dict and everything else are those of torch.

    Example:
        >>> import torch
        >>> BatchNorm(4).train()(torch.zeros(1, 4)).shape
        torch.Size([1, 4])
    """

    def forward(self, input: Tensor) -> Tensor:
        return self.normalize(input)

    def normalize(
        self, x: Tensor, *, before: str | None = None, after: str | None = None, residual: Tensor | None = None
    ) -> Tensor:
        """``residual + after(norm(before(x)))`` at once, see :func:`normalize`."""
        self._check_input_dim(x)
        count = real_rows(x) if x.dim() == 2 else None
        return batch_norm(
            x, self.state(), training=self.training, count=count, before=before, after=after, residual=residual
        )

    def state(self) -> Running:
        """Parameters and running statistics, for the kernels."""
        return Running(
            self.weight,
            self.bias,
            self.running_mean,
            self.running_var,
            self.num_batches_tracked,
            self.momentum,
            self.eps,
        )


def normalize(
    norm: nn.Module | None,
    x: Tensor,
    *,
    before: str | None = None,
    after: str | None = None,
    residual: Tensor | None = None,
) -> Tensor:
    """``residual + after(norm(before(x)))`` with any module, or none, as the norm.

    ``before`` is ``"relu"`` or nothing, ``after`` ``"relu"``, ``"elu"`` or nothing. All at once where the norm is a
    :class:`BatchNorm`. Another module in its place (a synchronised one, say), or one with hooks, is called as any
    module is.

    Example:
        >>> import torch
        >>> x = torch.tensor([[-1.0], [1.0]])
        >>> normalize(BatchNorm(1), x, after="relu", residual=x).round().tolist()
        [[-1.0], [2.0]]
        >>> normalize(None, x, after="relu").tolist()
        [[0.0], [1.0]]
    """
    if is_plain(norm, BatchNorm):
        return norm.normalize(x, before=before, after=after, residual=residual)
    check_activations(before, after)
    x = activate(x, before)
    x = activate(x if norm is None else norm(x), after)
    return x if residual is None else residual + x
