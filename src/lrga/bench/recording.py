"""From a run folder to its record."""

import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from lrga.bench.learning_curve import compact
from lrga.bench.paper import Published
from lrga.bench.records import CLOCK, FAILED, RunRecord
from lrga.data.datasets.building import plan_dataset
from lrga.data.datasets.place import SPLITS
from lrga.data.datasets.spec import dataset_name
from lrga.errors import CheckpointError
from lrga.training.callbacks.events import EpochRecord, Listener, RunFacts
from lrga.training.config import PLACE_OPTIONS, TrainingConfig, essence
from lrga.training.problems.kinds import AnyArchitecture, AnyTask
from lrga.training.runs.folder import RunFolder


class Witness(Listener):
    """Remembers what a run says of itself when it begins."""

    def __init__(self) -> None:
        self.facts: RunFacts | None = None

    def started(self, facts: RunFacts) -> None:
        self.facts = facts


def make_record(
    config: TrainingConfig,
    folder: Path,
    *,
    status: str,
    reason: str,
    published: Published | None = None,
    facts: RunFacts | None = None,
    given: bool = False,
    seconds: float | None = None,
) -> RunRecord:
    """The record of a run as its folder has it.

    Args:
        config: The run's configuration.
        folder: Its run folder, which need not hold anything where the run failed early.
        status: How it ended.
        reason: Why.
        published: The paper's number beside it.
        facts: What the run said when it began.
        given: Whether the graphs were passed in, so that the name of the data says nothing of where they come from.
        seconds: Spent on it; by default what its epochs took.
    """
    home = RunFolder(folder)
    try:
        history, environment = home.history(), home.environments()
        network, task, checksum = home.model_facts() if home.holds_a_run else (None, None, None)
    except CheckpointError:
        if status != FAILED:  # a folder that cannot be read is a failed run, not the end of the campaign
            raise
        history, environment, network, task, checksum = (), [], None, None, None
    words = ("model", "budget", "lrga", "preset", "reading") if config.problem == "graphs" else ("model", "lrga")
    model: dict[str, Any] = {key: getattr(config.model, key) for key in words}
    if network is not None:
        model |= {"parameters": _parameters(network, facts, history), "architecture": network.to_json()}
    spent = history[-1].elapsed if history else 0.0
    best = None if task is None else best_epoch(history, task)
    return RunRecord(
        run=folder.name,
        status=status,
        reason=reason,
        data=_data_facts(config, given=given) | {"graphs": _graphs(config, facts, given=given), "sha256": checksum},
        model=model,
        config=_without_places(config),
        seed=config.run.seed,
        metric=None if task is None else task.metric,
        epochs=len(history),
        seconds=spent if seconds is None else seconds,
        last=history[-1].to_json() if history else None,
        best=None if best is None else best.to_json(),
        curve=compact(history),
        environment=environment,
        published=None
        if published is None
        else {"mean": published.mean, "std": published.std, "table": published.table},
        time=time.strftime(CLOCK),
    )


def _parameters(network: AnyArchitecture, facts: RunFacts | None, history: Sequence[EpochRecord]) -> int | None:
    """Exactly how many; ``None`` of a network that may be impossible to build, as the run never began."""
    if facts is not None:
        return facts.parameters
    return network.size() if history else None


def best_epoch(history: Sequence[EpochRecord], task: AnyTask) -> EpochRecord | None:
    """The first epoch with the best metric in validation."""
    best: EpochRecord | None = None
    for record in history:
        if task.is_better(record.val_metric, None if best is None else best.val_metric):
            best = record
    return best


def _without_places(config: TrainingConfig) -> dict[str, Any]:
    """All options; folders of this machine say nothing to others, so they take their defaults."""
    values = essence(config)
    values["run"] |= {key: getattr(config.run, key) for key in PLACE_OPTIONS["run"]}
    return values


def _data_facts(config: TrainingConfig, *, given: bool) -> dict[str, Any]:
    """Name and options, and for a named set by which recipe it was made, with the checksum of every file."""
    data = config.data
    dataset = None if given else dataset_name(data.name)
    facts: dict[str, Any] = {"name": dataset or data.name, "options": dict(data.options)}
    if dataset is None:
        return facts | {"origin": "graphs passed in" if given else "the user's own"}
    plan = plan_dataset(dataset, data.root, **data.options)
    facts |= {"origin": plan.spec.origin, "recipe": plan.recipe, "note": plan.spec.note}
    manifest = plan.finished()
    if manifest is not None and config.problem == "links":
        facts["note"] = manifest.notes.get("note", "")
    if manifest is not None:
        source = manifest.notes.get("source")
        facts |= {
            "built_by": manifest.lrga,
            "built_from": None if source is None else Path(source).name,
            "files": {name: file.sha256 for name, file in manifest.files.items()},
        }
    return facts


def _graphs(config: TrainingConfig, facts: RunFacts | None, *, given: bool) -> dict[str, int] | None:
    if facts is not None:
        return facts.graphs
    if given or config.problem == "links" or (dataset := dataset_name(config.data.name)) is None:
        return None
    manifest = plan_dataset(dataset, config.data.root, **config.data.options).finished()
    return None if manifest is None else {split: manifest.notes["statistics"][split]["graphs"] for split in SPLITS}
