"""The data of a run, a set of graphs or one graph for link prediction, with its task, network and stages."""

import hashlib
import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from difflib import get_close_matches
from pathlib import Path
from typing import Any

import torch

from lrga.data.datasets.building import load, plan_dataset
from lrga.data.datasets.source import data_root
from lrga.data.datasets.spec import SPLITS, Inputs, dataset_name, dataset_specs, spec_of
from lrga.data.encodings import EDGE, FOLDER, NODE, with_encodings
from lrga.data.links.data import LinkData
from lrga.data.own.edge_list import load_edge_list
from lrga.data.own.reading import OwnData, load_custom
from lrga.data.own.table import is_coarse
from lrga.data.packed.graphs import Column, PackedGraphs
from lrga.distributed.collectives import world_size
from lrga.errors import DataError, DataMissingError, OptionError
from lrga.models.embeddings import MatrixFactorization, Node2Vec
from lrga.nn.recompute import recompute_layers
from lrga.tasks.task import LinkTask, Task, task_of, task_of_custom
from lrga.training.config import DataConfig, RunConfig, TrainingConfig
from lrga.training.determinism import choose_device
from lrga.training.problems.architecture import Architecture, LinkArchitecture, resolve, resolve_link
from lrga.training.problems.describe import describe, describe_links, used_targets
from lrga.training.problems.graphs import GraphProblem, ParallelGraphProblem, SampledProblem, seed_nodes
from lrga.training.problems.links import LinkProblem, PartitionedLinkProblem
from lrga.training.problems.problem import Problem
from lrga.training.problems.walks import WalkProblem

AnyArchitecture = Architecture | LinkArchitecture
AnyTask = Task | LinkTask
Given = Any
"""Data instead of those that a configuration names: graphs that :func:`lrga.data.own.reading.load_custom` accepts or
returns; for a named data set its ``train``, ``val`` and ``test``; for link prediction a
:class:`~lrga.data.LinkData`; a :class:`RunData`, for example with a task of your own; or ``None``."""


@dataclass(frozen=True)
class TrainingData:
    """Graphs to train on.

    Attributes:
        splits: ``train``, ``val`` and ``test``.
        task: The task.
        inputs: Kinds and widths of the features.
        dataset: Name of the data set, ``None`` for the user's own data.
        features: ``"node"``, ``"edge"`` and ``"target"`` → names of the columns, if any.
        notes: Notes on how the user's own data were read.
        given_targets: Split → original targets, if the targets of the splits are standardised.
    """

    splits: dict[str, PackedGraphs]
    task: Task
    inputs: Inputs
    dataset: str | None
    features: dict[str, list[str]] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    given_targets: dict[str, Column] = field(default_factory=dict)

    @property
    def device(self) -> torch.device:
        """The device of the graphs."""
        return self.splits["train"].device

    def to(self, device: torch.device) -> "TrainingData":
        """Moves the graphs to ``device``."""
        return replace(self, splits=PackedGraphs.move(self.splits, device))

    def fingerprint(self) -> str:
        """A checksum of all graphs, so that a run is not resumed on other data."""
        digest = hashlib.sha256()
        for split in SPLITS:
            graphs = self.splits[split]
            tensors = [graphs.node_ptr, graphs.edge_ptr, graphs.source, graphs.in_degree]
            columns = graphs.columns | ({"y": self.given_targets[split]} if split in self.given_targets else {})
            # encodings follow from the edges up to rounding: a run may be resumed where rounding differs
            tensors += [columns[name].values for name in sorted(columns) if name not in (NODE, EDGE)]
            for tensor in tensors:
                digest.update(f"{split} {tensor.dtype} {list(tensor.shape)}".encode())
                if tensor.numel():  # an empty tensor has no memory to read
                    digest.update(tensor.detach().cpu().contiguous().view(torch.uint8).numpy().data)
        return digest.hexdigest()


