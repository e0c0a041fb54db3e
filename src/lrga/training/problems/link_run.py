"""Link prediction in one call: from a configuration to a result, in a folder that survives any crash."""

import inspect
from collections.abc import Mapping
from typing import Any

import torch

from lrga.data.datasets.loading import load
from lrga.data.datasets.spec import dataset_name
from lrga.data.links.data import SPLITS, LinkData
from lrga.data.own.edge_list import load_edge_list
from lrga.distributed.launch import launched
from lrga.errors import DataError, OptionError
from lrga.tasks.link import LinkTask
from lrga.training.callbacks.events import Listener, RunFacts
from lrga.training.config import DataConfig, TrainingConfig
from lrga.training.determinism import choose_device, deterministic, seed_torch
from lrga.training.memory import return_freed_memory
from lrga.training.problems.link_architecture import LinkArchitecture, resolve_link
from lrga.training.problems.link_memory import LinkMemoryPlan, keep_to_limit, plan_link_memory
from lrga.training.problems.link_state import LinkKeeper, restore_links
from lrga.training.problems.link_trainer import LinkTrainer
from lrga.training.runs.environment import environment
from lrga.training.runs.folder import RunFolder
from lrga.training.runs.result import FINISHED, TrainingResult
from lrga.training.runs.resume import begin_folder, check_folder, restored, written_result
from lrga.training.runs.signals import Interrupted, StopRequest


def load_link_source(data: DataConfig) -> LinkData:
    """The graph that a configuration names: an OGB set, or the user's own edge list."""
    if dataset_name(data.name) is not None:
        found: LinkData = load(data.name, data.root, source=data.source, **data.options)
        return found
    options = {key: value for key, value in data.options.items() if key != "task"}
    known = inspect.signature(load_edge_list).parameters
    if odd := [key for key in options if key not in known]:
        choices = ", ".join(key for key in known if key != "path")
        raise OptionError(f"options of an edge list, any of {choices}", ", ".join(odd), "leave it out")
    return load_edge_list(data.name, **options)


def link_task(config: TrainingConfig, data: LinkData) -> LinkTask:
    """What is predicted: the metric of the run, else that of the data."""
    assert config.link is not None
    return LinkTask(metric=config.run.metric or data.metric, negatives=config.link.negatives)


def train_links(
    config: TrainingConfig,
    home: RunFolder,
    *,
    data: Any = None,
    listener: Listener,
    begin: float,
    time_limit: float | None,
    extend: bool = False,
) -> TrainingResult:
    """What :func:`lrga.training.runs.run.train` does where links are predicted; ``data`` is a :class:`LinkData`."""
    if launched():
        got = "several processes that torchrun started"
        raise OptionError("one process to predict links", got, "start lrga train by itself")
    if (written := written_result(home, config, extend=extend)) is not None:
        return _finished(home, written)
    if data is not None and not isinstance(data, LinkData):
        got = "splits of graphs" if isinstance(data, Mapping) else type(data).__name__
        raise DataError("one graph (LinkData) to predict links in", got, "pass what lrga.data.load('ogbl-ddi') gives")
    if config.run.memory_limit is not None:
        return_freed_memory()
    given: LinkData = load_link_source(config.data) if data is None else data
    given.check(config.data.name)
    task, architecture = link_task(config, given), resolve_link(config, given)
    architecture.size()  # a network that cannot be made is refused before a folder is
    device = choose_device(config.run.device)
    numbers = [device.index] if device.type == "cuda" and device.index is not None else []
    with torch.random.fork_rng(numbers), deterministic(config.run.deterministic):
        fingerprint, given = given.fingerprint(), given.to(device)
        seed_torch(config.run.seed)
        trainer = LinkTrainer(architecture.build().to(device), task, given, config, listener=listener)
        # a run that memory does not suffice for is refused before a folder is made
        plan = (
            None if (limit := config.run.memory_limit) is None else plan_link_memory(trainer, architecture, limit=limit)
        )
        with home.lock():
            check_folder(home, config, architecture, task, fingerprint, extend=extend)
            return _run(home, config, architecture, fingerprint, trainer, plan, begin, time_limit)


def _run(
    home: RunFolder,
    config: TrainingConfig,
    architecture: LinkArchitecture,
    fingerprint: str,
    trainer: LinkTrainer,
    plan: LinkMemoryPlan | None,
    begin: float,
    time_limit: float | None,
) -> TrainingResult:
    data, model, listener = trainer.data, trainer.model, trainer.listener
    deadline = None if time_limit is None else begin + 60 * time_limit
    with StopRequest() as request:
        trainer.keeper = LinkKeeper(home, listener, request, config.run.checkpoint_minutes, deadline)
        found = restored(home, trainer, restore_links)
        begin_folder(home, config, architecture, trainer.task, fingerprint, found)
        home.add_environment(environment(data.device))
        if plan is not None:
            keep_to_limit(trainer, plan)
            listener.noted(f"memory: {plan}")
            done = {"activation_checkpointing": plan.recompute, "pairs_scored_at_once": plan.block}
            trainer.keeper.note(f"memory: {plan}", {"memory_limit": plan.limit, **done})
        goal: Any = trainer.task
        notes = tuple(note for note in (*data.meta.get("notes", ()), data.meta.get("differs")) if note)
        facts = RunFacts(
            config=config,
            task=goal,
            parameters=sum(p.numel() for p in model.parameters()),
            graphs={split: data.splits[split].edge.size(0) for split in SPLITS},
            device=str(data.device),
            folder=home.path,
            epoch=trainer.epoch,
            batch=trainer.batch,
            batches=trainer.batches,
            unit="edges",
            notes=notes,
        )
        try:
            listener.started(facts)
            verb = "continues" if any(trainer.position) else "starts"
            for note in notes:
                home.log(f"data: {note}")
            home.log(f"{verb} at epoch {trainer.epoch + 1} on {data.device}")
            reason = trainer.fit()
            home.log(f"stops after {trainer.epoch} epochs: {reason}")
            result = _result(home, trainer, reason, facts)
            listener.stopped(reason)
        finally:
            listener.closed()
    if reason == "interrupted":
        name = request.received or "SIGINT"
        message = f"Stopped by {name} after writing a checkpoint. Continue with: lrga train --resume {home.path}"
        raise Interrupted(message, name)
    return result


def _result(home: RunFolder, trainer: LinkTrainer, reason: str, facts: RunFacts) -> TrainingResult:
    result = TrainingResult(
        stopped_by=reason,
        metric=trainer.task.metric,
        last=trainer.last,
        best=None if trainer.best is None else trainer.best.record,
        epochs=trainer.epoch,
        seconds=round(trainer.seconds, 3),
        parameters=facts.parameters,
        seed=facts.config.run.seed,
        folder=home.path,
        history=home.history(),
        model=trainer.model.eval(),
        reported="best",
    )
    if reason in FINISHED and trainer.best is not None:
        home.save_result(result.to_json(), {"model": trainer.model.state_dict(), "best": trainer.best.weights})
    return result


def _finished(home: RunFolder, written: dict[str, Any]) -> TrainingResult:
    from lrga.training.runs.run import load_run

    model, _ = load_run(home.path)
    return TrainingResult.from_json(written, folder=home.path, history=home.history(), model=model, reported="best")
