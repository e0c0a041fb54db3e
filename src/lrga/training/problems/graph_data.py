"""The graphs of a run, with what they ask of a network and what is predicted on them."""

import hashlib
import inspect
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import torch

from lrga.data.datasets.loading import load
from lrga.data.datasets.place import SPLITS
from lrga.data.datasets.spec import Inputs, dataset_name, dataset_specs, spec_of
from lrga.data.own.reading import OwnData, load_custom
from lrga.data.own.table import is_coarse
from lrga.data.packed.graphs import Column, PackedGraphs
from lrga.errors import DataError, DataMissingError, OptionError
from lrga.tasks.named import task_of, task_of_custom, with_choices
from lrga.tasks.task import Task
from lrga.training.config import DataConfig, RunConfig
from lrga.training.problems.describe import describe, used_targets

Given = Any
"""Graphs in place of those that a configuration names: whatever :func:`lrga.data.own.reading.load_custom` takes or
returns, or ``None``; for a name of the catalogue ``train``, ``val`` and ``test`` of that data set."""


@dataclass(frozen=True)
class TrainingData:
    """Graphs to train on.

    Attributes:
        splits: ``train``, ``val`` and ``test``.
        task: What is predicted.
        inputs: Kinds and widths of the features.
        dataset: Name of the data set, ``None`` for the user's own data.
        features: ``"node"`` and ``"edge"`` → names of the columns of their features, where they have names.
        notes: How the user's own data were understood, a sentence each.
        given_targets: Split → the targets as they came, where those of the splits are standardised.
    """

    splits: dict[str, PackedGraphs]
    task: Task
    inputs: Inputs
    dataset: str | None
    features: dict[str, list[str]] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    given_targets: dict[str, Column] = field(default_factory=dict)

    def to(self, device: torch.device) -> "TrainingData":
        """With the graphs on ``device``."""
        return replace(self, splits=PackedGraphs.move(self.splits, device))

    def fingerprint(self) -> str:
        """A checksum of all graphs, so that a run is not continued on others."""
        digest = hashlib.sha256()
        for split in SPLITS:
            graphs = self.splits[split]
            tensors = [graphs.node_ptr, graphs.edge_ptr, graphs.source, graphs.in_degree]
            columns = graphs.columns | ({"y": self.given_targets[split]} if split in self.given_targets else {})
            tensors += [columns[name].values for name in sorted(columns)]
            for tensor in tensors:
                digest.update(f"{split} {tensor.dtype} {list(tensor.shape)}".encode())
                if tensor.numel():  # without a value there is no memory to look at
                    digest.update(tensor.detach().cpu().contiguous().view(torch.uint8).numpy().data)
        return digest.hexdigest()


def load_training_data(data: DataConfig, run: RunConfig | None = None, given: Given = None) -> TrainingData:
    """Loads (and builds, where need be) the graphs of a configuration.

    Args:
        data: Which graphs.
        run: For another loss or metric than the task's own, and for targets of own data as they are.
        given: The graphs themselves, in place of those that ``data`` names: what
            :func:`lrga.data.own.reading.load_custom` takes or returns, such as ``train``, ``val`` and ``test`` as lists
            of PyG ``Data``.
    """
    found = _find(data, given)
    run = run or RunConfig()
    task = with_choices(found.task, loss=run.loss, metric=run.metric, label_smoothing=run.label_smoothing)
    found = replace(found, task=task)
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
        splits = load(dataset, data.root, source=data.source, **data.options) if given is None else _packed(given)
        return TrainingData(splits, task_of(dataset), spec_of(dataset).inputs, dataset)
    if given is None and ":" not in data.name and not Path(data.name).expanduser().exists():
        raise DataMissingError(
            f"a data set ({', '.join(dataset_specs())}) or your own: a folder of CSV files, a .pt file, module:factory",
            f"{data.name!r}, which is none of them in {Path.cwd()}",
            "correct the name or the path (lrga data ls lists all sets; an edge list takes --task link)",
        )
    own = given if isinstance(given, OwnData) else load_own(data, given)
    names = {"node": own.node_names, "edge": own.edge_names}
    features = {level: list(columns) for level, columns in names.items() if columns is not None}
    return TrainingData(own.splits, task_of_custom(own), inputs_of_custom(own), None, features, own.notes)


def _packed(given: Any) -> dict[str, PackedGraphs]:
    if missing := [split for split in SPLITS if split not in given]:
        raise DataError("graphs for train, val and test", f"none for {', '.join(missing)}", "pass all three")
    return {
        split: part if isinstance(part := given[split], PackedGraphs) else PackedGraphs.from_data_list(list(part))
        for split in SPLITS
    }


def load_own(data: DataConfig, given: Given = None) -> OwnData:
    """The user's own graphs that a configuration names, or those given, read with its options."""
    known = [name for name in inspect.signature(load_custom).parameters if name != "data"]
    if odd := [key for key in data.options if key not in known]:
        expected = f"options of your own graphs, any of {', '.join(known)}"
        raise OptionError(expected, ", ".join(odd), "leave it out, or for the links of an edge list add --task link")
    return load_custom(data.name if given is None else given, **data.options)


def inputs_of_custom(data: OwnData) -> Inputs:
    """What a user's own data ask of a network."""
    encoder, width = ("embedding", data.node_types) if data.node_types is not None else ("linear", data.node_features)
    if data.edge_types:
        edge_encoder, edge_width = "embedding", data.edge_types
    else:
        edge_encoder, edge_width = ("linear", data.edge_features) if data.edge_features else ("ones", 1)
    return Inputs(data.level, data.num_outputs, encoder, int(width or 0), edge_encoder, edge_width)


def _standardized(data: TrainingData, standardize: bool | None) -> TrainingData:
    """With the targets of a regression standardised by mean and deviation of the training split, unless told not to."""
    seen = {name: used_targets(graphs, data.task).double() for name, graphs in data.splits.items()}
    if standardize is False:
        if any(is_coarse(column) for column in torch.cat(list(seen.values())).t().numpy()):
            got = f"values near {float(seen['train'][0, 0]):.10g} that become equal"
            remedy = "let the targets be standardised, as they are by default"
            raise DataError("targets (y) that float32 can distinguish", got, remedy)
        return data
    train = seen["train"]
    std, mean = torch.std_mean(train, dim=0, correction=0)
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
