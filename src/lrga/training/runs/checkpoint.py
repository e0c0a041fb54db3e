"""Checkpoints of a training run: tensors as ``safetensors``, everything else as JSON, without pickles.

A checkpoint is a folder ``checkpoints/STAGE-EPOCH-BATCH``, written atomically::

    model.safetensors      weights and BatchNorm statistics
    best.safetensors       the same for the best epoch in validation
    average.safetensors    moving average of the weights, if used
    training.safetensors   moments of the optimiser, random states
    state.json             stage and position, learning rate, schedule, sums of the current epoch; size and checksum of
                           the other files
"""

import hashlib
import re
import shutil
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
import torch.distributed as dist
from torch import Tensor

from lrga.distributed.collectives import world_size
from lrga.errors import CheckpointError, LRGAError
from lrga.io import limits
from lrga.io.documents import sealed, to_json_bytes, unsealed
from lrga.io.files import write_folder, writing
from lrga.io.safetensors import from_bytes, to_bytes
from lrga.training.callbacks.base import Checkpointer, EpochRecord
from lrga.training.determinism import random_states, restore_random_states
from lrga.training.parallel import broadcast

if TYPE_CHECKING:
    from lrga.training.runs.folder import RunFolder
    from lrga.training.runs.run import StopRequest
    from lrga.training.trainer import Trainer

FORMAT = 1
STATE = "state.json"
MAX_KEPT = 2  # a damaged file then costs an epoch, not the run
MIN_SECONDS = 10.0  # minimum time between checkpoints after short epochs
PAUSE_REASONS = (None, "checkpoint", "time_limit", "interrupted")  # the highest index over all ranks wins
_NAME = re.compile(r"(\d-)?\d{6}-\d{7}")  # version 0.1 had no stages
_RESTORE = "restore the folder, or train again in another folder"

_PLACE = ("epoch", "batch", "records", "seconds", "epoch_seconds")  # attributes of a trainer

Tensors = Mapping[str, Tensor]


@contextmanager
def damage_explained(what: str, remedy: str = _RESTORE) -> Iterator[None]:
    """Converts errors while reading ``what`` from a file to a :class:`CheckpointError`."""
    try:
        yield
    except CheckpointError:
        raise
    except LRGAError as error:
        raise CheckpointError(f"{what} with {error.expected}", error.got, remedy) from error
    except (OSError, LookupError, TypeError, ValueError, AttributeError, RuntimeError, OverflowError) as error:
        got = f"{type(error).__name__}: {(str(error).splitlines() or [''])[-1].strip()}"
        raise CheckpointError(what, got, remedy) from error


@dataclass(frozen=True)
class Checkpoint:
    """Contents of a checkpoint: tensors by part (``model``, ``best``, ``training``) and the other state."""

    path: Path
    parts: dict[str, dict[str, Tensor]]
    state: dict[str, Any]


def checkpoint_name(stage: int, epoch: int, batch: int) -> str:
    """The name for these numbers of finished stages, epochs and batches; names sort in the order of training."""
    return f"{stage}-{epoch:06d}-{batch:07d}"


def write_checkpoint(folder: Path, name: str, parts: Mapping[str, Tensors], state: Mapping[str, Any]) -> Path:
    """Writes a checkpoint in ``folder`` and then deletes all but the last two."""
    files = {f"{part}.safetensors": to_bytes(tensors) for part, tensors in parts.items()}
    facts = {n: {"bytes": len(c), "sha256": hashlib.sha256(c).hexdigest()} for n, c in files.items()}
    files[STATE] = to_json_bytes(sealed({"format": FORMAT, "files": facts, "state": state}))
    target = folder / name
    write_folder(target, files)
    with writing(folder):
        for old in sorted(_all(folder))[:-MAX_KEPT]:
            shutil.rmtree(old)
        for left in folder.glob(".writing-*"):  # left by a killed process; this process holds the run's lock
            shutil.rmtree(left)
    return target


