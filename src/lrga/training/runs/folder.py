"""The folder of a run and its result: complete, human-readable, and valid at any time.

::

    config.json         the configuration
    model.json          the resolved network, the task, and the configuration at the start of the run
    environment.json    hardware, versions and commit of every start
    metrics.jsonl       one line for each epoch
    log.txt             events with their time
    checkpoints/        the last two (see lrga.training.runs.checkpoint)
    model.safetensors   at the end: weights of the last epoch; best.safetensors: the best weights in validation
    result.json         at the end: the results
"""

import json
import os
import time
from collections.abc import Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from torch import Tensor, nn

from lrga.data.datasets.spec import dataset_name
from lrga.distributed.launch.process_group import attempt
from lrga.errors import CheckpointError, OptionError
from lrga.io import limits
from lrga.io.documents import check_fields, read_json, sealed, unsealed, write_json
from lrga.io.files import append_bytes, check_plain, writing
from lrga.io.lock import FolderLock
from lrga.io.safetensors import load_tensors, save_tensors
from lrga.tasks.task import METRICS, number_format
from lrga.training.callbacks.base import EpochRecord
from lrga.training.config import TrainingConfig, first_difference
from lrga.training.parallel import launch_name, rank_zero_only
from lrga.training.problems.data import AnyArchitecture, AnyTask, read_facts
from lrga.training.runs.checkpoint import Checkpoint, Tensors, damage_explained, newest_checkpoint, write_checkpoint

_WRITTEN = (
    "environment.json", "metrics.jsonl", "log.txt", "model.safetensors", "best.safetensors", "result.json",
)  # fmt: skip
FINISHED = ("min_lr", "max_epochs")
_PLAIN = ("stopped_by", "metric", "epochs", "seconds", "parameters", "seed")


