"""Everything that decides how a link-prediction run goes on, as tensors and JSON values; and its keeping."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from torch import Tensor

from lrga.errors import CheckpointError
from lrga.training.callbacks.events import EpochRecord
from lrga.training.determinism import random_states, restore_random_states
from lrga.training.runs.checkpoint import Tensors, load_optimizer, optimizer_parts, restoring
from lrga.training.runs.checkpointer import FolderKeeper, State
from lrga.training.trainer import Best

if TYPE_CHECKING:
    from lrga.training.problems.link_trainer import LinkTrainer


def capture_links(trainer: "LinkTrainer") -> tuple[dict[str, dict[str, Tensor]], dict[str, Any]]:
    """Tensors by part (``model``, ``best``, ``training``), not copied, and JSON values."""
    moments, groups = optimizer_parts(trainer.optimizer)
    training = {f"optimizer.{name}": value for name, value in moments.items()}
    training |= {f"random.{name}": value for name, value in random_states(trainer.device).items()}
    parts: dict[str, dict[str, Tensor]] = {"model": dict(trainer.model.state_dict()), "training": training}
    if trainer.best is not None:
        parts["best"] = trainer.best.weights
    state: dict[str, Any] = {
        "epoch": trainer.epoch,
        "batch": trainer.batch,
        "seconds": trainer.seconds,
        "epoch_seconds": trainer.epoch_seconds,
        "optimizer": groups,
        "scaler": trainer.scaler.state_dict(),
        "loss": trainer.loss.state(),
        "last": None if trainer.last is None else trainer.last.to_json(),
        "best": None if trainer.best is None else trainer.best.record.to_json(),
        "walks": None,
    }
    if trainer.walks is not None:
        moments, groups = optimizer_parts(trainer.walks.optimizer)
        training |= {f"walks.{name}": value for name, value in moments.items()}
        state["walks"] = {"epoch": trainer.walks.epoch, "batch": trainer.walks.batch, "optimizer": groups}
    return parts, state


def restore_links(trainer: "LinkTrainer", parts: Mapping[str, Tensors], state: Mapping[str, Any]) -> None:
    """Puts a trainer where :func:`capture_links` found one."""
    with restoring():
        _restore(trainer, parts, state)


def _restore(trainer: "LinkTrainer", parts: Mapping[str, Tensors], state: Mapping[str, Any]) -> None:
    try:
        trainer.model.load_state_dict(dict(parts["model"]))
    except RuntimeError as error:
        got = str(error).splitlines()[-1].strip()
        raise CheckpointError("weights of this model", got, "continue with the model of the run") from error
    training = parts["training"]
    load_optimizer(trainer.optimizer, _below("optimizer.", training), state["optimizer"])
    trainer.scaler.load_state_dict(state["scaler"])
    trainer.epoch, trainer.batch = state["epoch"], state["batch"]
    trainer.seconds, trainer.epoch_seconds = state["seconds"], state["epoch_seconds"]
    trainer.loss.restore(state["loss"])
    trainer.last = None if state["last"] is None else EpochRecord.from_json(state["last"])
    trainer.best = None
    if state["best"] is not None:
        weights = {name: value.to(trainer.device) for name, value in parts["best"].items()}
        trainer.best = Best(EpochRecord.from_json(state["best"]), weights)
    if trainer.walks is not None:
        walks = state["walks"]
        trainer.walks.epoch, trainer.walks.batch = walks["epoch"], walks["batch"]
        load_optimizer(trainer.walks.optimizer, _below("walks.", training), walks["optimizer"])
    restore_random_states({name: value.cpu() for name, value in _below("random.", training).items()}, trainer.device)


def _below(prefix: str, tensors: Tensors) -> dict[str, Tensor]:
    return {name.removeprefix(prefix): value for name, value in tensors.items() if name.startswith(prefix)}


class LinkKeeper(FolderKeeper):
    """Keeps a link-prediction run in its folder."""

    def _position(self, trainer: Any) -> tuple[int, int]:
        return trainer.position

    def _state(self, trainer: Any) -> State:
        return capture_links(trainer)