def read_checkpoint(path: Path) -> Checkpoint:
    """Reads and verifies one checkpoint."""
    remedy = "delete this folder: the run then continues from the previous checkpoint, if there is one"
    with damage_explained(f"a complete checkpoint in {path}", remedy):
        written = limits.parse_json(limits.read_bytes(path / STATE, error=CheckpointError), finite=True)
        if written["format"] != FORMAT:
            got = f"format {written['format']}"
            raise CheckpointError(f"{path} in format {FORMAT}", got, "continue with the version that wrote it")
        if "stage" in written["state"] and "sha256" not in written:  # version 0.1 did not always write it
            raise CheckpointError(f"{path / STATE} with its checksum", "none", remedy)
        written = unsealed(written, path / STATE)
        parts = {}
        for name, facts in written["files"].items():
            content = limits.read_bytes(path / name, error=CheckpointError)
            if len(content) != facts["bytes"] or hashlib.sha256(content).hexdigest() != facts["sha256"]:
                what = "other content" if len(content) == facts["bytes"] else f"{len(content):,} bytes"
                raise CheckpointError(f"{path / name} unchanged ({facts['bytes']:,} bytes)", what, remedy)
            parts[name.removesuffix(".safetensors")] = from_bytes(content)
        return Checkpoint(path, parts, dict(written["state"]))


def newest_checkpoint(folder: Path) -> tuple[Checkpoint | None, list[str]]:
    """The newest valid checkpoint in ``folder`` (``None`` if there are no checkpoints), and the errors of newer ones.

    If all checkpoints are damaged, an error is raised.
    """
    problems: list[CheckpointError] = []
    for path in sorted(_all(folder), reverse=True):
        try:
            return read_checkpoint(path), [str(problem) for problem in problems]
        except CheckpointError as error:
            problems.append(error)
    if problems:
        raise problems[0]
    return None, []


def _all(folder: Path) -> list[Path]:
    return [path for path in folder.iterdir() if _NAME.fullmatch(path.name)] if folder.is_dir() else []


def capture(trainer: "Trainer") -> tuple[dict[str, dict[str, Tensor]], dict[str, Any]]:
    """The complete training state: tensors by part (``model``, ``best``, ``average``, ``training``) and JSON values.

    Tensors are not copied. If several processes share a model, all must call this function; each gets the whole state.
    """
    problem, optimizer = trainer.problem, trainer.optimizer.state_dict()
    trained = _trained(trainer)
    training = {
        f"optimizer.{index}.{key}": problem.gather(trained[index], value)
        for index, entry in optimizer["state"].items()
        for key, value in entry.items()
    }
    training |= {f"random.{name}": value for name, value in random_states(trainer.device).items()}
    parts = {"model": problem.gather_all(trainer.model.state_dict()), "training": training}
    if trainer.average is not None:
        parts["average"] = problem.gather_all(trainer.average.averages)
    if trainer.best is not None:
        parts["best"] = trainer.best.weights
    return parts, {
        "stage": trainer.problem.name,
        **{name: getattr(trainer, name) for name in _PLACE},
        "optimizer": optimizer["param_groups"],
        "schedule": trainer.schedule.state(),
        "scaler": trainer.scaler.state_dict(),
        "sums": problem.sums.state(),
        "numbers": dict(trainer.numbers),
        "last": None if trainer.last is None else trainer.last.to_json(),
        "best": None if trainer.best is None else trainer.best.record.to_json(),
    }


