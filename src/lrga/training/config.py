"""Everything that decides a training run, as plain data that can be written down and read back."""

import operator
from collections.abc import Collection, Mapping, Sequence
from dataclasses import MISSING, asdict, dataclass, field, fields, replace
from pathlib import Path
from types import NoneType
from typing import Any, Self, TypeVar, get_args

from lrga.checks import check_choice, check_count
from lrga.data.datasets.spec import dataset_name, spec_of
from lrga.data.links.negatives import KINDS as NEGATIVES
from lrga.data.links.walks import EXTREME
from lrga.data.packed.sampler import check_fanouts
from lrga.errors import LRGAError, OptionError
from lrga.io import limits
from lrga.io.documents import check_fields, is_number
from lrga.models.embeddings import EMBEDDINGS
from lrga.models.gnn import BLOCKS
from lrga.models.link import PREDICTORS
from lrga.models.zoo import RANK, budget_of, model_name
from lrga.nn.encodings import parse_encodings
from lrga.nn.layers.base import PRESETS
from lrga.nn.layers.lrga import renamed_reading, wiring_of
from lrga.nn.norm import NORMS
from lrga.ops.attention import check_normalization

T = TypeVar("T")
_TESTS = {"above": operator.gt, "of at least": operator.ge, "below": operator.lt, "of at most": operator.le}
_POSITIVE, _NOT_NEGATIVE, _COUNT = {"above": 0.0}, {"of at least": 0.0}, {"of at least": 1}
_OPEN = {"above": 0.0, "below": 1.0}
_SHARE, _PROBABILITY = {"of at least": 0.0, "below": 1.0}, {"of at least": 0.0, "of at most": 1.0}
_WALK_BIAS = {"of at least": 1 / EXTREME, "of at most": EXTREME}
PRECISIONS = ("float32", "bf16", "fp16")
ENGINES = ("auto", "plain", "captured")
OPTIMIZERS = ("adam", "adamw", "sgd")
SCHEDULES = ("plateau", "constant", "cosine", "linear", "one_cycle")


def _within(default: Any, limits: Mapping[str, float]) -> Any:
    return field(default=default, metadata=limits)


def _among(default: str, choices: tuple[str, ...]) -> Any:
    return field(default=default, metadata={"choices": choices})


@dataclass(frozen=True, kw_only=True)
class DataConfig:
    """The data of a run.

    Attributes:
        name: A data set known by name (``lrga data ls``); or the user's own: a folder of CSV files, a ``.pt`` file
            or ``module:factory``. Graphs passed to :func:`~lrga.training.runs.run.train` directly may have any name.
        root: Data root; by default ``LRGA_DATA`` or ``~/.cache/lrga``.
        source: Folder of raw or prepared files to build a named set from.
        options: Options of the data set: ``sizes`` and ``seed``; of own data ``task``, ``level``, ``split``, ``seed``.
    """

    name: str
    root: str | None = None
    source: str | None = None
    options: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if not isinstance(self.name, str) or not self.name:
            raise OptionError("the name of a data set", repr(self.name), "pass for example 'ZINC'")
        if not isinstance(self.options, Mapping) or not all(isinstance(key, str) for key in self.options):
            raise OptionError("options of the data set by name", repr(self.options), "pass for example {'seed': 41}")
        object.__setattr__(self, "name", dataset_name(self.name) or self.name)
        plain = {
            key: list(v) if isinstance(v, Sequence) and not isinstance(v, str) else v for key, v in self.options.items()
        }
        object.__setattr__(self, "options", plain)  # as JSON reads them back


