"""Everything that decides how a training run goes on, as tensors and JSON values."""

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from torch import Tensor

from lrga.errors import CheckpointError
from lrga.training.callbacks.events import EpochRecord
from lrga.training.determinism import random_states, restore_random_states
from lrga.training.runs.checkpoint import Tensors, load_optimizer, optimizer_parts, restoring

if TYPE_CHECKING:
    from lrga.training.trainer import Trainer

_SCHEDULE = ("best", "num_bad_epochs", "last_epoch")


def capture(trainer: "Trainer") -> tuple[dict[str, dict[str, Tensor]], dict[str, Any]]:
    """Tensors by part (``model``, ``best``, ``training``), not copied, and JSON values."""
    moments, groups = optimizer_parts(trainer.optimizer)
    training = {f"optimizer.{name}": value for name, value in moments.items()}
    training |= {f"random.{name}": value for name, value in random_states(trainer.device).items()}
    parts: dict[str, dict[str, Tensor]] = {"model": dict(trainer.model.state_dict()), "training": training}
    if trainer.best is not None:
        parts["best"] = trainer.best.weights
    schedule = trainer.schedule.state_dict()
    return parts, {
        "epoch": trainer.epoch,
        "batch": trainer.batch,
        "seconds": trainer.seconds,
        "epoch_seconds": trainer.epoch_seconds,
        "optimizer": groups,
        "schedule": {key: schedule[key] if math.isfinite(schedule[key]) else None for key in _SCHEDULE},
        "scaler": trainer.scaler.state_dict(),
        "sums": {"loss": trainer.sums.loss.state(), "metric": trainer.sums.metric.state()},
        "last": None if trainer.last is None else trainer.last.to_json(),
        "best": None if trainer.best is None else trainer.best.record.to_json(),
    }


def restore(trainer: "Trainer", parts: Mapping[str, Tensors], state: Mapping[str, Any]) -> None:
    """Puts a trainer where :func:`capture` found one."""
    with restoring():
        _restore(trainer, parts, state)


def _restore(trainer: "Trainer", parts: Mapping[str, Tensors], state: Mapping[str, Any]) -> None:
    from lrga.training.trainer import Best

    try:
        trainer.model.load_state_dict(dict(parts["model"]))
    except RuntimeError as error:
        got = str(error).splitlines()[-1].strip()
        raise CheckpointError("weights of this model", got, "continue with the model of the run") from error
    training, trainer.engine = parts["training"], None  # moments get new memory, which recorded steps do not know
    load_optimizer(trainer.optimizer, _below("optimizer.", training), state["optimizer"])
    schedule = {key: state["schedule"][key] for key in _SCHEDULE if state["schedule"][key] is not None}
    if not all(abs(value) < 2**63 or isinstance(value, float) for value in schedule.values()):
        raise ValueError(f"a schedule of {schedule}"[:80])
    trainer.schedule.load_state_dict(schedule)
    trainer.scaler.load_state_dict(state["scaler"])
    trainer.epoch, trainer.batch = state["epoch"], state["batch"]
    trainer.seconds, trainer.epoch_seconds = state["seconds"], state["epoch_seconds"]
    trainer.sums.loss.restore(state["sums"]["loss"])
    trainer.sums.metric.restore(state["sums"]["metric"])
    trainer.last = None if state["last"] is None else EpochRecord.from_json(state["last"])
    trainer.best = None
    if state["best"] is not None:
        weights = {name: value.to(trainer.device) for name, value in parts["best"].items()}
        trainer.best = Best(EpochRecord.from_json(state["best"]), weights)
    restore_random_states({name: value.cpu() for name, value in _below("random.", training).items()}, trainer.device)


def _below(prefix: str, tensors: Tensors) -> dict[str, Tensor]:
    return {name.removeprefix(prefix): value for name, value in tensors.items() if name.startswith(prefix)}
