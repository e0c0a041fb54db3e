"""The graphs of a run, with what they ask of a network and what is predicted on them."""

import hashlib
import inspect
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from lrga.data.catalog import CATALOG
from lrga.data.custom import CustomData, load_custom
from lrga.data.loading import load
from lrga.data.packed import PackedGraphs
from lrga.data.place import SPLITS
from lrga.errors import DataError, DataMissingError, OptionError
from lrga.models.zoo import INPUTS, Inputs
from lrga.tasks.named import task_of, task_of_custom, with_choices
from lrga.tasks.task import Task
from lrga.training.config import DataConfig, RunConfig

Given = CustomData | Mapping[str, Any] | None


@dataclass(frozen=True)
class TrainingData:
    """Graphs to train on.

    Attributes:
        splits: ``train``, ``val`` and ``test``.
        task: What is predicted.
        inputs: Kinds and widths of the features.
        dataset: Name in the catalogue, ``None`` for the user's own data.
    """

    splits: dict[str, PackedGraphs]
    task: Task
    inputs: Inputs
    dataset: str | None

    def to(self, device: torch.device) -> "TrainingData":
        """With the graphs on ``device``."""
        splits = {name: graphs.to(device) for name, graphs in self.splits.items()}
        return TrainingData(splits, self.task, self.inputs, self.dataset)

    def fingerprint(self) -> str:
        """A checksum of all graphs, so that a run is not continued on others."""
        digest = hashlib.sha256()
        for split in SPLITS:
            graphs = self.splits[split]
            tensors = [graphs.node_ptr, graphs.edge_ptr, graphs.source, graphs.in_degree]
            tensors += [graphs.columns[name].values for name in sorted(graphs.columns)]
            for tensor in tensors:
                digest.update(f"{split} {tensor.dtype} {list(tensor.shape)}".encode())
                digest.update(tensor.detach().cpu().contiguous().view(torch.uint8).numpy().data)
        return digest.hexdigest()


def catalogue_name(name: str) -> str | None:
    """The data set of the catalogue that ``name`` means, ``None`` where it means the user's own data."""
    return name.upper() if name.upper() in CATALOG else None


def load_training_data(data: DataConfig, run: RunConfig | None = None, given: Given = None) -> TrainingData:
    """Loads (and builds, where need be) the graphs of a configuration.

    Args:
        data: Which graphs.
        run: For another loss or metric than the task's own.
        given: The graphs themselves, in place of those that ``data`` names: what
            :func:`lrga.data.custom.load_custom` returns, or ``train``, ``val`` and ``test`` as :class:`PackedGraphs`
            or lists of PyG ``Data``.
    """
    found = _find(data, given)
    run = run or RunConfig()
    return TrainingData(
        found.splits, with_choices(found.task, loss=run.loss, metric=run.metric), found.inputs, found.dataset
    )


def _find(data: DataConfig, given: Given) -> TrainingData:
    dataset = catalogue_name(data.name)
    if isinstance(given, CustomData):
        return _custom(given)
    if given is not None:
        splits = _packed(given)
        if dataset is None:
            return TrainingData(splits, infer_task(splits), infer_inputs(splits), None)
        return TrainingData(splits, task_of(dataset), INPUTS[dataset], dataset)
    if dataset is None:
        if ":" not in data.name and not Path(data.name).expanduser().exists():
            raise DataMissingError(
                f"a data set ({', '.join(CATALOG)}) or your own: a folder of CSV files, a .pt file, module:factory",
                f"{data.name!r}, which is none of them in {Path.cwd()}",
                "correct the name or the path (lrga data ls lists all sets; an edge list takes --task link)",
            )
        return _custom(load_own(data))
    splits = load(dataset, data.root, source=data.source, **data.options)
    return TrainingData(splits, task_of(dataset), INPUTS[dataset], dataset)


def load_own(data: DataConfig) -> CustomData:
    """The user's own graphs that a configuration names."""
    known = [name for name in inspect.signature(load_custom).parameters if name != "spec"]
    if odd := [key for key in data.options if key not in known]:
        expected = f"options of your own graphs, any of {', '.join(known)}"
        raise OptionError(expected, ", ".join(odd), "leave it out, or for the links of an edge list add --task link")
    return load_custom(data.name, **data.options)


def _custom(data: CustomData) -> TrainingData:
    return TrainingData(data.splits, task_of_custom(data), inputs_of_custom(data), None)


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
    return packed
