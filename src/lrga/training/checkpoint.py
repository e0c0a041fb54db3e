"""A training run put aside: tensors as ``safetensors``, everything else as JSON, nothing pickled.

A checkpoint is a folder ``checkpoints/EPOCH-BATCH`` that appears whole or not at all::

    model.safetensors      weights and BatchNorm statistics
    best.safetensors       the same of the epoch that was best in validation
    training.safetensors   Adam's moments, random states
    state.json             position, learning rate, schedule, sums of the running epoch; size and checksum of the others
"""

import hashlib
import re
import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from safetensors.torch import load, save
from torch import Tensor

from lrga import limits
from lrga.errors import CheckpointError
from lrga.training.files import place_folder, to_json_bytes, writing

FORMAT = 1
STATE = "state.json"
KEPT = 2  # so that a damaged file costs an epoch and not the run
_NAME = re.compile(r"\d{6}-\d{7}")

Tensors = Mapping[str, Tensor]


@dataclass(frozen=True)
class Checkpoint:
    """What :func:`write_checkpoint` wrote: tensors by part (``model``, ``best``, ``training``) and the rest."""

    path: Path
    parts: dict[str, dict[str, Tensor]]
    state: dict[str, Any]


def checkpoint_name(epoch: int, batch: int) -> str:
    """Names sort in the order of training: ``epoch`` epochs and ``batch`` batches of the next are done."""
    return f"{epoch:06d}-{batch:07d}"


def write_checkpoint(folder: Path, name: str, parts: Mapping[str, Tensors], state: Mapping[str, Any]) -> Path:
    """Writes a checkpoint below ``folder`` and then deletes all but the last two."""
    files = {f"{part}.safetensors": save(_plain(tensors)) for part, tensors in parts.items()}
    facts = {
        name: {"bytes": len(content), "sha256": hashlib.sha256(content).hexdigest()} for name, content in files.items()
    }
    files[STATE] = to_json_bytes({"format": FORMAT, "files": facts, "state": state})
    target = folder / name
    place_folder(target, files)
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
        written = limits.read_json(path / STATE, error=CheckpointError)
        if written["format"] != FORMAT:
            got = f"format {written['format']}"
            raise CheckpointError(f"{path} in format {FORMAT}", got, "continue with the version that wrote it")
        parts = {}
        for name, facts in written["files"].items():
            content = limits.read_bytes(path / name, error=CheckpointError)
            if len(content) != facts["bytes"] or hashlib.sha256(content).hexdigest() != facts["sha256"]:
                what = "another content" if len(content) == facts["bytes"] else f"{len(content):,} bytes"
                raise CheckpointError(f"{path / name} as it was written ({facts['bytes']:,} bytes)", what, remedy)
            parts[name.removesuffix(".safetensors")] = load(content)
        return Checkpoint(path, parts, written["state"])
    except (OSError, ValueError, KeyError, TypeError, SafetensorError) as error:
        raise CheckpointError(f"a whole checkpoint in {path}", f"{type(error).__name__}: {error}", remedy) from error


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


def _plain(tensors: Tensors) -> dict[str, Tensor]:
    """Contiguous copies on the CPU: safetensors takes neither views nor shared memory."""
    return {name: tensor.detach().to("cpu", copy=True).contiguous() for name, tensor in tensors.items()}


def optimizer_parts(optimizer: torch.optim.Optimizer) -> tuple[dict[str, Tensor], list[dict[str, Any]]]:
    """An optimiser's state as tensors ``INDEX.KEY`` and its parameter groups as JSON values."""
    written = optimizer.state_dict()
    tensors = {f"{index}.{key}": value for index, entry in written["state"].items() for key, value in entry.items()}
    return tensors, written["param_groups"]


def load_optimizer(optimizer: torch.optim.Optimizer, tensors: Tensors, groups: list[dict[str, Any]]) -> None:
    """Takes up what :func:`optimizer_parts` gave; what belongs to the device (``fused``) stays the optimiser's own."""
    state: dict[int, dict[str, Tensor]] = {}
    for name, tensor in tensors.items():
        index, key = name.split(".", 1)
        state.setdefault(int(index), {})[key] = tensor
    own = optimizer.state_dict()["param_groups"]
    fixed = ("fused", "foreach", "capturable")
    merged = [  # options that only a newer PyTorch has are the optimiser's own too
        {**mine, **saved, **{key: mine[key] for key in fixed}} for saved, mine in zip(groups, own, strict=True)
    ]
    optimizer.load_state_dict({"state": state, "param_groups": merged})
