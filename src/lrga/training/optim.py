"""Optimisers, learning-rate schedules, and a moving average of the weights."""

import math
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from torch import nn
from torch.nn.modules.batchnorm import _NormBase
from torch.optim.lr_scheduler import ReduceLROnPlateau

from lrga.training.config import OptimizerConfig

_NORMS = (_NormBase, nn.LayerNorm, nn.GroupNorm, nn.RMSNorm)
# Defaults of PyTorch's OneCycleLR: fraction of warm-up steps, first and last rate relative to the maximum.
_ONE_CYCLE_RISE, _ONE_CYCLE_FIRST, _ONE_CYCLE_LAST = 0.3, 1 / 25, 1 / 25e4


def make_optimizer(
    model: nn.Module, parameters: Sequence[nn.Parameter], options: OptimizerConfig
) -> torch.optim.Optimizer:
    """Creates the optimiser of ``options`` for ``parameters`` of ``model``.

    Example:
        >>> model = nn.Sequential(nn.Linear(2, 2), nn.BatchNorm1d(2))
        >>> options = OptimizerConfig(optimizer="adamw", weight_decay=0.1, selective_decay=True)
        >>> optimizer = make_optimizer(model, [*model.parameters()], options)
        >>> [(group["weight_decay"], len(group["params"])) for group in optimizer.param_groups]
        [(0.1, 1), (0.0, 3)]
    """
    groups: list[dict[str, Any]] = [{"params": list(parameters)}]
    if options.selective_decay and options.weight_decay:
        spared = _without_decay(model)
        decayed = [p for p in parameters if id(p) not in spared]
        others = [p for p in parameters if id(p) in spared]
        groups = [{"params": decayed}, {"params": others, "weight_decay": 0.0}]
    # fused: one kernel for all parameters; these networks have hundreds of small ones
    common: dict[str, Any] = {"lr": options.lr, "weight_decay": options.weight_decay, "fused": True}
    if options.optimizer == "sgd":
        return torch.optim.SGD(groups, momentum=options.momentum, **common)
    kind = torch.optim.AdamW if options.optimizer == "adamw" else torch.optim.Adam
    return kind(groups, **common)


def _without_decay(model: nn.Module) -> set[int]:
    """The ids of biases and of parameters of norms and embeddings."""
    found: set[int] = set()
    for module in model.modules():
        every = isinstance(module, (*_NORMS, nn.Embedding)) or "norm" in type(module).__name__.lower()
        for name, parameter in module.named_parameters(recurse=False):
            if every or parameter.dim() < 2 or name.endswith("bias"):
                found.add(id(parameter))
    return found