@dataclass(frozen=True, kw_only=True)
class ModelConfig:
    """The network of a run; the names are those of :func:`lrga.build_model`.

    Attributes:
        model: ``"gcn"``, ``"gat"``, ``"gatedgcn"``, ``"graphsage"``, ``"gin"`` or ``"gine"``; for link prediction also
            ``"node2vec"``, ``"deepwalk"`` or ``"mf"``.
        budget: ``"100K"``, ``"500K"`` or a number of parameters: decides width and depth where they are not given.
        lrga: Whether every layer has low-rank global attention.
        hidden: Width of the layers.
        layers: Number of layers.
        heads: Heads of GAT.
        rank: The paper's κ.
        attention_heads: Heads of the low-rank attention.
        edge_features: ``False`` lets GatedGCN read ones instead of the set's edge features.
        preset: The benchmark's generation of layers, ``"2022"`` or ``"2020"``.
        wiring: Of the augmented layer, a name among :data:`~lrga.nn.layers.lrga.WIRINGS`.
        dropout: In the layers and on the attention's output.
        residual: Whether layers have residual connections.
        batch_norm: Whether layers are normalised.
        block: ``"benchmark"``, the paper's layers, or ``"residual"``
            (:class:`~lrga.nn.layers.residual.ResidualLayer`).
        norm: Of residual blocks: ``"batch"``, ``"layer"`` or ``"rms"``.
        attention_dropout: On the attention's output in residual blocks; ``dropout`` by default.
        readout: ``"mean"``, ``"sum"`` or ``"max"`` over the nodes of a graph; by default the model's own.
        encoding: Positional encodings beside the features, such as ``["rwse:20"]`` (:mod:`lrga.nn.encodings`).
        random_features: Whether fresh noise replaces the node features at every pass.
        resample_features: ``False`` holds that noise: node j of every graph has the same at every pass.
        backend: Of the attention.
        normalize: Of the attention: ``"graph"`` as in the paper, ``"row"``, ``"rms"`` or ``None``.
        qk_norm: Whether the attention normalises its m1 and m2.
        gate: Whether each head of the attention has a learned gate.
    """

    model: str = "gcn"
    budget: str | int = "100K"
    lrga: bool = True
    hidden: int | None = _within(None, _COUNT)
    layers: int | None = _within(None, _COUNT)
    heads: int | None = _within(None, _COUNT)
    rank: int = RANK
    attention_heads: int = _within(1, _COUNT)
    edge_features: bool = True
    preset: str = _among("2022", PRESETS)
    wiring: str = "authors-code"
    dropout: float = _within(0.0, _PROBABILITY)
    residual: bool = True
    batch_norm: bool = True
    block: str = _among("benchmark", BLOCKS)
    norm: str = _among("batch", tuple(NORMS))
    attention_dropout: float | None = _within(None, _PROBABILITY)
    readout: str | None = None
    encoding: list[str] | None = None
    random_features: bool = False
    resample_features: bool = True
    backend: str = "auto"
    normalize: str | None = "graph"
    qk_norm: bool = False
    gate: bool = False

    def __post_init__(self) -> None:
        embedding = str(self.model).lower()
        object.__setattr__(self, "model", embedding if embedding in EMBEDDINGS else model_name(self.model))
        budget, label = budget_of(self.budget)
        object.__setattr__(self, "budget", label or budget)
        wiring_of(self.wiring)
        object.__setattr__(self, "encoding", [str(one) for one in parse_encodings(self.encoding)] or None)
        _check_options(self)
        check_normalization(self.normalize, qk_norm=self.qk_norm, gate=self.gate)


@dataclass(frozen=True, kw_only=True)
class OptimizerConfig:
    """Training options. The defaults are the benchmark's: Adam, the rate lowered on plateaus of the validation loss.

    Attributes:
        optimizer: ``"adam"``, ``"adamw"`` or ``"sgd"``.
        lr: Learning rate; the maximum if a schedule changes it.
        schedule: Of the rate: ``"plateau"``, ``"constant"``, ``"cosine"``, ``"linear"`` or ``"one_cycle"``
            (:class:`~lrga.training.optim.Schedule` has the formulas).
        schedule_per: Whether the rate changes with every ``"step"`` or at the beginning of an ``"epoch"``.
        warmup_epochs: Epochs, or a fraction of one, in which the rate rises linearly.
        lr_factor: What the rate is multiplied by on a plateau.
        patience: Epochs without improvement before the rate is lowered.
        min_lr: With ``"plateau"`` training ends when the rate falls below this; ``"cosine"`` and ``"linear"`` fall to
            it.
        max_epochs: Maximum number of epochs.
        batch_size: Graphs in a batch; seed nodes with ``fanouts``.
        fanouts: Of one graph whose nodes are classified: every step trains on a sampled subgraph, the seed nodes of the
            batch with so many neighbours in each hop (:class:`~lrga.data.NeighborSampler`), within which low-rank
            attention attends. An epoch has every training node as a seed once; evaluation is on the whole graph.
        eval_batch_size: Graphs in a batch of evaluation (metrics averaged over batches depend on it); as in training
            by default.
        weight_decay: Of the optimiser (``"adamw"``: decoupled).
        selective_decay: Whether to exclude biases, norms and embeddings from weight decay.
        momentum: Of SGD.
        clip_gradient: Maximum norm of the gradient, or ``None``.
        weight_average: Decay of an exponential moving average of the weights, for example 0.999, with which epochs are
            evaluated and the model is saved; ``None`` for none.
        precision: ``"float32"``, or ``"bf16"`` or ``"fp16"`` for mixed precision.
        recalibrate_norm: The statistics of BatchNorm are averaged afresh over so many training batches before each
            evaluation; 0 keeps the running ones.
    """

    optimizer: str = _among("adam", OPTIMIZERS)
    lr: float = _within(1e-3, _POSITIVE)
    schedule: str = _among("plateau", SCHEDULES)
    schedule_per: str = _among("step", ("step", "epoch"))
    warmup_epochs: float = _within(0.0, _NOT_NEGATIVE)
    lr_factor: float = _within(0.5, _OPEN)
    patience: int = 10
    min_lr: float = _within(1e-5, _NOT_NEGATIVE)
    max_epochs: int = _within(1000, _COUNT)
    batch_size: int = _within(128, _COUNT)
    fanouts: list[int] | None = None
    eval_batch_size: int | None = _within(None, _COUNT)
    weight_decay: float = _within(0.0, _NOT_NEGATIVE)
    selective_decay: bool = False
    momentum: float = _within(0.9, _SHARE)
    clip_gradient: float | None = _within(None, _POSITIVE)
    weight_average: float | None = _within(None, _OPEN)
    precision: str = _among("float32", PRECISIONS)
    recalibrate_norm: int = 0

    def __post_init__(self) -> None:
        _check_options(self)
        if self.fanouts is not None:
            object.__setattr__(self, "fanouts", check_fanouts(self.fanouts))


