"""The graphs of a run, with what they ask of a network and what is predicted on them."""

import hashlib
import inspect
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from lrga.data.datasets.loading import load
from lrga.data.datasets.place import SPLITS
from lrga.data.datasets.spec import Inputs, dataset_name, dataset_specs, spec_of
from lrga.data.own.precision import as_float32
from lrga.data.own.reading import CustomData, load_custom, unlabelled_note
from lrga.data.own.target import NO_LABEL
from lrga.data.packed.columns import Column
from lrga.data.packed.graphs import PackedGraphs
from lrga.errors import DataError, DataMissingError, OptionError
from lrga.tasks.named import task_of, task_of_custom, with_choices
from lrga.tasks.task import Task
from lrga.training.config import DataConfig, RunConfig
from lrga.training.problems.describe import describe

Given = CustomData | Mapping[str, Any] | None


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
            :func:`lrga.data.own.reading.load_custom` returns, or ``train``, ``val`` and ``test`` as
            :class:`PackedGraphs` or lists of PyG ``Data``.
    """
    found = _find(data, given)
    run = run or RunConfig()
    found = replace(found, task=with_choices(found.task, loss=run.loss, metric=run.metric))
    if found.dataset is not None:
        return found
    for name, graphs in found.splits.items():
        if not len(_in_split(graphs, _targets(graphs).cpu())):
            raise DataError(f"at least one target (y) in {name!r}", "none", "divide the graphs otherwise")
    notes = describe(found.splits, found.task, found.features, asked_for=data.options.get("task") is not None)
    found = replace(found, notes=(*notes, *found.notes))
    if found.task.kind == "regression":
        return _standardized(found, run.standardize_targets)
    if run.standardize_targets is not None:
        expected = "a regression task for --standardize-targets or --no-standardize-targets"
        raise OptionError(expected, "classification", "remove the option")
    return found


def _find(data: DataConfig, given: Given) -> TrainingData:
    dataset = dataset_name(data.name)
    if isinstance(given, CustomData):
        return _custom(given)
    if given is not None:
        splits = _packed(given)
        if dataset is None:
            splits, notes = _labelled(splits)
            meta = splits["train"].meta  # of load_custom, where they come from there
            names = {level: meta[f"{level}_names"] for level in ("node", "edge") if f"{level}_names" in meta}
            return TrainingData(splits, infer_task(splits), infer_inputs(splits), None, names, notes)
        return TrainingData(splits, task_of(dataset), spec_of(dataset).inputs, dataset)
    if dataset is None:
        if ":" not in data.name and not Path(data.name).expanduser().exists():
            raise DataMissingError(
                f"a data set ({', '.join(dataset_specs())}) or your own: a folder of CSV files, a .pt file, "
                "module:factory",
                f"{data.name!r}, which is none of them in {Path.cwd()}",
                "correct the name or the path (lrga data ls lists all sets; an edge list takes --task link)",
            )
        return _custom(load_own(data))
    splits = load(dataset, data.root, source=data.source, **data.options)
    return TrainingData(splits, task_of(dataset), spec_of(dataset).inputs, dataset)


def load_own(data: DataConfig) -> CustomData:
    """The user's own graphs that a configuration names."""
    known = [name for name in inspect.signature(load_custom).parameters if name != "spec"]
    if odd := [key for key in data.options if key not in known]:
        expected = f"options of your own graphs, any of {', '.join(known)}"
        raise OptionError(expected, ", ".join(odd), "leave it out, or for the links of an edge list add --task link")
    return load_custom(data.name, **data.options)


def _custom(data: CustomData) -> TrainingData:
    names = {"node": data.node_names, "edge": data.edge_names}
    features = {level: list(columns) for level, columns in names.items() if columns is not None}
    return TrainingData(data.splits, task_of_custom(data), inputs_of_custom(data), None, features, data.notes)


