r"""BatchNorm with the statistics of the rows of all ranks.

PyTorch's SyncBatchNorm runs on GPUs only and raises an error for a rank without rows. Here each rank sends the number,
the mean and the sum of squared deviations of its rows (one all-gather of 2D + 1 numbers), which combine without
cancellation. The backward pass is one all-reduce of two D-vectors.

Letters: R rows of this rank, D channels, W ranks.
"""

from typing import Any

import torch
from torch import Tensor, nn
from torch.autograd import Function
from torch.autograd.function import once_differentiable

from lrga.distributed.collectives import Group, Traffic, _counter, gather_rows, reduce_, world_size
from lrga.errors import ShapeError
from lrga.nn.norm import state_of
from lrga.ops.norm.definition import follow


class RankBatchNorm(nn.BatchNorm1d):
    """:class:`torch.nn.BatchNorm1d` over the rows ``[R, D]`` of all ranks together, running statistics included.

    If all ranks together have fewer than two rows in training, the running statistics are used, as in
    :class:`lrga.nn.norm.BatchNorm`. Parameters and state dict are those of torch. Every rank must call it, even without
    rows.

    Args:
        num_features: D.
        group: Process group, by default all ranks.
        **options: Options of :class:`torch.nn.BatchNorm1d`.

    Example:
        >>> RankBatchNorm(4)(torch.randn(3, 4)).shape
        torch.Size([3, 4])
    """

    def __init__(self, num_features: int, *, group: Group = None, **options: Any) -> None:
        super().__init__(num_features, **options)
        self.group = group

    @classmethod
    def of(cls, norm: nn.BatchNorm1d, group: Group = None) -> "RankBatchNorm":
        """Converts the module in place to use the rows of all ranks."""
        norm.__class__ = cls
        assert isinstance(norm, cls)
        norm.group = group
        return norm

    def forward(self, input: Tensor) -> Tensor:
        """Normalises the rows of this rank."""
        if input.dim() != 2 or input.size(1) != self.num_features:
            raise ShapeError(f"rows [R, {self.num_features}]", f"shape {list(input.shape)}", "pass one row per node")
        if not self.training and self.running_mean is not None:
            return self._by_running_statistics(input)
        count, mean, variance = _statistics(input.detach(), self.group)
        # Only a rank with fewer than two rows has to check the total, which synchronises the GPU.
        if input.size(0) < 2 and float(count) < 2 and self.running_mean is not None:
            return self._by_running_statistics(input)
        if self.training and self.track_running_stats and self.running_mean is not None:
            follow(state_of(self), mean, variance * (count / (count - 1).clamp(min=1)), 2)  # the total is sufficient
        inverse = (variance + self.eps).rsqrt()
        return _Normalize.apply(
            input, self.weight, self.bias, mean, inverse, count.clamp(min=1), self.group, _counter.get()
        )

    def _by_running_statistics(self, input: Tensor) -> Tensor:
        return nn.functional.batch_norm(
            input, self.running_mean, self.running_var, self.weight, self.bias, False, 0.0, self.eps
        )


def convert_norms(model: nn.Module, group: Group = None) -> nn.Module:
    """Converts every :class:`torch.nn.BatchNorm1d` of ``model`` in place to use all ranks, and returns the model. Like
    torch's ``SyncBatchNorm.convert_sync_batchnorm``; parameters and state dict do not change.

    Example:
        >>> type(convert_norms(nn.Sequential(nn.Linear(2, 4), nn.BatchNorm1d(4)))[1]).__name__
        'RankBatchNorm'
    """
    for module in model.modules():
        if isinstance(module, nn.BatchNorm1d) and not isinstance(module, RankBatchNorm):
            RankBatchNorm.of(module, group)
    return model


def _statistics(x: Tensor, group: Group) -> tuple[Tensor, Tensor, Tensor]:
    """Rows, mean and variance over all ranks: ``[]``, ``[D]``, ``[D]``."""
    wide = x.float() if x.dtype in (torch.float16, torch.bfloat16) else x
    mean = wide.sum(0) / max(x.size(0), 1)
    deviations = (wide - mean).square().sum(0)
    if world_size(group) == 1:
        count = torch.full((), x.size(0), dtype=mean.dtype, device=x.device)
        return count, mean, deviations / max(x.size(0), 1)
    # float32 is exact up to 2^24 only, so the number of rows is sent in two parts.
    rows = mean.new_tensor([x.size(0) >> 20, x.size(0) & 0xFFFFF])
    together = gather_rows(torch.cat([rows, mean, deviations]), "norm", group).double()
    counts = (together[:, 0] * 2**20 + together[:, 1]).unsqueeze(1)  # [W, 1]
    means, deviations = together[:, 2:].chunk(2, dim=1)  # [W, D] each
    count = counts.sum().clamp(min=1)
    total = (counts * means).sum(0) / count
    variance = (deviations + counts * (means - total).square()).sum(0) / count
    return counts.sum().to(mean.dtype), total.to(mean.dtype), variance.to(mean.dtype)


class _Normalize(Function):
    @staticmethod
    def forward(
        ctx: Any,
        x: Tensor,
        weight: Tensor | None,
        bias: Tensor | None,
        mean: Tensor,
        inverse: Tensor,
        count: Tensor,
        group: Group,
        traffic: Traffic | None,
    ) -> Tensor:
        ctx.save_for_backward(x, weight, mean, inverse, count)
        ctx.group, ctx.traffic = group, traffic
        out = (x.to(mean.dtype) - mean) * inverse
        if weight is not None:
            out = out * weight
        return (out if bias is None else out + bias).to(x.dtype)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        x, weight, mean, inverse, count = ctx.saved_tensors
        grad = grads[0].to(mean.dtype)
        normal = (x.to(mean.dtype) - mean) * inverse
        of_bias, of_weight = grad.sum(0), (grad * normal).sum(0)
        both = reduce_(torch.cat([of_bias, of_weight]), "norm", ctx.group, ctx.traffic) / count
        all_bias, all_weight = both.chunk(2)
        grad_x = (grad - all_bias - normal * all_weight) * inverse
        if weight is None:
            return grad_x.to(x.dtype), None, None, None, None, None, None, None
        return (grad_x * weight).to(x.dtype), of_weight, of_bias, None, None, None, None, None