@dataclass(frozen=True, kw_only=True)
class RunConfig:
    """Options of a single run.

    Attributes:
        seed: Of the weights, the order of the graphs and dropout.
        device: ``"auto"`` (a GPU where there is one), ``"cpu"``, ``"cuda"`` or ``"cuda:1"``.
        loss: Another loss than the task's own, by name.
        metric: Another metric than the task's own, by name.
        label_smoothing: Of a cross-entropy loss.
        standardize_targets: Whether to standardise regression targets of your own data with the training split. Losses,
            metrics and predictions are in the original units. ``None``, the default, means yes.
        checkpoint_minutes: Minutes between checkpoints within an epoch. Others are written after an epoch
            if the last one is at least ten seconds old, and at the end.
        tensorboard: Whether to log for TensorBoard (extra ``tensorboard``).
        engine: ``"captured"`` steps (:mod:`lrga.training.capture.engine`), the ``"plain"`` loop, or ``"auto"``:
            captured on a GPU where the model allows it.
        deterministic: Whether sums on a GPU are added in the same order every time, so that two runs are equal to the
            last bit; slower. On a CPU they always are.
        recompute_layers: Whether to use activation checkpointing: the backward pass computes every layer again, which
            takes less memory and about a third more time.
    """

    seed: int = 41
    device: str = "auto"
    loss: str | None = None
    metric: str | None = None
    label_smoothing: float = _within(0.0, _SHARE)
    standardize_targets: bool | None = None
    checkpoint_minutes: float = _within(10.0, _NOT_NEGATIVE)
    tensorboard: bool = False
    engine: str = _among("auto", ENGINES)
    deterministic: bool = False
    recompute_layers: bool = False

    def __post_init__(self) -> None:
        _check_options(self)