def _standardized(data: TrainingData, standardize: bool | None) -> TrainingData:
    """With the targets of a regression standardised by mean and deviation of the training split, unless told not to."""
    width = data.task.out_channels
    targets = {name: _targets(graphs).reshape(-1, width).double().cpu() for name, graphs in data.splits.items()}
    seen = {name: _in_split(data.splits[name], rows) for name, rows in targets.items()}
    for name, rows in seen.items():
        if not bool(rows.isfinite().all()):
            raise DataError(f"finite targets (y) in {name!r}", "NaN or infinity", "leave out what has no target")
    if standardize is False:
        try:
            as_float32(list(torch.cat(list(seen.values())).t().numpy()), [f"y {i}" for i in range(width)], "the data")
        except DataError as error:
            remedy = "let the targets be standardised, as they are by default"
            raise DataError(error.expected, error.got, remedy) from None
        return data
    std, mean = torch.std_mean(seen["train"], dim=0, correction=0)
    constant = (seen["train"] == seen["train"][0]).all(dim=0) | (std == 0)
    std, mean = torch.where(constant, 1.0, std), torch.where(constant, seen["train"][0], mean)
    splits = {}
    for name, graphs in data.splits.items():
        column = graphs.columns["y"]
        values = ((targets[name] - mean) / std).float().to(graphs.device).view(column.values.shape)
        splits[name] = graphs.with_column("y", replace(column, values=values, dtype=torch.float32))
    task = replace(data.task, target_mean=tuple(mean.tolist()), target_std=tuple(std.tolist()))
    first, *more = data.notes
    notes = (f"{first}; targets standardised for training", *more)
    given = {name: graphs.columns["y"] for name, graphs in data.splits.items()}
    return replace(data, splits=splits, task=task, notes=notes, given_targets=given)


def _targets(graphs: PackedGraphs) -> Tensor:
    if graphs.y is None:
        raise DataError("targets (y) in train, val and test", "graphs without any", "give y to every graph")
    return graphs.y


def _in_split(graphs: PackedGraphs, rows: Tensor) -> Tensor:
    """The rows whose targets may be looked at."""
    mask = graphs.attribute("mask")
    return rows if mask is None else rows[mask.cpu()]


def _labelled(splits: dict[str, PackedGraphs]) -> tuple[dict[str, PackedGraphs], tuple[str, ...]]:
    """Without the labels -1 and -100, which say that there is none: graphs are left out, nodes and edges masked."""
    kept, seen, count = {}, [], 0
    for name, graphs in splits.items():
        y = _targets(graphs).cpu()
        if y.is_floating_point():
            return splits, ()
        unknown = torch.isin(y, torch.tensor(NO_LABEL))
        count += int(unknown.sum())
        if unknown.any() and graphs.y_level == "graph":
            graphs = graphs[(~unknown).nonzero().view(-1)]
        elif unknown.any() and graphs.y_level is not None:
            known, mask, column = (~unknown).view(-1).to(graphs.device), graphs.attribute("mask"), graphs.columns["y"]
            known = known if mask is None else known & mask
            values = column.values.masked_fill(unknown.view(column.values.shape).to(graphs.device), 0)
            graphs = graphs.with_column("y", replace(column, values=values))
            graphs = graphs.with_column("mask", Column(str(graphs.y_level), known, torch.bool))
        kept[name] = graphs
        seen.append(_in_split(graphs, _targets(graphs).cpu()))
        if count and not len(seen[-1]):
            raise DataError(f"labels in {name!r}", "none but -1 and -100, which mean no label", "label some")
    if not count:
        return splits, ()
    if len(labels := torch.cat(seen).unique()) < 2:
        got = f"{labels.tolist()} besides -1 or -100, which mean no label"
        raise DataError("at least two classes numbered from 0 in y", got, "number the classes from 0")
    total = sum(graphs.columns["y"].values.size(0) for graphs in splits.values())
    return kept, (unlabelled_note(count, total, str(splits["train"].y_level)),)


def inputs_of_custom(data: CustomData) -> Inputs:
    """What a user's own data ask of a network."""
    encoder, width = ("embedding", data.node_types) if data.node_types is not None else ("linear", data.node_features)
    if data.edge_types:
        edge_encoder, edge_width = "embedding", data.edge_types
    else:
        edge_encoder, edge_width = ("linear", data.edge_features) if data.edge_features else ("ones", 1)
    return Inputs(data.level, data.num_outputs, encoder, int(width or 0), edge_encoder, edge_width)


