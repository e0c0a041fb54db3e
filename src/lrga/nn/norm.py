"""Batch normalisation that also meets batches of one node, or without an edge."""

from torch import Tensor, nn


class BatchNorm(nn.BatchNorm1d):
    """:class:`torch.nn.BatchNorm1d` which, given fewer than two rows in training, normalises by its running statistics.

    One row has no variance: torch refuses it, and a training set of single graphs would stop at the first molecule
    without a bond. Parameters, state dict and everything else are those of torch.

    Example:
        >>> import torch
        >>> BatchNorm(4).train()(torch.zeros(1, 4)).shape
        torch.Size([1, 4])
    """

    def forward(self, input: Tensor) -> Tensor:
        if self.training and input.size(0) < 2:
            return nn.functional.batch_norm(
                input, self.running_mean, self.running_var, self.weight, self.bias, False, 0.0, self.eps
            )
        return super().forward(input)
