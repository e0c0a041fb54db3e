"""Statistics of BatchNorm layers averaged over batches, on the device."""

from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm


def tracking_norms(model: nn.Module) -> list[_BatchNorm]:
    """The BatchNorm layers of a model that keep running statistics."""
    return [module for module in model.modules() if isinstance(module, _BatchNorm) and module.track_running_stats]


class Averages:
    """Plain averages of the statistics of batches, one after the other, without a look at a value.

    While :meth:`taking`, a pass of the model leaves each batch's own statistics in the layers, and :meth:`add` takes
    them up. At the end the averages are the layers' running statistics, as if their momentum had been ``None``.

    Example:
        >>> norm = nn.BatchNorm1d(1)
        >>> averages = Averages(norm)
        >>> with averages.taking():
        ...     for value in (1.0, 3.0):
        ...         _ = norm(torch.full((4, 1), value))
        ...         averages.add()
        >>> norm.running_mean.tolist(), int(norm.num_batches_tracked)
        ([2.0], 2)
    """

    def __init__(self, model: nn.Module) -> None:
        self.norms = tracking_norms(model)
        self._kept = [tuple(torch.zeros_like(t) for t in _statistics(norm)) for norm in self.norms]
        self.tensors: list[Tensor] = [tensor for own in self._kept for tensor in own]

    @contextmanager
    def taking(self) -> Iterator[None]:
        """Statistics begin anew; afterwards the averages are in the layers. Other modules' modes are left alone."""
        before = [(norm.momentum, norm.training) for norm in self.norms]
        for norm, averages in zip(self.norms, self._kept, strict=True):
            norm.reset_running_stats()
            norm.momentum = 1.0  # the running statistics are then those of the last batch
            norm.train()
            for own, average in zip(_statistics(norm), averages, strict=True):
                average.copy_(own)
        try:
            yield
            for norm, averages in zip(self.norms, self._kept, strict=True):
                for own, average in zip(_statistics(norm), averages, strict=True):
                    own.copy_(average)
        finally:
            for norm, (momentum, training) in zip(self.norms, before, strict=True):
                norm.momentum, norm.training = momentum, training

    @torch.no_grad()
    def add(self) -> None:
        """Takes up the statistics of the batch that was just run; of a layer that took none, nothing."""
        for norm, (mean, variance, batches) in zip(self.norms, self._kept, strict=True):
            own_mean, own_variance, own_batches = _statistics(norm)
            share = (own_batches - batches).to(mean.dtype) / own_batches.clamp(min=1)  # 1 / k, or 0
            mean += share * (own_mean - mean)
            variance += share * (own_variance - variance)
            batches.copy_(own_batches)


def _statistics(norm: _BatchNorm) -> tuple[Tensor, Tensor, Tensor]:
    assert norm.running_mean is not None
    assert norm.running_var is not None
    assert norm.num_batches_tracked is not None
    return norm.running_mean, norm.running_var, norm.num_batches_tracked