def infer_task(splits: Mapping[str, PackedGraphs]) -> Task:
    """Integers are classes, other numbers are values; the level is that of ``y``."""
    first = splits["train"]
    targets = [graphs.y for graphs in splits.values()]
    if first.y_level is None or any(y is None for y in targets):
        raise DataError("targets (y) in train, val and test", "graphs without any", "give y to every graph")
    y = torch.cat([values.cpu() for values in targets if values is not None])
    if y.is_floating_point():
        width = y[0].numel() if len(y) else 1
        return Task(level=first.y_level, kind="regression", out_channels=width, loss="l1", metric="mae")
    if y.numel() == 0 or int(y.min()) < 0:
        got = "none" if y.numel() == 0 else f"class {int(y.min())}"
        raise DataError("classes numbered from 0 in y", got, "number the classes 0, 1, …")
    classes = max(int(y.max()) + 1, 2)
    return Task(
        level=first.y_level, kind="classification", out_channels=classes, loss="cross_entropy", metric="accuracy"
    )


def infer_inputs(splits: Mapping[str, PackedGraphs]) -> Inputs:
    """Kinds and widths of the features: one column of integers is embedded, real numbers are mapped linearly."""
    task = infer_task(splits)
    encoder, width = _kind("x", [graphs.x for graphs in splits.values()])
    if encoder is None:
        raise DataError("node features (x) in every graph", "none", "pass x, for example torch.ones(N, 1)")
    edge_encoder, edge_width = _kind("edge_attr", [graphs.edge_attr for graphs in splits.values()])
    return Inputs(task.level, task.out_channels, encoder, width, edge_encoder or "ones", edge_width)


def _kind(name: str, features: Sequence[Tensor | None]) -> tuple[str | None, int]:
    present = [values for values in features if values is not None]
    if not present:
        return None, 1
    if len(present) < len(features):
        raise DataError(f"{name} in train, val and test", "splits without it", f"give {name} to every graph")
    widths = {values.shape[1:].numel() for values in present}
    if len(widths) > 1:
        raise DataError(f"{name} of one width in all splits", f"widths {sorted(widths)}", f"give {name} one width")
    if all(not values.is_floating_point() for values in present):
        if widths != {1}:
            raise DataError(
                f"one column of integer {name}, or real numbers", f"{widths.pop()} columns", "call .float()"
            )
        return "embedding", max(int(values.max()) + 1 if values.numel() else 1 for values in present)
    return "linear", widths.pop()


def _packed(given: Mapping[str, Any]) -> dict[str, PackedGraphs]:
    missing = [split for split in SPLITS if split not in given]
    if missing:
        raise DataError("graphs for train, val and test", f"none for {', '.join(missing)}", "pass all three")
    packed = {}
    for split in SPLITS:
        graphs = given[split]
        packed[split] = graphs if isinstance(graphs, PackedGraphs) else PackedGraphs.from_data_list(list(graphs))
        if len(packed[split]) == 0:
            raise DataError(f"at least one graph in {split!r}", "none", "divide the graphs otherwise")
        for name in ("x", "edge_attr", "y"):
            if name in packed[split].objects:
                value = packed[split].objects[name][0]
                got = f"layout {value.layout}" if isinstance(value, Tensor) else f"{type(value).__name__} {value!r:.60}"
                raise DataError(f"dense tensors of numbers as {name} in {split!r}", got, "convert them")
        mask = packed[split].columns.get("mask")
        if mask is not None and (mask.dtype != torch.bool or mask.level != packed[split].y_level):
            expected = f"truth values as mask, one for each {packed[split].y_level}: whose targets are used"
            got = f"{mask.dtype}, one for each {mask.level}, in {split!r}"
            raise DataError(
                expected, got, "convert it with .bool(), or rename the attribute if it means something else"
            )
    return packed
