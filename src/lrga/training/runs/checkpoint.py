"""A training run put aside: tensors as ``safetensors``, everything else as JSON, nothing pickled.

A checkpoint is a folder ``checkpoints/STAGE-EPOCH-BATCH`` that appears whole or not at all::

    model.safetensors      weights and BatchNorm statistics
    best.safetensors       the same of the epoch that was best in validation
    average.safetensors    moving average of the weights, where there is one
    training.safetensors   moments of the optimiser, random states
    state.json             stage and position, learning rate, schedule, sums of the running epoch; size and checksum of
                           the others
"""

import hashlib
import re
import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from lrga.errors import CheckpointError, LRGAError, OptionError
from lrga.io import limits
from lrga.io.documents import is_number, sealed, to_json_bytes, unsealed
from lrga.io.files import write_folder, writing
from lrga.io.safetensors import from_bytes, to_bytes

FORMAT = 1
STATE = "state.json"
KEPT = 2  # so that a damaged file costs an epoch and not the run
_NAME = re.compile(r"(\d-)?\d{6}-\d{7}")  # version 0.1 had no stages
_RESTORE = "restore the folder, or train anew in another"

Tensors = Mapping[str, Tensor]


@dataclass(frozen=True)
class Checkpoint:
    """What :func:`write_checkpoint` wrote: tensors by part (``model``, ``best``, ``training``) and the rest."""

    path: Path
    parts: dict[str, dict[str, Tensor]]
    state: dict[str, Any]


def checkpoint_name(stage: int, epoch: int, batch: int) -> str:
    """Names sort in the order of training: so many stages, epochs of the next and batches of its next are done."""
    return f"{stage}-{epoch:06d}-{batch:07d}"


def write_checkpoint(folder: Path, name: str, parts: Mapping[str, Tensors], state: Mapping[str, Any]) -> Path:
    """Writes a checkpoint below ``folder`` and then deletes all but the last two."""
    files = {f"{part}.safetensors": to_bytes(tensors) for part, tensors in parts.items()}
    facts = {
        name: {"bytes": len(content), "sha256": hashlib.sha256(content).hexdigest()} for name, content in files.items()
    }
    files[STATE] = to_json_bytes(sealed({"format": FORMAT, "files": facts, "state": state}))
    target = folder / name
    write_folder(target, files)
    with writing(folder):
        for old in sorted(_all(folder))[:-KEPT]:
            shutil.rmtree(old)
        for left in folder.glob(".writing-*"):  # by a process that was killed; this one holds the run's lock
            shutil.rmtree(left)
    return target


def read_checkpoint(path: Path) -> Checkpoint:
    """Reads and verifies one checkpoint."""
    remedy = "delete this folder: the run then continues from the checkpoint before it, if there is one"
    try:
        written = limits.parse_json(limits.read_bytes(path / STATE, error=CheckpointError), finite=True)
        if written["format"] != FORMAT:
            got = f"format {written['format']}"
            raise CheckpointError(f"{path} in format {FORMAT}", got, "continue with the version that wrote it")
        written = unsealed(written, path / STATE)
        parts = {}
        for name, facts in written["files"].items():
            content = limits.read_bytes(path / name, error=CheckpointError)
            if len(content) != facts["bytes"] or hashlib.sha256(content).hexdigest() != facts["sha256"]:
                what = "another content" if len(content) == facts["bytes"] else f"{len(content):,} bytes"
                raise CheckpointError(f"{path / name} as it was written ({facts['bytes']:,} bytes)", what, remedy)
            parts[name.removesuffix(".safetensors")] = from_bytes(content)
        return Checkpoint(path, parts, dict(written["state"]))
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise CheckpointError(f"a whole checkpoint in {path}", f"{type(error).__name__}: {error}", remedy) from error


@contextmanager
def restoring() -> Iterator[None]:
    """Turns what a state that does not fit raises into an error that says what to do."""
    try:
        yield
    except LRGAError as error:
        if isinstance(error, CheckpointError):
            raise
        raise CheckpointError(f"a checkpoint with {error.expected}", error.got, _RESTORE) from error
    except (LookupError, TypeError, ValueError, AttributeError, OverflowError, RuntimeError) as error:
        got = f"{type(error).__name__}: {(str(error).splitlines() or [''])[0]}"
        raise CheckpointError("a checkpoint that fits this run", got, _RESTORE) from error


def newest_checkpoint(folder: Path) -> tuple[Checkpoint | None, list[str]]:
    """The newest sound checkpoint below ``folder``, ``None`` without any; and what was wrong with newer ones.

    Where there are checkpoints but none is sound, that is an error.
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


def optimizer_parts(optimizer: torch.optim.Optimizer) -> tuple[dict[str, Tensor], list[dict[str, Any]]]:
    """An optimiser's state as tensors ``INDEX.KEY`` and its parameter groups as JSON values."""
    written = optimizer.state_dict()
    tensors = {f"{index}.{key}": value for index, entry in written["state"].items() for key, value in entry.items()}
    return tensors, written["param_groups"]


def load_optimizer(optimizer: torch.optim.Optimizer, tensors: Tensors, groups: list[dict[str, Any]]) -> None:
    """Loads the moments and learning rates saved by :func:`optimizer_parts`; other options stay the optimiser's own."""
    state: dict[int, dict[str, Tensor]] = {}
    for name, tensor in tensors.items():
        index, key = name.split(".", 1)
        state.setdefault(int(index), {})[key] = tensor
    own = optimizer.state_dict()["param_groups"]
    if not all(is_number(saved["lr"]) for saved in groups):
        raise OptionError("learning rates that are numbers", repr([saved["lr"] for saved in groups])[:80], "")
    merged = [{**mine, "lr": saved["lr"]} for saved, mine in zip(groups, own, strict=True)]
    optimizer.load_state_dict({"state": state, "param_groups": merged})