@damage_explained("a checkpoint that fits this run")
def restore(trainer: "Trainer", parts: Mapping[str, Tensors], state: Mapping[str, Any]) -> None:
    """Restores a trainer from a :func:`capture`; a state that does not fit raises an error."""
    from lrga.training.trainer import Best

    if "stage" not in state:
        remedy = "finish it with lrga 0.1, or train again in another folder"
        raise CheckpointError("a checkpoint of this version of lrga", "a checkpoint of version 0.1", remedy)
    stage = [problem.name for problem in trainer.stages].index(state["stage"])
    if stage != trainer.stage:
        trainer.start_stage(stage)
    trainer.engine = None  # moments get new memory addresses, so captured steps are invalid
    problem, parameters = trainer.problem, dict(trainer.model.named_parameters())
    trainer.model.load_state_dict(dict(parts["model"]))
    trained, random = _trained(trainer), {}
    moments: dict[int, dict[str, Tensor]] = {}
    for name, value in parts["training"].items():
        kind, key = name.split(".", 1)
        if kind == "random":
            random[key] = value.cpu()
        else:
            index, key = key.split(".", 1)
            moments.setdefault(int(index), {})[key] = problem.take(trained[int(index)], value)
    own = trainer.optimizer.state_dict()["param_groups"]
    groups = [{**group, "lr": saved["lr"]} for group, saved in zip(own, state["optimizer"], strict=True)]
    trainer.optimizer.load_state_dict({"state": moments, "param_groups": groups})
    trainer.schedule.restore(state["schedule"])
    trainer.scaler.load_state_dict(state["scaler"])
    if trainer.average is not None:
        for name, average in trainer.average.averages.items():
            average.copy_(problem.take(parameters[name], parts["average"][name]))
    for name in _PLACE:
        setattr(trainer, name, state[name])
    trainer.numbers = dict(state.get("numbers", {}))
    problem.sums.restore(state["sums"])
    problem.restored()
    trainer.last = None if state["last"] is None else EpochRecord.from_json(state["last"])
    trainer.best = None
    if state["best"] is not None:
        weights = {name: value.to(trainer.device) for name, value in parts["best"].items()}
        trainer.best = Best(EpochRecord.from_json(state["best"]), weights)
    restore_random_states(random, trainer.device)


def _trained(trainer: "Trainer") -> list[torch.nn.Parameter]:
    """The parameters in the order of the optimiser."""
    return [parameter for group in trainer.optimizer.param_groups for parameter in group["params"]]


class FolderCheckpointer(Checkpointer):
    """Saves a run in its folder; pauses at a deadline and on Ctrl-C, on all ranks at the same step."""

    def __init__(self, folder: "RunFolder", request: "StopRequest", minutes: float, deadline: float | None) -> None:
        self.folder, self.request, self.deadline = folder, request, deadline
        self.seconds, self._saved_at, self._saved = 60 * minutes, time.monotonic(), ""

    def pause(self, trainer: "Trainer") -> str | None:
        reason, now = None, time.monotonic()
        if self.request.received is not None:
            reason = "interrupted"
        elif self.deadline is not None and now >= self.deadline:
            reason = "time_limit"
        elif now - self._saved_at >= self.seconds and trainer.guard.is_finite():  # else the guard reports the problem
            reason = "checkpoint"
        if world_size() > 1:
            if trainer.device.type == "cuda" and trainer.batch % 16:  # asking other ranks synchronises the GPU
                return None
            code = torch.tensor([PAUSE_REASONS.index(reason)], device=trainer.device)
            dist.all_reduce(code, op=dist.ReduceOp.MAX)
            reason = PAUSE_REASONS[int(code)]
        if reason == "checkpoint":
            self.save(trainer)
            return None
        return reason

    def log(self, text: str, facts: dict[str, Any]) -> None:
        self.folder.log(text)
        self.folder.extend_environment(facts)

    def end_epoch(self, trainer: "Trainer", record: EpochRecord | None) -> None:
        if record is not None:
            self.folder.append_metrics(record)
        due = trainer.finished is not None or time.monotonic() - self._saved_at >= min(self.seconds, MIN_SECONDS)
        if broadcast(due):
            self.save(trainer)

    def save(self, trainer: "Trainer") -> None:
        name = checkpoint_name(*trainer.position)
        if name != self._saved:  # otherwise nothing changed since the last checkpoint
            trainer.notify("on_checkpoint", self.folder.save_checkpoint(name, *capture(trainer)))
        self._saved, self._saved_at = name, time.monotonic()