@dataclass(frozen=True, kw_only=True)
class RunData:
    """Data, task and network of a run.

    Attributes:
        data: The graphs, or the graph for link prediction.
        task: The task.
        architecture: The network.
        sizes: Number of graphs or edges of each split.
        features: ``"node"``, ``"edge"`` and ``"target"`` → names of the columns, if any.
        notes: Notes on the data.
    """

    data: TrainingData | LinkData
    task: AnyTask
    architecture: AnyArchitecture
    sizes: dict[str, int]
    features: dict[str, list[str]] = field(default_factory=dict)
    notes: tuple[str, ...] = ()

    def to(self, device: torch.device) -> "RunData":
        """Moves the data to ``device``."""
        return replace(self, data=self.data.to(device))

    def stages(self, model: Any, config: TrainingConfig) -> tuple[Problem, ...]:
        """The stages of training, in order."""
        run, options = config.run, config.optimizer
        task: Any = self.task
        if run.recompute_layers and not isinstance(model, MatrixFactorization):
            recompute_layers(model)
        if isinstance(self.data, TrainingData):
            graphs: type[GraphProblem] = ParallelGraphProblem if world_size() > 1 else GraphProblem
            if options.fanouts is not None:
                graphs = SampledProblem
                if world_size() > 1:
                    got = f"{world_size()} processes, which would draw the same samples"
                    raise OptionError("one process for fanouts", got, "start one process")
            return (graphs(model, task, self.data.splits, options, seed=run.seed),)
        link = config.link
        assert link is not None
        links = (PartitionedLinkProblem if world_size() > 1 else LinkProblem)(
            model, task, self.data, options, link,
            conv=config.model.model, seed=run.seed, recompute=run.recompute_layers,
        )  # fmt: skip
        if isinstance(model, Node2Vec) and link.walk_epochs:
            return WalkProblem(model, self.data, link, seed=run.seed), links
        return (links,)


def load_run_data(config: TrainingConfig, given: Given = None) -> RunData:
    """Loads the data (``given``, or those that the configuration names), task and network of a run. Raises an error for
    a network that does not fit into memory."""
    made = given if isinstance(given, RunData) else (_graph_run if config.link is None else _link_run)(config, given)
    made.architecture.size()
    return made


def _graph_run(config: TrainingConfig, given: Given) -> RunData:
    graphs = load_training_data(config.data, config.run, given)
    if (wanted := config.model.encoding) is not None:
        cache = data_root(config.data.root) / FOLDER
        encoded = {split: with_encodings(own, wanted, folder=cache) for split, own in graphs.splits.items()}
        graphs = replace(graphs, splits=encoded)
    sizes, notes = {split: len(own) for split, own in graphs.splits.items()}, graphs.notes
    if config.optimizer.fanouts is not None:
        sizes = {split: seed_nodes(own).numel() for split, own in graphs.splits.items()}
        notes += ("steps train on sampled subgraphs, within which LRGA attends; evaluation is on the whole graph",)
    network = resolve(config.model, graphs.inputs, dataset=graphs.dataset)
    return RunData(
        data=graphs, task=graphs.task, architecture=network, sizes=sizes, features=graphs.features, notes=notes
    )


def _link_run(config: TrainingConfig, given: Given) -> RunData:
    if given is not None and not isinstance(given, LinkData):
        got = "splits of graphs" if isinstance(given, Mapping) else type(given).__name__
        remedy = "pass for example lrga.data.load('ogbl-ddi')"
        raise DataError("one graph (LinkData) for link prediction", got, remedy)
    data = load_link_source(config.data) if given is None else given
    data.check(config.data.name)
    named = dataset_name(config.data.name)
    metric = data.metric if named is None else spec_of(named).task.metric
    own = describe_links(data) if named is None else ""
    notes = (own, *data.meta.get("notes", ()), data.meta.get("differs"))
    return RunData(
        data=data,
        task=_link_task(config, metric),
        architecture=resolve_link(config, data),
        sizes={split: data.splits[split].edge.size(0) for split in SPLITS},
        notes=tuple(note for note in notes if note),
    )


def load_source(config: TrainingConfig) -> Given:
    """The data that a configuration names, to share between several runs."""
    if config.link is not None:
        return load_link_source(config.data)
    return load_own(config.data) if dataset_name(config.data.name) is None else _find(config.data, None).splits