@dataclass(frozen=True, kw_only=True)
class LinkConfig:
    """Options of link prediction alone.

    Attributes:
        skip: Whether a layer's input is among the inputs of its linear map (networks with LRGA).
        predictor: ``"hadamard"``, ``"dot"`` or ``"concat"``.
        predictor_layers: Linear maps of the predictor.
        negatives: ``"uniform"`` random pairs or pairs that are ``"no_edge"``.
        validation_edges: Whether messages run along the validation edges, too, when the test is scored.
        edge_weights: Whether GCN reads the weights of the edges, where they have any.
        walk_length: Steps of a random walk (Node2Vec, DeepWalk).
        walk_context: Nodes of a walk that are near each other.
        walks_per_node: Walks that begin in each node in an epoch.
        walk_epochs: Epochs of walks before the predictor is trained.
        walk_batch_size: Nodes whose walks make a batch.
        walk_lr: Learning rate of the vectors.
        walk_pull: How strongly what is near on a walk is drawn together beside the loss; DeepWalk's Laplacian term.
        walk_p: Node2Vec's p: how little a walk returns to where it was.
        walk_q: Node2Vec's q: how little it goes away.
    """

    skip: bool = True
    predictor: str = _among("hadamard", PREDICTORS)
    predictor_layers: int = _within(3, _COUNT)
    negatives: str = _among("uniform", NEGATIVES)
    validation_edges: bool = False
    edge_weights: bool = True
    walk_length: int = _within(40, _COUNT)
    walk_context: int = _within(20, {"of at least": 2})
    walks_per_node: int = _within(10, _COUNT)
    walk_epochs: int = 2
    walk_batch_size: int = _within(256, _COUNT)
    walk_lr: float = _within(0.01, _POSITIVE)
    walk_pull: float = _within(0.0, _NOT_NEGATIVE)
    walk_p: float = _within(1.0, _WALK_BIAS)
    walk_q: float = _within(1.0, _WALK_BIAS)

    def __post_init__(self) -> None:
        _check_options(self)
        if self.walk_context > self.walk_length + 1:
            got = f"{self.walk_context} of walks with {self.walk_length + 1} nodes"
            raise OptionError("walk_context of at most the nodes of a walk", got, "take longer walks")


@dataclass(frozen=True, kw_only=True)
class TrainingConfig:
    """A full training run.

    Example:
        >>> config = TrainingConfig(data=DataConfig(name="ZINC"), model=ModelConfig(model="gatedgcn"))
        >>> TrainingConfig.from_json(config.to_json()) == config
        True
        >>> config.changed(seed=95, batch_size=64).optimizer.batch_size
        64
    """

    data: DataConfig
    model: ModelConfig = field(default_factory=ModelConfig)
    optimizer: OptimizerConfig = field(default_factory=OptimizerConfig)
    run: RunConfig = field(default_factory=RunConfig)
    link: LinkConfig | None = None  # where links are predicted

    @property
    def problem(self) -> str:
        """What the run is about: ``"graphs"`` or ``"links"``."""
        return "graphs" if self.link is None else "links"

    @property
    def reported(self) -> str:
        """Which epoch's number is reported: the ``"best"`` in validation on sets of one graph, else the ``"last"``."""
        dataset = dataset_name(self.data.name)
        one_graph = self.link is not None or (dataset is not None and spec_of(dataset).one_graph)
        return "best" if one_graph else "last"

    def option(self, name: str) -> Any:
        """The value of an option by its name, ``None`` where the run has no such option."""
        return getattr(getattr(self, SECTION_OF[name]), name, None)

    @property
    def own_metric(self) -> str:
        """The metric of a user's own data, unless the run names another."""
        return "accuracy" if self.link is None else "auc"

    @property
    def budget(self) -> str | int | None:
        """The budget that decides the size of the network; ``None`` where width and depth are always given."""
        return self.model.budget if self.link is None else None

    def to_json(self) -> dict[str, Any]:
        """As JSON values; :meth:`from_json` reads them. ``link`` is there only where links are predicted."""
        values = asdict(self)
        return values if self.link is not None else {key: value for key, value in values.items() if key != "link"}

    @classmethod
    def from_json(cls, values: Mapping[str, Any]) -> Self:
        """The configuration that :meth:`to_json` wrote; unknown and missing keys are refused by name."""
        check_keys("configuration", values, cls)
        made: dict[str, Any] = {}
        for name, section in _SECTIONS.items():
            if name not in values:
                continue
            own = values[name]
            if isinstance(own, Mapping):
                own = renamed_reading({key: value for key, value in own.items() if key not in _REMOVED})
                if name == "optimizer" and values.get("link") is not None:  # version 0.1 had no other for links
                    own = {"schedule": "constant", **own}
            made[name] = read_fields(section, own, f"section {name!r} of the configuration")
        return cls(**made)

    @classmethod
    def load(cls, path: str | Path, *, trust: bool = False) -> Self:
        """Reads a JSON file.

        Args:
            path: The file.
            trust: Whether a ``module:factory`` that it names may be imported and its data root written to
                (:mod:`lrga.training.runs.trust`).
        """
        from lrga.training.runs.trust import data_from_file  # which needs what this module has

        try:
            config = cls.from_json(limits.parse_json(limits.read_bytes(Path(path), error=OptionError), finite=True))
        except LRGAError:
            raise
        except FileNotFoundError as error:
            raise OptionError(f"the configuration file {path}", "no such file", "name an existing file") from error
        except (OSError, ValueError, RecursionError) as error:
            raise OptionError(f"JSON in {path}", str(error), "correct the file") from error
        return replace(config, data=data_from_file(config.data, path, trust=trust))

    def changed(self, **options: Any) -> Self:
        """A copy with other values of any options, each found by its name in whichever section has it.

        ``name``, ``root``, ``source`` and ``options`` are the data's.
        """
        sections: dict[str, dict[str, Any]] = {name: {} for name in _SECTIONS}
        for key, value in options.items():
            section = SECTION_OF.get(key)
            if section is None:
                raise OptionError(
                    f"one of the options {', '.join(sorted(SECTION_OF))}", repr(key), "choose one of these"
                )
            if section == "link" and self.link is None:
                got = f"{key} for {self.data.name}"
                remedy = "leave it out, or name an ogbl set, or your edge list with --task link"
                raise OptionError("options of link prediction where links are predicted", got, remedy)
            sections[section][key] = value
        return replace(self, **{name: replace(getattr(self, name), **new) for name, new in sections.items() if new})


