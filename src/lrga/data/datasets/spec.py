"""Facts of a data set: one :class:`DatasetSpec` in a module of this package; no other code names the set.

A module that defines ``SPEC`` (or ``SPECS``, a tuple) is found automatically: ``lrga data`` lists its sets,
``lrga train`` accepts them and the documentation lists them. See :mod:`lrga.data.datasets.zinc` for an example.
"""

import pkgutil
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from functools import cache
from importlib import import_module
from inspect import signature
from typing import Any

from lrga.checks import check_count
from lrga.errors import OptionError
from lrga.io.download import RemoteFile
from lrga.io.limits import check_memory

SPLITS = ("train", "val", "test")
GRAPH_BYTES = 1_000  # least memory of a graph
_METRICS = {"mae": "mean absolute error", "f1_positive": "F1 of class 1", "roc_auc": "ROC-AUC"}


@dataclass(frozen=True)
class Inputs:
    """Inputs and outputs of a network for a data set, as arguments of :class:`lrga.GNN`.

    Attributes:
        task: Level of the predictions: ``"node"``, ``"edge"``, ``"graph"`` or ``"link"``.
        out_channels: Number of classes, or of values to predict.
        encoder: Encoder of the node features: ``"linear"``, ``"embedding"`` or ``"embeddings"``; ``"learned"`` for a
            link set without features.
        in_channels: Number of columns, number of categories, or the number of categories of each column.
        edge_encoder: Encoder of the edge features; ``"ones"`` if there are none.
        edge_channels: The same as ``in_channels``, for edges.
    """

    task: str
    out_channels: int
    encoder: str
    in_channels: int | tuple[int, ...]
    edge_encoder: str = "linear"
    edge_channels: int | tuple[int, ...] = 1


@dataclass(frozen=True)
class TaskSpec:
    """Loss and metric by name (:mod:`lrga.tasks`): ``kind`` is ``"classification"``, ``"multilabel"``, ``"regression"``
    or ``"prediction"`` (link prediction)."""

    kind: str
    loss: str
    metric: str


@dataclass(frozen=True, kw_only=True)
class Schedule:
    """Usual training schedule of the set, with the names of :class:`~lrga.training.config.OptimizerConfig`.

    ``variants`` are pairs (condition, change): if ``model``, ``budget`` and ``preset`` match, the change applies.
    """

    lr: float = 1e-3
    patience: int = 10
    batch_size: int = 128
    max_epochs: int = 1000
    weight_decay: float = 0.0
    variants: tuple[tuple[Mapping[str, str], Mapping[str, Any]], ...] = ()

    def options(self, **choice: str | None) -> dict[str, Any]:
        """The options of a run with this model, budget and preset.

        Example:
            >>> Schedule(variants=(({"preset": "2020"}, {"patience": 5}),)).options(preset="2020")["patience"]
            5
        """
        result = {key: value for key, value in asdict(self).items() if key != "variants"}
        for condition, change in self.variants:
            if all(choice.get(key) == value for key, value in condition.items()):
                result |= change
        return result


