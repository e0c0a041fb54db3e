"""The folder of a run: complete, readable by eye, and sound at every moment.

::

    config.json         the configuration
    model.json          the network to the last number, and the task
    environment.json    hardware, versions and commit of every start
    metrics.jsonl       one line for each epoch
    log.txt             what happened when
    checkpoints/        the last two (see lrga.training.checkpoint)
    model.safetensors   at the end: weights of the last epoch; best.safetensors those best in validation
    result.json         at the end: the numbers
"""

import json
import os
import time
from pathlib import Path
from typing import Any

from safetensors import SafetensorError
from safetensors.torch import load, save
from torch import Tensor

from lrga import limits
from lrga.errors import CheckpointError
from lrga.tasks.task import Task
from lrga.training.architecture import Architecture
from lrga.training.checkpoint import Checkpoint, Tensors, newest_checkpoint, write_checkpoint
from lrga.training.config import TrainingConfig
from lrga.training.events import EpochRecord
from lrga.training.files import check_plain, read_json, replace_file, replace_json, writing
from lrga.training.lock import FolderLock


class RunFolder:
    """Reads and writes one run folder.

    Example:
        >>> import tempfile
        >>> RunFolder(tempfile.mkdtemp()).holds_a_run
        False
    """

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)

    @property
    def holds_a_run(self) -> bool:
        """Whether a run was ever started here."""
        return (self.path / "config.json").is_file()

    def lock(self) -> FolderLock:
        """To be held while training."""
        with writing(self.path):
            self.path.mkdir(parents=True, exist_ok=True)
        return FolderLock(self.path)

    def create(self, config: TrainingConfig, architecture: Architecture, task: Task, fingerprint: str) -> None:
        """Writes down what the run is; ``config.json`` last, so that a folder with one is complete."""
        facts = {"architecture": architecture.to_json(), "task": task.to_json(), "data": fingerprint}
        replace_json(self.path / "model.json", facts)
        replace_json(self.path / "config.json", config.to_json())

    def config(self) -> TrainingConfig:
        """The configuration of the run."""
        if not self.holds_a_run:
            got = "no config.json there" if self.path.is_dir() else "no such folder"
            raise CheckpointError(f"a run folder at {self.path}", got, "name the folder that lrga train wrote")
        return TrainingConfig.from_json(read_json(self.path / "config.json"))

    def rewrite_config(self, config: TrainingConfig) -> None:
        """Replaces the configuration, for options that may change when a run is continued."""
        replace_json(self.path / "config.json", config.to_json())

    def model_facts(self) -> tuple[Architecture, Task, str]:
        """The network, the task and the fingerprint of the data."""
        facts = read_json(self.path / "model.json")
        try:
            if facts["task"]["kind"] == "link":
                return _link_facts(facts)
            return Architecture.from_json(facts["architecture"]), Task.from_json(facts["task"]), facts["data"]
        except (KeyError, TypeError) as error:
            remedy = "restore the file, or train anew"
            raise CheckpointError(
                f"architecture, task and data in {self.path / 'model.json'}", str(error), remedy
            ) from error

    def add_environment(self, facts: dict[str, Any]) -> None:
        """Adds where this start of the run happens."""
        path = self.path / "environment.json"
        starts = read_json(path) if path.is_file() else []
        replace_json(path, [*starts, {"started": time.strftime("%Y-%m-%dT%H:%M:%S%z"), **facts}])

    def extend_environment(self, facts: dict[str, Any]) -> None:
        """Adds facts to those of the last start."""
        *before, last = self.environments()
        replace_json(self.path / "environment.json", [*before, {**last, **facts}])

    def environments(self) -> list[dict[str, Any]]:
        """Where every start of the run happened."""
        return list(read_json(self.path / "environment.json"))

    def checkpoint(self) -> tuple[Checkpoint | None, list[str]]:
        """The newest sound checkpoint, and what was wrong with newer ones."""
        return newest_checkpoint(self.path / "checkpoints")

    def save_checkpoint(self, name: str, parts: dict[str, dict[str, Tensor]], state: dict[str, Any]) -> Path:
        """Writes a checkpoint; it remembers how much of ``metrics.jsonl`` belongs to it."""
        metrics = self.path / "metrics.jsonl"
        size = metrics.stat().st_size if metrics.exists() else 0
        return write_checkpoint(self.path / "checkpoints", name, parts, {**state, "metrics_bytes": size})

    def append_metrics(self, record: EpochRecord) -> None:
        """Adds the line of an epoch."""
        path = self.path / "metrics.jsonl"
        check_plain(path)
        with writing(path), open(path, "ab") as file:
            file.write((json.dumps(record.to_json(), allow_nan=False) + "\n").encode())
            file.flush()
            os.fsync(file.fileno())

    def cut_metrics(self, size: int) -> None:
        """Drops lines written after the checkpoint that training goes on from: those epochs come again."""
        path = self.path / "metrics.jsonl"
        check_plain(path)
        found = path.stat().st_size if path.exists() else 0
        if found < size:
            remedy = "restore the file, or train anew"
            raise CheckpointError(f"at least {size:,} bytes in {path}", f"{found:,} bytes", remedy)
        if found > size:
            with writing(path):
                os.truncate(path, size)

    def history(self) -> tuple[EpochRecord, ...]:
        """All epochs of ``metrics.jsonl``."""
        path = self.path / "metrics.jsonl"
        if not path.exists():
            return ()
        try:
            content = limits.read_bytes(path, error=CheckpointError)
            return tuple(EpochRecord(**limits.parse_json(line)) for line in content.decode("utf-8").splitlines())
        except (OSError, ValueError, TypeError) as error:
            remedy = "continue the run, which mends it, or restore the file"
            raise CheckpointError(f"one epoch on each line of {path}", str(error), remedy) from error

    def log(self, text: str) -> None:
        """Adds a line with the time to ``log.txt``."""
        path = self.path / "log.txt"
        check_plain(path)
        with writing(path), open(path, "a", encoding="utf-8") as file:
            file.write(f"{time.strftime('%Y-%m-%d %H:%M:%S')}  {text}\n")

    def save_result(self, values: dict[str, Any], weights: dict[str, Tensors]) -> None:
        """Writes the final weights, then the result: a folder with ``result.json`` is finished."""
        for name, tensors in weights.items():
            plain = {key: tensor.detach().to("cpu", copy=True).contiguous() for key, tensor in tensors.items()}
            replace_file(self.path / f"{name}.safetensors", save(plain))
        replace_json(self.path / "result.json", values)

    def result(self) -> dict[str, Any] | None:
        """What ``result.json`` holds; ``None`` before the end."""
        path = self.path / "result.json"
        return dict(read_json(path)) if path.is_file() else None

    def weights(self, which: str = "model") -> dict[str, Tensor]:
        """Final weights, ``"model"`` or ``"best"``; before the end those of the newest checkpoint."""
        path = self.path / f"{which}.safetensors"
        if path.is_file() and self.result() is not None:
            try:
                return load(limits.read_bytes(path, error=CheckpointError))
            except (OSError, SafetensorError) as error:
                raise CheckpointError(f"whole weights in {path}", str(error), "take a checkpoint's") from error
        checkpoint, _ = self.checkpoint()
        if checkpoint is None or which not in checkpoint.parts:
            got = "no checkpoint yet" if checkpoint is None else "no finished epoch yet"
            raise CheckpointError(f"weights in {self.path}", got, f"train first: lrga train --resume {self.path}")
        return checkpoint.parts[which]


def _link_facts(facts: dict[str, Any]) -> Any:
    """The same of a link-prediction run, whose network and task have classes of their own."""
    from lrga.tasks.link import LinkTask
    from lrga.training.link_architecture import LinkArchitecture

    return LinkArchitecture.from_json(facts["architecture"]), LinkTask.from_json(facts["task"]), facts["data"]