@dataclass(frozen=True, kw_only=True)
class TrainingResult:
    """The result of a run, finished or paused.

    Attributes:
        stopped_by: ``"min_lr"`` or ``"max_epochs"`` if it is finished; ``"time_limit"`` if it can be continued.
        metric: Name of the metric (:data:`lrga.tasks.METRICS`); accuracies are in percent.
        test: The reported number: the metric on ``test`` of the last epoch's model, or of the best one in validation if
            the protocol says so (link prediction). ``None`` before the first epoch.
        last: Record of the last epoch.
        best: Record of the best epoch in validation; compare ``best.test_metric`` with ``test``.
        epochs: Number of trained epochs.
        seconds: Training time, including evaluation.
        parameters: Number of parameters of the model.
        seed: Seed of the run.
        folder: The run folder, if any.
        history: Records of all epochs.
        model: The last epoch's model, in evaluation mode.
        reported: The reported epoch, ``"last"`` or ``"best"``.
    """

    stopped_by: str
    metric: str
    last: EpochRecord | None
    best: EpochRecord | None
    epochs: int
    seconds: float
    parameters: int
    seed: int
    folder: Path | None = field(default=None, compare=False)
    history: tuple[EpochRecord, ...] = ()
    reported: str = "last"
    model: nn.Module | None = field(default=None, repr=False, compare=False)

    @property
    def test(self) -> float | None:
        """The reported number."""
        record = self.best if self.reported == "best" else self.last
        return None if record is None else record.test_metric

    @property
    def finished(self) -> bool:
        """Whether the run reached its end; a paused one continues with the same call."""
        return self.stopped_by in FINISHED

    def format_metric(self, value: float) -> str:
        """Formats the metric with its usual number of digits."""
        return f"{value:{number_format(value, METRICS[self.metric].decimals)}}"

    def to_json(self) -> dict[str, Any]:
        """The contents of ``result.json``: all fields except folder, history and model."""
        records = {name: getattr(self, name) for name in ("last", "best")}
        return {
            "test": self.test,
            "reported": self.reported,
            **{key: getattr(self, key) for key in _PLAIN},
            **{name: None if record is None else record.to_json() for name, record in records.items()},
        }

    @classmethod
    def from_json(cls, values: Mapping[str, Any], **more: Any) -> "TrainingResult":
        """Reads the values of :meth:`to_json`; folder, history and model may be added."""
        with damage_explained("a result", "restore result.json, or train the run to its end again"):
            made: dict[str, Any] = {key: values[key] for key in _PLAIN}
            check_fields(cls, made)
            if made["metric"] not in METRICS:
                raise OptionError(f"a metric, one of {', '.join(METRICS)}", repr(made["metric"]), "")
            for name in ("last", "best"):
                made[name] = None if values[name] is None else EpochRecord.from_json(values[name])
        return cls(**made, **more)


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
    @rank_zero_only(False)
    def holds_a_run(self) -> bool:
        """Whether a run was ever started here."""
        return (self.path / "config.json").is_file()

    @property
    def begun_before_restart(self) -> bool:
        """Whether this command started the run before a restart by ``torchrun``."""
        if attempt() == 0 or (name := launch_name()) is None:
            return False
        return any(start.get("torchrun") == name for start in self.environments())

    @rank_zero_only(nullcontext())
    def lock(self) -> AbstractContextManager[Any]:
        """The lock of the folder, to be held during training."""
        with writing(self.path):
            self.path.mkdir(parents=True, exist_ok=True)
        return FolderLock(self.path)

    @rank_zero_only(None)
    def create(
        self,
        config: TrainingConfig,
        architecture: AnyArchitecture,
        task: AnyTask,
        fingerprint: str,
        features: Mapping[str, list[str]] | None = None,
    ) -> None:
        """Writes the description of the run; ``config.json`` last, so a folder with this file is complete.

        ``features`` holds the names of the columns of node and edge features, if any.
        """
        self._clear()
        facts = {"architecture": architecture.to_json(), "task": task.to_json(), "data": fingerprint}
        facts |= {"features": dict(features or {}), "config": config.to_json()}
        write_json(self.path / "model.json", sealed(facts))
        write_json(self.path / "config.json", config.to_json())

    def config(self) -> TrainingConfig:
        """The configuration of the run."""
        if not (self.path / "config.json").is_file():
            got = "no config.json there" if self.path.is_dir() else "no such folder"
            raise CheckpointError(f"a run folder at {self.path}", got, "pass a folder that lrga train wrote")
        values = read_json(self.path / "config.json")
        with damage_explained(f"{self.path / 'config.json'}"):
            config = TrainingConfig.from_json(values)
        old = dataset_name(config.data.name) is None and "standardize_targets" not in values.get("run", {})
        if old and dict(self._read("model.json").get("task", {})).get("kind") == "regression":
            return config.changed(standardize_targets=False)  # version 0.1 did not standardise targets
        return config

    def continue_with(self, config: TrainingConfig) -> None:
        """Marks a resumed run as unfinished and replaces its configuration; some options may change."""
        self._clear()
        with writing(self.path):
            (self.path / "result.json").unlink(missing_ok=True)  # first: it belongs to the previous configuration
        write_json(self.path / "config.json", config.to_json())

    def _clear(self) -> None:
        """Deletes temporary files of killed processes; this process holds the run's lock."""
        with writing(self.path):
            for left in self.path.glob(".*.tmp"):
                left.unlink(missing_ok=True)

    def model_facts(self) -> tuple[AnyArchitecture, AnyTask, str]:
        """The network, the task and the fingerprint of the data; raises an error if ``config.json`` was changed."""
        path, config = self.path / "model.json", self.config()
        with damage_explained(f"{path}"):
            facts = self._read("model.json")
            begun = TrainingConfig.from_json(facts["config"]) if "config" in facts else config
            if (found := first_difference(config, begun, ignore=("max_epochs",))) is not None:
                key, now, then = found  # continue_with may change max_epochs
                change = f"restore {key}={then!r} there, or train with {key}={now!r} in a new folder"
                got = f"{key}={now!r} in {self.path / 'config.json'}"
                raise CheckpointError(f"{key}={then!r}, the value at the start of the run in {self.path}", got, change)
            return *read_facts(facts["architecture"], facts["task"]), str(facts["data"])

    def features(self) -> dict[str, list[str]] | None:
        """``"node"`` and ``"edge"`` → names of the feature columns; ``None`` in runs of older versions."""
        return self._read("model.json").get("features")

    def _read(self, name: str) -> dict[str, Any]:
        """The values of a document with a checksum: ``model.json``, ``result.json``."""
        return unsealed(read_json(self.path / name), self.path / name)

    @rank_zero_only(None)
    def add_environment(self, facts: dict[str, Any]) -> None:
        """Adds the environment of this start of the run."""
        start = {"started": time.strftime("%Y-%m-%dT%H:%M:%S%z"), **facts}
        if (name := launch_name()) is not None:
            start["torchrun"] = name
        write_json(self.path / "environment.json", [*self.environments(), start])

    @rank_zero_only(None)
    def extend_environment(self, facts: dict[str, Any]) -> None:
        """Adds facts to the environment of the last start."""
        *before, last = self.environments()
        write_json(self.path / "environment.json", [*before, {**last, **facts}])

    def environments(self) -> list[dict[str, Any]]:
        """The environments of all starts of the run."""
        path = self.path / "environment.json"
        starts = read_json(path) if path.is_file() else []
        if not isinstance(starts, list) or not all(isinstance(start, dict) for start in starts):
            got = repr(starts)[:80]
            raise CheckpointError(f"a list of objects in {path}", got, "restore the file, or delete it")
        return starts

    @rank_zero_only((None, []))
    def checkpoint(self) -> tuple[Checkpoint | None, list[str]]:
        """The newest valid checkpoint, and the errors of newer ones; raises an error if it contradicts the folder."""
        checkpoint, problems = newest_checkpoint(self.path / "checkpoints")
        if checkpoint is not None:
            state = checkpoint.state
            records = state.get("records", state["epoch"])
            epochs = [record.epoch for record in self.history(state["metrics_bytes"])]
            if epochs != list(range(1, records + 1)):
                got = f"{len(epochs)}, with the numbers {str(epochs)[:40]}, in metrics.jsonl"
                remedy = "restore the folder, or train again in another folder"
                raise CheckpointError(f"the {records} epochs of {checkpoint.path}", got, remedy)
        return checkpoint, problems

    @rank_zero_only(None)
    def check_new(self) -> None:
        """Raises an error if there are files of a run whose ``config.json`` is missing: they belong to another run."""
        if found := [name for name in (*_WRITTEN, "checkpoints") if (self.path / name).exists()]:
            remedy = "restore config.json, or train in another folder"
            raise CheckpointError(f"the config.json of the run in {self.path}", f"only {', '.join(found)}", remedy)

    def check_files(self) -> None:
        """Raises an error if a file of the run is not a regular file: writing would fail, or go to another place."""
        for name in _WRITTEN:
            check_plain(self.path / name)
        if (path := self.path / "checkpoints").is_symlink():
            raise CheckpointError(f"a folder at {path}", "a link to another folder", "replace the link with the folder")
        self.environments()  # raises an error for a damaged file

    def check_same(self, config: TrainingConfig, *, ignore: tuple[str, ...] = ()) -> None:
        """Raises an error if a configuration would compute something different from the run."""
        if (found := first_difference(config, self.config(), ignore=ignore)) is not None:
            key, value, there = found
            remedy = "train in another folder, or pass the options of that run"
            raise CheckpointError(f"the run in {self.path} ({key}={there!r})", f"{key}={value!r}", remedy)

    @rank_zero_only(Path())
    def save_checkpoint(self, name: str, parts: dict[str, dict[str, Tensor]], state: dict[str, Any]) -> Path:
        """Writes a checkpoint, with the current size of ``metrics.jsonl``."""
        metrics = self.path / "metrics.jsonl"
        size = metrics.stat().st_size if metrics.exists() else 0
        return write_checkpoint(self.path / "checkpoints", name, parts, {**state, "metrics_bytes": size})

    @rank_zero_only(None)
    def append_metrics(self, record: EpochRecord) -> None:
        """Adds the line of an epoch."""
        append_bytes(self.path / "metrics.jsonl", (json.dumps(record.to_json(), allow_nan=False) + "\n").encode())

    @rank_zero_only(None)
    def cut_metrics(self, size: int) -> None:
        """Removes lines written after the checkpoint from which training continues: these epochs are repeated."""
        path = self.path / "metrics.jsonl"
        if path.exists():
            with writing(path):
                os.truncate(path, size)

    @rank_zero_only(())
    def history(self, size: int | None = None) -> tuple[EpochRecord, ...]:
        """All epochs of ``metrics.jsonl``, or those in its first ``size`` bytes."""
        path = self.path / "metrics.jsonl"
        remedy = "restore the file" if size else "resume the run, which repairs it, or restore the file"
        with damage_explained(f"one epoch on each line of {path}", remedy):
            content = limits.read_bytes(path, error=CheckpointError)[:size] if path.exists() else b""
            if size and (len(content) < size or content[-1:] != b"\n"):
                raise ValueError(f"no line end after {size:,} bytes, the size in the checkpoint")
            return tuple(EpochRecord.from_json(limits.parse_json(line, finite=True)) for line in content.splitlines())

    @rank_zero_only(None)
    def log(self, text: str) -> None:
        """Adds a line with the time to ``log.txt``."""
        line = f"{time.strftime('%Y-%m-%d %H:%M:%S')}  {text}\n"
        append_bytes(self.path / "log.txt", line.encode(errors="backslashreplace"))

    @rank_zero_only(None)
    def save_result(self, values: dict[str, Any], weights: dict[str, Tensors]) -> None:
        """Writes the final weights, then the result; a run with ``result.json`` is finished."""
        for name, tensors in weights.items():
            save_tensors(self.path / f"{name}.safetensors", tensors)
        write_json(self.path / "result.json", sealed(values))

    def result(self) -> TrainingResult | None:
        """The result in ``result.json``; ``None`` before the end; raises an error if it contradicts the folder."""
        path, config = self.path / "result.json", self.config()
        if not path.is_file():
            return None
        found = TrainingResult.from_json(self._read("result.json"), folder=self.path, reported=config.reported)
        wanted = config.optimizer.max_epochs
        if found.epochs > wanted or (found.stopped_by == "max_epochs" and found.epochs < wanted):
            remedy = f"restore max_epochs={found.epochs} there, then: lrga train --resume {self.path} --epochs N"
            got = f"max_epochs={wanted} in {self.path / 'config.json'}"
            raise CheckpointError(f"the {found.epochs} epochs of {path}", got, remedy)
        return found

    def weights(self, which: str = "model") -> dict[str, Tensor]:
        """Final weights, ``"model"`` or ``"best"``; before the end, those of the newest checkpoint."""
        path = self.path / f"{which}.safetensors"
        if path.is_file() and self.result() is not None:
            return load_tensors(path, remedy="use the weights of a checkpoint")
        checkpoint, _ = self.checkpoint()
        if which == "model" and checkpoint is not None and "average" in checkpoint.parts:
            return checkpoint.parts["model"] | checkpoint.parts["average"]
        if checkpoint is None or which not in checkpoint.parts:
            got = "no checkpoint yet" if checkpoint is None else "no finished epoch yet"
            raise CheckpointError(f"weights in {self.path}", got, f"train first: lrga train --resume {self.path}")
        return checkpoint.parts[which]