def plan_run(config: TrainingConfig) -> dict[str, Any]:
    """Data, network, exact number of parameters and schedule of a run as JSON values.

    The user's own data are read; a named data set is not built. For link prediction, ``graphs`` counts edges.

    Example:
        >>> from lrga.training.presets import make_config
        >>> plan_run(make_config("PATTERN", model="gcn", budget="500k"))["parameters"]
        396437
    """
    named, batch_size = dataset_name(config.data.name), config.optimizer.batch_size
    data: dict[str, Any] = {"name": named or config.data.name}
    if named is None:
        run = load_run_data(config)
        data |= {"graphs": run.sizes, "built": True} | ({"notes": list(run.notes)} if run.notes else {})
        task, network = run.task, run.architecture
    else:
        planned, spec = plan_dataset(named, config.data.root, **config.data.options), spec_of(named)
        counts = planned.recipe["options"].get("sizes") or [spec.splits[split] for split in SPLITS]
        data |= {"graphs": dict(zip(SPLITS, counts, strict=True)), "built": planned.finished() is not None}
        if config.link is not None:
            task = _link_task(config, spec.task.metric)
        else:
            task = _chosen(task_of(named), config.run)
            if spec.one_graph and not config.optimizer.fanouts:
                batch_size = data["graphs"]["train"]  # the splits are nodes of one graph
        network = plan_network(config)
    written = config.to_json()
    return {
        "data": data,
        "task": task.to_json(),
        "model": network.to_json(),
        "parameters": network.size(),
        **{section: written[section] for section in ("optimizer", "link") if section in written},
        "batches_per_epoch": -(-data["graphs"]["train"] // batch_size),
        "seed": config.run.seed,
        "device": str(choose_device(config.run.device)),
    }


def plan_network(config: TrainingConfig, given: Given = None) -> AnyArchitecture:
    """The network of a run; for a named set, at its published size. The user's own data are read unless given.

    Example:
        >>> from lrga.training.presets import make_config
        >>> plan_network(make_config("ZINC", model="gatedgcn")).hidden_channels
        45
    """
    dataset = dataset_name(config.data.name)
    if config.link is not None:
        return resolve_link(config, load_link_source(config.data) if given is None and dataset is None else given)
    inputs = spec_of(dataset).inputs if dataset else load_training_data(config.data, config.run, given).inputs
    return resolve(config.model, inputs, dataset=dataset)


def _chosen(task: Task, run: RunConfig) -> Task:
    """The task with the loss and metrics of the run, if given, and its label smoothing."""
    loss, metric, others = run.loss or task.loss, run.metric or task.metric, tuple(run.log_metrics or ())
    return replace(task, loss=loss, metric=metric, log_metrics=others, label_smoothing=run.label_smoothing)


def _link_task(config: TrainingConfig, metric: str) -> LinkTask:
    """The task of link prediction with the metrics of the run, if given."""
    run, negatives = config.run, config.option("negatives")
    return LinkTask(metric=run.metric or metric, log_metrics=tuple(run.log_metrics or ()), negatives=negatives)


def read_facts(architecture: Any, task: Any) -> tuple[AnyArchitecture, AnyTask]:
    """Network and task of a saved run from their JSON values."""
    if task["kind"] == "link":
        return LinkArchitecture.from_json(architecture), LinkTask.from_json(task)
    return Architecture.from_json(architecture), Task.from_json(task)


def load_training_data(data: DataConfig, run: RunConfig | None = None, given: Given = None) -> TrainingData:
    """Loads (and builds, if necessary) the graphs of a configuration.

    Args:
        data: The section of the configuration.
        run: Options of the run: loss, metric, standardisation of targets.
        given: The graphs, instead of those that ``data`` names.
    """
    found, run = _find(data, given), run or RunConfig()
    found = replace(found, task=_chosen(found.task, run))
    if found.dataset is not None:
        return found
    notes = describe(found.splits, found.task, found.features, asked_for=data.options.get("task") is not None)
    found = replace(found, notes=(*notes, *found.notes))
    if found.task.kind == "regression":
        return _standardized(found, run.standardize_targets)
    if run.standardize_targets is not None:
        expected = "a regression task for --standardize-targets or --no-standardize-targets"
        raise OptionError(expected, found.task.kind, "remove the option")
    return found


def _find(data: DataConfig, given: Given) -> TrainingData:
    dataset = dataset_name(data.name)
    if dataset is not None and not isinstance(given, OwnData):
        given = load(dataset, data.root, source=data.source, **data.options) if given is None else given
        if missing := [split for split in SPLITS if split not in given]:
            raise DataError("graphs for train, val and test", f"none for {', '.join(missing)}", "pass all three")
        pack = PackedGraphs.from_data_list
        splits = {s: part if isinstance(part := given[s], PackedGraphs) else pack(list(part)) for s in SPLITS}
        return TrainingData(splits, task_of(dataset), spec_of(dataset).inputs, dataset)
    own = given if isinstance(given, OwnData) else load_own(data, given)
    names = {"node": own.node_names, "edge": own.edge_names, "target": own.target_names}
    features = {level: list(columns) for level, columns in names.items() if columns is not None}
    return TrainingData(own.splits, task_of_custom(own), inputs_of_custom(own), None, features, own.notes)


def load_own(data: DataConfig, given: Given = None) -> OwnData:
    """Loads the user's own graphs (``given``, or those that a configuration names) with its options."""
    if given is None and ":" not in data.name and not Path(data.name).expanduser().exists():
        remedy = "correct the name or the path (lrga data ls lists all sets; an edge list needs --task link)"
        if close := get_close_matches(data.name.lower(), [name.lower() for name in dataset_specs()], n=1):
            remedy = f"write {spec_of(close[0]).name}, or {remedy}"
        elif Path(f"{data.name}.py").is_file():
            remedy = f"to use {data.name}.py, pass a function of it: {data.name}:FUNCTION"
        own, got = (
            "a folder of CSV files, a .pt file, module:factory",
            f"{data.name!r}, which does not exist in {Path.cwd()}",
        )
        raise DataMissingError(f"a data set ({', '.join(dataset_specs())}) or your own: {own}", got, remedy)
    remedy = "omit it, or for the links of an edge list add --task link"
    _check_options("your own graphs", load_custom, data.options, remedy)
    return load_custom(data.name if given is None else given, **data.options)


def load_link_source(data: DataConfig) -> LinkData:
    """The graph that a configuration names: an OGB set, or the user's own edge list."""
    if dataset_name(data.name) is not None:
        return load(data.name, data.root, source=data.source, **data.options)
    options = {key: value for key, value in data.options.items() if key != "task"}
    _check_options("an edge list", load_edge_list, options, "omit it")
    return load_edge_list(data.name, **options)


def _check_options(what: str, reader: Callable[..., Any], options: Mapping[str, Any], remedy: str) -> None:
    _, *known = inspect.signature(reader).parameters  # without the first, the data
    if odd := [key for key in options if key not in known]:
        raise OptionError(f"options of {what}, any of {', '.join(known)}", ", ".join(odd), remedy)


def inputs_of_custom(data: OwnData) -> Inputs:
    """Inputs and outputs of a network for a user's own data."""
    encoder, width = ("embedding", data.node_types) if data.node_types is not None else ("linear", data.node_features)
    if data.edge_types:
        edge_encoder, edge_width = "embedding", data.edge_types
    else:
        edge_encoder, edge_width = ("linear", data.edge_features) if data.edge_features else ("ones", 1)
    return Inputs(data.level, data.num_outputs, encoder, int(width or 0), edge_encoder, edge_width)


def _standardized(data: TrainingData, standardize: bool | None) -> TrainingData:
    """Standardises regression targets with mean and deviation of the training split, unless switched off."""
    seen = {name: used_targets(graphs, data.task).double() for name, graphs in data.splits.items()}
    if standardize is False:
        if any(is_coarse(column) for column in torch.cat(list(seen.values())).t().numpy()):
            got = f"values near {float(seen['train'][0, 0]):.10g} that become equal"
            remedy = "keep the default, which standardises the targets"
            raise DataError("targets (y) that float32 can distinguish", got, remedy)
        return data
    train = seen["train"]
    std, mean = torch.std_mean(train, dim=0, correction=int(len(train) > 1))
    constant = (train == train[0]).all(dim=0)
    if bool((~constant & (std < torch.finfo(torch.float32).tiny)).any()):
        raise DataError("targets (y) that differ by at least 1e-38", "smaller differences", "scale the target")
    std, mean = torch.where(constant, 1.0, std), torch.where(constant, train[0], mean)
    splits = {}
    for name, graphs in data.splits.items():
        column = graphs.columns["y"]
        values = column.values.double().cpu().view(-1, data.task.out_channels)
        values = ((values - mean) / std).float().to(graphs.device).view(column.values.shape)
        splits[name] = graphs.with_column("y", replace(column, values=values, dtype=torch.float32))
    task = replace(data.task, target_mean=tuple(mean.tolist()), target_std=tuple(std.tolist()))
    first, *more = data.notes
    notes = (f"{first}; targets standardised for training", *more)
    given = {name: graphs.columns["y"] for name, graphs in data.splits.items()}
    return replace(data, splits=splits, task=task, notes=notes, given_targets=given)
