"""What is known of a data set: one :class:`DatasetSpec` in a module of this package, and nothing else names the set.

A module that defines ``SPEC`` (or ``SPECS``, several in a tuple) is found by itself: ``lrga data`` lists its sets,
``lrga train`` takes them and the documentation names them. See :mod:`lrga.data.datasets.zinc` for an example.
"""

import pkgutil
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from functools import cache
from importlib import import_module
from typing import Any

from lrga.errors import OptionError
from lrga.io.download import RemoteFile

SPLITS = ("train", "val", "test")
LINKS = "link"
_METRICS = {"mae": "mean absolute error", "f1_positive": "F1 of class 1", "roc_auc": "ROC-AUC"}


@dataclass(frozen=True)
class Inputs:
    """What a data set asks of a network, by the arguments of :class:`lrga.GNN`.

    Attributes:
        task: What is predicted: ``"node"``, ``"edge"``, ``"graph"`` or ``"link"``.
        out_channels: Classes, or numbers to predict.
        encoder: Of the node features: ``"linear"``, ``"embedding"`` or ``"embeddings"``; ``"learned"`` where a link set
            has none.
        in_channels: Columns, categories, or the categories of each column.
        edge_encoder: Of the edge features, ``"ones"`` where there are none.
        edge_channels: As ``in_channels``.
    """

    task: str
    out_channels: int
    encoder: str
    in_channels: int | tuple[int, ...]
    edge_encoder: str = "linear"
    edge_channels: int | tuple[int, ...] = 1


@dataclass(frozen=True)
class TaskSpec:
    """Loss and score by name (:mod:`lrga.tasks`): ``kind`` is ``"classification"``, ``"multilabel"``, ``"regression"``
    or ``"prediction"`` (of links)."""

    kind: str
    loss: str
    metric: str


@dataclass(frozen=True, kw_only=True)
class Schedule:
    """How the set is usually trained, by the names of :class:`~lrga.training.config.OptimizerConfig`.

    ``variants`` are pairs: where the ``model``, ``budget`` and ``preset`` of the first apply, the second is changed.
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
        name: Its name, as its paper writes it.
        inputs: Input sizes and encoders of a network.
        task: Loss and metric.
        splits: Number of graphs of each split; of nodes or edges where it is one graph.
        mean_nodes: Published mean number of nodes of a graph.
        mean_edges: Published mean number of directed edges of a graph.
        node_features: Contents of ``x``.
        edge_features: Contents of ``edge_attr``, or why there is none.
        obtained: ``"generated"`` or ``"downloaded"``.
        origin: Where it comes from, in a sentence.
        licence: Licence in a word or two, as far as it is known.
        terms: The same in a sentence.
        citation: Whom to cite.
        options: Checks the options of a build (keyword-only, each with a default; :class:`OptionError`) and returns all
            of them, as JSON values.
        build: Builds the set at a :class:`~lrga.data.datasets.source.BuildContext`, given all options: its splits
            ``train``, ``val`` and ``test``; one graph with ``train_mask``, ``val_mask`` and ``test_mask``; or a
            :class:`~lrga.data.links.data.LinkData`.
        recipe_version: Raised whenever the same options would give other content; older builds are then built again.
        files: Official files to download, with their checksums where they are known.
        reads_source: Whether it can be built from files of the user.
        one_graph: Whether it is one graph, of which the splits are nodes or edges. The number that a run reports is
            then that of the epoch best in validation, as is usual there; else that of the last epoch.
        schedule: Usual training schedule; ``None`` for link prediction.
        dropout: In the layers of a network that is trained on it, unless another is chosen.
        note: How the data differ from the published files.
    """

    name: str
    inputs: Inputs
    task: TaskSpec
    splits: dict[str, int]
    mean_nodes: float
    mean_edges: float
    node_features: str
    edge_features: str
    obtained: str
    origin: str
    licence: str
    terms: str
    citation: tuple[str, ...]
    options: Callable[..., dict[str, Any]]
    build: Callable[..., Any]
    recipe_version: int = 1
    files: tuple[RemoteFile, ...] = ()
    reads_source: bool = True
    one_graph: bool = False
    schedule: Schedule | None = None
    dropout: float = 0.0
    note: str = ""

    @property
    def links(self) -> bool:
        """Whether links are predicted."""
        return self.inputs.task == LINKS

    @property
    def metric(self) -> str:
        """What is reported, in words."""
        name = self.task.metric.removesuffix("_by_batch")
        return _METRICS.get(name, name.replace("_", " ").replace("hits", "Hits"))

    def facts(self) -> dict[str, Any]:
        """What a reader wants to know, as JSON values."""
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
    """Every data set by name: sets of graphs, then single graphs, then those for links.

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
    """The data set that ``name`` means, in any case; ``None`` where it means none, as of the user's own data.

    Example:
        >>> dataset_name("zinc"), dataset_name("OGBL_DDI"), dataset_name("my/zinc")
        ('ZINC', 'ogbl-ddi', None)
    """
    plain = str(name).lower().replace("_", "-")
    return next((known for known in dataset_specs() if known.lower() == plain), None)


def spec_of(name: object) -> DatasetSpec:
    """The data set called ``name``, in any case.

    Example:
        >>> spec_of("cluster").splits["train"]
        10000
    """
    found = dataset_name(name)
    if found is None:
        raise OptionError(
            f"one of the data sets {', '.join(dataset_specs())}",
            repr(name),
            "choose one of these names; your own graphs are read by lrga.data.load_custom",
        )
    return dataset_specs()[found]


def no_options() -> dict[str, Any]:
    """The options of a set that has none: its files decide."""
    return {}
