"""Everything that decides how a training run goes on, as tensors and JSON values."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from torch import Tensor

from lrga.errors import CheckpointError
from lrga.training.callbacks.events import EpochRecord
from lrga.training.determinism import random_states, restore_random_states
from lrga.training.runs.checkpoint import Tensors, load_optimizer, optimizer_parts, restoring

if TYPE_CHECKING:
    from lrga.training.trainer import Trainer


def capture(trainer: "Trainer") -> tuple[dict[str, dict[str, Tensor]], dict[str, Any]]:
    """Tensors by part (``model``, ``best``, ``average``, ``training``) and JSON values.

    Tensors are not copied. Where several processes share a model they all must call it: each gets the whole.
    """
    problem, parameters = trainer.problem, dict(trainer.model.named_parameters())
    moments, groups = optimizer_parts(trainer.optimizer)
    trained = [p for group in trainer.optimizer.param_groups for p in group["params"]]
    training = {f"optimizer.{name}": problem.gather(trained[_index(name)], value) for name, value in moments.items()}
    training |= {f"random.{name}": value for name, value in random_states(trainer.device).items()}
    model = trainer.model.state_dict()
    parts = {
        "model": {k: problem.gather(parameters[k], v) if k in parameters else v for k, v in model.items()},
        "training": training,
    }
    if trainer.average is not None:
        parts["average"] = {k: problem.gather(parameters[k], v) for k, v in trainer.average.state().items()}
    if trainer.best is not None:
        parts["best"] = trainer.best.weights
    return parts, {
        "stage": trainer.problem.name,
        "epoch": trainer.epoch,
        "batch": trainer.batch,
        "records": trainer.records,
        "seconds": trainer.seconds,
        "epoch_seconds": trainer.epoch_seconds,
        "optimizer": groups,
        "schedule": trainer.schedule.state(),
        "scaler": trainer.scaler.state_dict(),
        "sums": problem.state(),
        "last": None if trainer.last is None else trainer.last.to_json(),
        "best": None if trainer.best is None else trainer.best.record.to_json(),
    }


def restore(trainer: "Trainer", parts: Mapping[str, Tensors], state: Mapping[str, Any]) -> None:
    """Puts a trainer where :func:`capture` found one."""
    if "stage" not in state:
        remedy = "finish it with lrga 0.1, or train anew in another folder"
        raise CheckpointError("a checkpoint of this version of lrga", "one of version 0.1", remedy)
    with restoring():
        _restore(trainer, parts, state)


def _restore(trainer: "Trainer", parts: Mapping[str, Tensors], state: Mapping[str, Any]) -> None:
    from lrga.training.trainer import Best

    stage = [problem.name for problem in trainer.stages].index(state["stage"])
    if stage != trainer.stage:
        trainer.start_stage(stage)
    trainer.engine = None  # moments get new memory, which recorded steps do not know
    problem, parameters = trainer.problem, dict(trainer.model.named_parameters())
    try:
        trainer.model.load_state_dict(dict(parts["model"]))
    except RuntimeError as error:
        got = str(error).splitlines()[-1].strip()
        raise CheckpointError("weights of this model", got, "continue with the model of the run") from error
    training = parts["training"]
    trained = [p for group in trainer.optimizer.param_groups for p in group["params"]]
    moments = _below("optimizer.", training)
    moments = {name: problem.take(trained[_index(name)], value) for name, value in moments.items()}
    load_optimizer(trainer.optimizer, moments, state["optimizer"])
    trainer.schedule.restore(state["schedule"])
    trainer.scaler.load_state_dict(state["scaler"])
    if trainer.average is not None:
        trainer.average.restore({k: problem.take(parameters[k], v) for k, v in parts["average"].items()})
    trainer.epoch, trainer.batch, trainer.records = state["epoch"], state["batch"], state["records"]
    if problem.is_evaluated and trainer.epoch != trainer.records:
        raise ValueError(f"{trainer.epoch} epochs, of which {trainer.records} are recorded")
    trainer.seconds, trainer.epoch_seconds = state["seconds"], state["epoch_seconds"]
    problem.restore(state["sums"])
    trainer.last = None if state["last"] is None else EpochRecord.from_json(state["last"])
    trainer.best = None
    if state["best"] is not None:
        weights = {name: value.to(trainer.device) for name, value in parts["best"].items()}
        trainer.best = Best(EpochRecord.from_json(state["best"]), weights)
    restore_random_states({name: value.cpu() for name, value in _below("random.", training).items()}, trainer.device)


def _index(name: str) -> int:
    """The number of the parameter that a tensor ``INDEX.KEY`` of the optimiser belongs to."""
    return int(name.split(".", 1)[0])


def _below(prefix: str, tensors: Tensors) -> dict[str, Tensor]:
    return {name.removeprefix(prefix): value for name, value in tensors.items() if name.startswith(prefix)}
