"""The two kinds of runs, on a set of graphs and on the links of one graph: all that differs before training begins."""

import inspect
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import torch
from torch import nn

from lrga.data.datasets.building import plan_dataset
from lrga.data.datasets.loading import load
from lrga.data.datasets.place import SPLITS
from lrga.data.datasets.spec import dataset_name, spec_of
from lrga.data.links.data import LinkData
from lrga.data.own.edge_list import load_edge_list
from lrga.distributed.collectives import world_size
from lrga.errors import DataError, OptionError
from lrga.models.embeddings import MatrixFactorization, Node2Vec
from lrga.nn.recompute import recompute_layers
from lrga.tasks.link import LinkTask
from lrga.tasks.named import task_of, with_choices
from lrga.tasks.task import Task
from lrga.training.architecture import Architecture, resolve
from lrga.training.config import DataConfig, TrainingConfig
from lrga.training.problems.describe import describe_links
from lrga.training.problems.graph_data import Given, TrainingData, load_training_data
from lrga.training.problems.graphs import GraphProblem, ParallelGraphProblem, SampledProblem, seed_nodes
from lrga.training.problems.link_architecture import LinkArchitecture, resolve_link
from lrga.training.problems.links import LinkProblem, PartitionedLinkProblem
from lrga.training.problems.problem import Problem
from lrga.training.problems.walks import WalkProblem

AnyArchitecture = Architecture | LinkArchitecture
AnyTask = Task | LinkTask


@dataclass(frozen=True, kw_only=True)
class RunData:
    """What a run is about.

    Attributes:
        data: The graphs, or the graph whose links are predicted.
        task: What is predicted.
        architecture: The network.
        sizes: Graphs or edges of each split.
        features: ``"node"`` and ``"edge"`` → names of the columns of their features, where they have names.
        notes: What one should know of the data, a sentence each.
    """

    data: TrainingData | LinkData
    task: AnyTask
    architecture: AnyArchitecture
    sizes: dict[str, int]
    features: dict[str, list[str]] = field(default_factory=dict)
    notes: tuple[str, ...] = ()

    @property
    def device(self) -> torch.device:
        """Where the data lie."""
        return self.data.splits["train"].device if isinstance(self.data, TrainingData) else self.data.device

    def fingerprint(self) -> str:
        """A checksum of the data, so that a run is not continued on others."""
        return self.data.fingerprint()

    def to(self, device: torch.device) -> "RunData":
        """With the data on ``device``."""
        return replace(self, data=self.data.to(device))

    def stages(self, model: nn.Module, config: TrainingConfig) -> tuple[Problem, ...]:
        """What is trained, one stage after the other."""
        run, options = config.run, config.optimizer
        if run.recompute_layers and not isinstance(model, MatrixFactorization):
            recompute_layers(model)
        if isinstance(self.data, TrainingData):
            graphs: type[GraphProblem] = ParallelGraphProblem if world_size() > 1 else GraphProblem
            if options.fanouts is not None:
                graphs = SampledProblem
                if world_size() > 1:
                    raise OptionError("one process for fanouts", f"{world_size()} processes", "start one process")
            task: Any = self.task
            return (graphs(model, task, self.data.splits, options, seed=run.seed),)
        network: Any = model
        link, task = config.link, self.task
        assert link is not None
        links = (PartitionedLinkProblem if world_size() > 1 else LinkProblem)(
            network, task, self.data, options, link,
            conv=config.model.model, seed=run.seed, recompute=run.recompute_layers,
        )  # fmt: skip
        if isinstance(model, Node2Vec) and link.walk_epochs:
            return WalkProblem(model, self.data, link, seed=run.seed), links
        return (links,)


def load_run_data(config: TrainingConfig, given: Given | LinkData = None) -> RunData:
    """Data, task and network of a run; a network that cannot be made is refused.

    Args:
        config: Of the run.
        given: The data themselves, in place of those that ``config.data`` names: as
            :func:`~lrga.training.problems.graph_data.load_training_data` takes graphs, or a
            :class:`~lrga.data.LinkData`.
    """
    if config.link is None:
        graphs = load_training_data(config.data, config.run, given)
        made = RunData(
            data=graphs,
            task=graphs.task,
            architecture=resolve(config.model, graphs.inputs, dataset=graphs.dataset),
            sizes={split: len(own) for split, own in graphs.splits.items()},
            features=graphs.features,
            notes=graphs.notes,
        )
        if config.optimizer.fanouts is not None:
            sizes = {split: seed_nodes(own).numel() for split, own in graphs.splits.items()}
            note = "steps train on sampled subgraphs, within which LRGA attends; evaluation is on the whole graph"
            made = replace(made, sizes=sizes, notes=(*made.notes, note))
    else:
        if given is not None and not isinstance(given, LinkData):
            got = "splits of graphs" if isinstance(given, Mapping) else type(given).__name__
            remedy = "pass what lrga.data.load('ogbl-ddi') gives"
            raise DataError("one graph (LinkData) to predict links in", got, remedy)
        data = load_link_source(config.data) if given is None else given
        data.check(config.data.name)
        made = RunData(
            data=data,
            task=link_task(config, data.metric),
            architecture=resolve_link(config, data),
            sizes={split: data.splits[split].edge.size(0) for split in SPLITS},
            notes=_link_notes(config, data),
        )
    made.architecture.size()
    return made


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


def _link_notes(config: TrainingConfig, data: LinkData) -> tuple[str, ...]:
    """How the user's own edges were understood, and what one should know of how they were read."""
    own = describe_links(data) if dataset_name(config.data.name) is None else ()
    return tuple(note for note in (*own, *data.meta.get("notes", ()), data.meta.get("differs")) if note)


def link_task(config: TrainingConfig, metric: str) -> LinkTask:
    """What is predicted: with the metric of the run, else that of the data."""
    assert config.link is not None
    return LinkTask(metric=config.run.metric or metric, negatives=config.link.negatives)


def read_facts(architecture: Any, task: Any) -> tuple[AnyArchitecture, AnyTask]:
    """Network and task of a saved run from their JSON values."""
    if task["kind"] == "link":
        return LinkArchitecture.from_json(architecture), LinkTask.from_json(task)
    return Architecture.from_json(architecture), Task.from_json(task)


def plan_data(config: TrainingConfig) -> tuple[dict[str, Any], AnyTask, AnyArchitecture]:
    """Data (as JSON values), task and network of a run. The user's own data are read; a named set is not built."""
    named = dataset_name(config.data.name)
    if named is None:
        run = load_run_data(config)
        notes = {"notes": list(run.notes)} if run.notes else {}
        return {"name": config.data.name, "graphs": run.sizes, "built": True} | notes, run.task, run.architecture
    planned, spec = plan_dataset(named, config.data.root, **config.data.options), spec_of(named)
    sizes = planned.recipe["options"].get("sizes") or [spec.splits[split] for split in SPLITS]
    data = {"name": named, "graphs": dict(zip(SPLITS, sizes, strict=True)), "built": planned.finished() is not None}
    if config.link is not None:
        return data, link_task(config, spec.task.metric), resolve_link(config)
    asked = config.run
    task = with_choices(task_of(named), loss=asked.loss, metric=asked.metric, label_smoothing=asked.label_smoothing)
    return data, task, resolve(config.model, spec.inputs, dataset=named)