_REMOVED = ("memory_limit",)  # options of version 0.1 that changed no result
# Options that decide where and how conveniently a run is made, not what it computes.
PLACE_OPTIONS: dict[str, tuple[str, ...]] = {
    "data": ("root", "source"),
    "run": ("device", "checkpoint_minutes", "tensorboard", "engine", "deterministic", "recompute_layers"),
}


def essence(config: TrainingConfig) -> dict[str, dict[str, Any]]:
    """All options that decide what a run computes, by section."""
    return {
        section: {key: value for key, value in values.items() if key not in PLACE_OPTIONS.get(section, ())}
        for section, values in config.to_json().items()
    }


def first_difference(
    ours: TrainingConfig, theirs: TrainingConfig, *, ignore: Collection[str] = ()
) -> tuple[str, Any, Any] | None:
    """The first option of two runs that makes them compute something else: its name and both values."""
    there = {key: value for section in essence(theirs).values() for key, value in section.items()}
    for section in essence(ours).values():
        for key, value in section.items():
            if value != there.get(key) and key not in ignore:
                return key, value, there.get(key)
    return None


# Every option has one name in all sections together, so that a sweep or the command line can say it without a section.
_SECTIONS: dict[str, Any] = {
    "data": DataConfig, "model": ModelConfig, "optimizer": OptimizerConfig, "run": RunConfig, "link": LinkConfig,
}  # fmt: skip
SECTION_OF: dict[str, str] = {option.name: name for name, section in _SECTIONS.items() for option in fields(section)}


def check_keys(what: str, values: Any, cls: type) -> None:
    """Refuses JSON values with other keys than the fields of a dataclass, or without one that has no default."""
    needed = {f.name: f.default is MISSING and f.default_factory is MISSING for f in fields(cls)}
    if not isinstance(values, Mapping):
        raise OptionError(f"{what} as an object with {', '.join(needed)}", repr(values)[:80], "write a JSON object")
    if unknown := [key for key in values if key not in needed]:
        got = f"the key {unknown[0]!r}"
        raise OptionError(f"{what} with keys among {', '.join(needed)}", got, "correct or remove it")
    if missing := [name for name in needed if needed[name] and name not in values]:
        raise OptionError(f"{what} with the key {missing[0]!r}", f"keys {', '.join(values) or '(none)'}", "add it")


def read_fields(cls: type[T], values: Any, what: str) -> T:
    """An object of a dataclass from JSON values; unknown, missing and mistyped ones are refused by name."""
    check_keys(what, values, cls)
    check_fields(cls, values)
    return cls(**values)


def _check_options(section: Any) -> None:
    """Refuses values of another type, or beyond the limits that stand beside the fields."""
    for option in fields(section):
        name, value, limits = option.name, getattr(section, option.name), option.metadata
        kinds = set(get_args(option.type)) or {option.type}
        if value is None and NoneType in kinds:
            continue
        if "choices" in limits:
            check_choice(name, value, limits["choices"])
        elif float in kinds:
            if not is_number(value) or not all(_TESTS[word](value, bound) for word, bound in limits.items()):
                wanted = " and ".join(f"{word} {bound:g}" for word, bound in limits.items())
                raise OptionError(f"{name}, a number {wanted}", repr(value), f"pass another {name}")
        elif bool in kinds and not isinstance(value, bool):
            raise OptionError(f"{name} to be true or false", repr(value), "pass a bool")
        elif kinds - {NoneType} == {int}:
            check_count(name, value, minimum=int(limits.get("of at least", 0)))