@dataclass(frozen=True, kw_only=True)
class DatasetSpec:
    """Description of a data set.

    Attributes:
        name: Name of the set, as in its paper.
        inputs: Inputs, outputs and encoders of a network.
        task: Loss and metric.
        splits: Number of graphs of each split; for one graph, number of nodes or edges.
        mean_nodes: Published mean number of nodes of a graph.
        mean_edges: Published mean number of directed edges of a graph.
        node_features: Contents of ``x``.
        edge_features: Contents of ``edge_attr``, or ``"none"``.
        obtained: ``"generated"`` or ``"downloaded"``.
        origin: Origin of the data, in a sentence.
        licence: Licence in a word or two, as far as known.
        terms: Licence terms in a sentence.
        citation: Works to cite.
        build: Builds the set from a :class:`~lrga.data.datasets.source.BuildContext` and all options. Returns the
            splits ``train``, ``val`` and ``test``; one graph with ``train_mask``, ``val_mask`` and ``test_mask``; or
            a :class:`~lrga.data.links.data.LinkData`.
        recipe_version: Increased whenever the same options give different contents; older builds are then rebuilt.
        files: Official files to download, with checksums if known.
        reads_source: Whether the set can be built from the user's files.
        num_splits: Number of published splits to choose from with the option ``split``; 0 if there is only one.
        one_graph: Whether the set is one graph with splits of its nodes or edges. A run then reports the epoch with
            the best validation result, as is usual for such sets; otherwise the last epoch.
        schedule: Usual training schedule; ``None`` for link prediction.
        network: Options of :class:`~lrga.training.config.ModelConfig` by name that replace the benchmark's in a network
            trained on the set.
        note: How the data differ from the published files.
    """

    name: str
    inputs: Inputs
    task: TaskSpec
    splits: dict[str, int]
    mean_nodes: float
    mean_edges: float
    node_features: str
    origin: str
    licence: str
    terms: str
    citation: tuple[str, ...]
    build: Callable[..., Any]
    edge_features: str = "none"
    obtained: str = "downloaded"
    recipe_version: int = 1
    files: tuple[RemoteFile, ...] = ()
    reads_source: bool = True
    num_splits: int = 0
    one_graph: bool = False
    schedule: Schedule | None = None
    network: Mapping[str, Any] = field(default_factory=dict)
    note: str = ""

    @property
    def links(self) -> bool:
        """Whether links are predicted."""
        return self.inputs.task == "link"

    @property
    def metric(self) -> str:
        """Name of the reported metric, in words."""
        name = self.task.metric.removesuffix("_by_batch")
        return _METRICS.get(name, name.replace("_", " ").replace("hits", "Hits"))

    def options(self, **given: Any) -> dict[str, Any]:
        """All options of a build as JSON values, checked: ``given`` and the defaults of the others.

        They are the keyword arguments of :attr:`build`: ``seed`` of a generated set, ``sizes`` (numbers of graphs of
        train, val and test), ``split`` (one of the published splits).
        """
        known = signature(self.build).parameters
        defaults = {"seed": 41, "sizes": None, "split": 0}
        found: dict[str, Any] = {key: value for key, value in defaults.items() if key in known}
        if unknown := [key for key in given if key not in found]:
            expected = f"options of {self.name}, any of {', '.join(found) or '(none)'}"
            raise OptionError(expected, ", ".join(unknown), "remove it, or choose one of these")
        found |= given
        check_count("seed", found.get("seed", 0))
        if (sizes := found.get("sizes")) is not None:
            good = isinstance(sizes, Sequence) and not isinstance(sizes, str) and len(sizes) == len(SPLITS)
            if not good or any(isinstance(n, bool) or not isinstance(n, int) or n < 1 for n in sizes):
                expected = "sizes, three numbers of graphs of at least 1: (train, val, test)"
                raise OptionError(expected, repr(sizes), "pass for example sizes=(1500, 250, 250)")
            for name, size in zip(SPLITS, sizes, strict=True):
                if size > self.splits[name] and self.obtained != "generated":
                    remedy = "use fewer, or omit sizes to use all"
                    raise OptionError(f"at most {self.splits[name]:,} graphs of {name}", f"{size:,}", remedy)
            need, what = GRAPH_BYTES * sum(sizes), f"{sum(sizes):,} graphs"
            check_memory(need, what, remedy="use fewer graphs", error=OptionError)
        if "sizes" in found:
            found["sizes"] = [self.splits[name] for name in SPLITS] if sizes is None else list(sizes)
        split = found.get("split", 0)
        if isinstance(split, bool) or not isinstance(split, int) or not 0 <= split < max(self.num_splits, 1):
            expected = f"split, a number from 0 to {self.num_splits - 1}"
            raise OptionError(expected, repr(split), "choose one of these splits")
        return found

    def facts(self) -> dict[str, Any]:
        """Facts for readers, as JSON values."""
        classes = self.inputs.out_channels if self.task.kind == "classification" else None
        words = ("splits", "mean_nodes", "mean_edges", "node_features", "edge_features", "obtained", "origin")
        return {
            "name": self.name,
            "task": f"{self.inputs.task} {self.task.kind.replace('multilabel', 'multi-label classification')}",
            "metric": self.metric,
            "classes": classes,
            **{key: getattr(self, key) for key in words},
            "files": [asdict(file) for file in self.files],
            **{key: getattr(self, key) for key in ("licence", "terms", "citation", "one_graph", "note")},
        }


@cache
def dataset_specs() -> dict[str, DatasetSpec]:
    """Every data set by name: sets of graphs, then single graphs, then sets for link prediction.

    Example:
        >>> dataset_specs()["CLUSTER"].inputs.out_channels
        6
    """
    package = import_module("lrga.data.datasets")
    found: list[DatasetSpec] = []
    for module in pkgutil.walk_packages(package.__path__, f"{package.__name__}."):
        loaded = vars(import_module(module.name))
        found += [loaded["SPEC"]] if "SPEC" in loaded else loaded.get("SPECS", ())
    found.sort(key=lambda spec: (spec.links, spec.one_graph, spec.inputs.task, spec.name.lower()))
    return {spec.name: spec for spec in found}


def dataset_name(name: object) -> str | None:
    """The name of the data set that ``name`` means, ignoring case; ``None`` for anything else, such as a path.

    Example:
        >>> dataset_name("zinc"), dataset_name("OGBL_DDI"), dataset_name("my/zinc")
        ('ZINC', 'ogbl-ddi', None)
    """
    plain = str(name).lower().replace("_", "-")
    return next((known for known in dataset_specs() if known.lower() == plain), None)


def spec_of(name: object) -> DatasetSpec:
    """The data set called ``name``, ignoring case.

    Example:
        >>> spec_of("cluster").splits["train"]
        10000
    """
    found = dataset_name(name)
    if found is None:
        remedy = "choose one of these names; to read your own graphs, use lrga.data.load_custom"
        raise OptionError(f"one of the data sets {', '.join(dataset_specs())}", repr(name), remedy)
    return dataset_specs()[found]