class Schedule:
    r"""The learning rate of every step.

    With base rate :math:`r`, :math:`t` finished steps, :math:`W` warm-up steps and :math:`T` steps in total:

    ========== =======================================================================================
    constant   :math:`r`
    linear     :math:`r_{min} + (r - r_{min}) (T - t) / (T - W)`
    cosine     :math:`r_{min} + (r - r_{min}) (1 + \cos(\pi (t - W) / (T - W))) / 2`
    one_cycle  PyTorch's ``OneCycleLR`` with maximum rate :math:`r`
    plateau    :math:`r`, multiplied by ``lr_factor`` after ``patience`` epochs without a better validation loss
    ========== =======================================================================================

    During warm-up the rate is :math:`r (t + 1) / W`. With ``schedule_per="epoch"`` the formulas count epochs instead of
    steps (W is rounded up), so the rate changes only at the beginning of epochs.

    Args:
        optimizer: The optimiser whose rate is set.
        options: Kind and parameters of the schedule.
        steps: Steps per epoch.

    Example:
        >>> optimizer = torch.optim.SGD([nn.Parameter(torch.zeros(1))], lr=1.0)
        >>> schedule = Schedule(optimizer, OptimizerConfig(lr=1.0, min_lr=0.0, schedule="linear", max_epochs=2), 2)
        >>> rates = []
        >>> for _ in range(4):
        ...     rates.append(schedule.lr)
        ...     schedule.step()
        >>> rates
        [1.0, 0.75, 0.5, 0.25]
    """

    def __init__(self, optimizer: torch.optim.Optimizer, options: OptimizerConfig, steps: int) -> None:
        self.optimizer, self.options, self.steps = optimizer, options, max(steps, 1)
        self.unit, warmup = 1, options.warmup_epochs
        if options.schedule_per == "epoch":
            self.unit, warmup = self.steps, math.ceil(warmup)
        self.total = self.steps * options.max_epochs
        self.warmup = min(round(self.steps * warmup), self.total)
        self.done = 0
        self._plateau = ReduceLROnPlateau(optimizer, factor=options.lr_factor, patience=options.patience)
        self._apply()

    @property
    def lr(self) -> float:
        """The rate of the next step."""
        return float(self.optimizer.param_groups[0]["lr"])

    @property
    def ended(self) -> bool:
        """Whether a plateau schedule has lowered the rate below ``min_lr``."""
        return self.options.schedule == "plateau" and self.done >= self.warmup and self.lr < self.options.min_lr

    def step(self) -> None:
        """Call after every step of the optimiser."""
        self.done += 1
        if self.done <= self.warmup or self.options.schedule not in ("plateau", "constant"):
            self._apply()

    def end_epoch(self, val_loss: float | None) -> None:
        """Call after every epoch, with the validation loss."""
        if self.options.schedule == "plateau" and val_loss is not None and self.done >= self.warmup:
            self._plateau.step(val_loss)

    def _apply(self) -> None:
        rate = self._rate(*(steps // self.unit for steps in (self.done, self.warmup, self.total)))
        for group in self.optimizer.param_groups:
            group["lr"] = rate

    def _rate(self, t: int, warmup: int, total: int) -> float:
        options = self.options
        rate, kind = options.lr, options.schedule
        floor = min(options.min_lr, rate)
        if kind == "one_cycle":
            turn = float(_ONE_CYCLE_RISE * total) - 1
            if t <= turn and turn > 0:
                low, high, share = rate * _ONE_CYCLE_FIRST, rate, t / turn
            else:
                low, high, share = rate, rate * _ONE_CYCLE_LAST, min((t - turn) / max(total - 1 - turn, 1), 1.0)
            return high + (low - high) / 2.0 * (1.0 + math.cos(math.pi * share))
        if t < warmup:
            return rate * (t + 1) / warmup
        if kind in ("constant", "plateau"):
            return rate
        share = min((t - warmup) / max(total - warmup, 1), 1.0)
        falling = 1.0 - share if kind == "linear" else (1.0 + math.cos(math.pi * share)) / 2.0
        return floor + (rate - floor) * falling

    def state(self) -> dict[str, Any]:
        """The state of the schedule, as JSON values."""
        plateau = {key: value for key, value in self._plateau.state_dict().items() if key != "_last_lr"}
        plain = {key: str(v) if isinstance(v, float) and math.isinf(v) else v for key, v in plateau.items()}
        return {"done": self.done, "plateau": plain}  # JSON has no infinity

    def restore(self, state: Mapping[str, Any]) -> None:
        """Restores a :meth:`state`; the rates are restored with the optimiser."""
        infinite = {"inf": math.inf, "-inf": -math.inf}
        self._plateau.load_state_dict({key: infinite.get(str(v), v) for key, v in state["plateau"].items()})
        self.done = state["done"]


class WeightAverage:
    r"""An exponential moving average of the weights, :math:`a \leftarrow \beta a + (1 - \beta) w` after every step.

    Evaluation and the saved model use the average; BatchNorm statistics are not averaged.

    Attributes:
        averages: The averages by name, at fixed memory addresses.

    Example:
        >>> model = nn.Linear(1, 1, bias=False)
        >>> _ = nn.init.zeros_(model.weight)
        >>> average = WeightAverage(model, 0.9)
        >>> _ = nn.init.ones_(model.weight)
        >>> average.update()
        >>> with average.applied():
        ...     print(round(model.weight.item(), 4))
        0.1
    """

    def __init__(self, model: nn.Module, decay: float) -> None:
        self.decay = decay
        self.weights = [parameter.detach() for parameter in model.parameters()]
        self.averages = {name: parameter.detach().clone() for name, parameter in model.named_parameters()}

    @torch.no_grad()
    def update(self) -> None:
        """Call after every step of the optimiser."""
        torch._foreach_lerp_([*self.averages.values()], self.weights, 1.0 - self.decay)

    @contextmanager
    def applied(self) -> Iterator[None]:
        """Inside the block the model has the averaged weights, in the same memory."""
        self._swap()
        try:
            yield
        finally:
            self._swap()

    @torch.no_grad()
    def _swap(self) -> None:
        held, averages = [weight.clone() for weight in self.weights], [*self.averages.values()]
        torch._foreach_copy_(self.weights, averages)
        torch._foreach_copy_(averages, held)
