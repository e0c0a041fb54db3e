"""The configuration of a training run, as plain data that can be saved and loaded."""

import operator
from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields, replace
from difflib import get_close_matches
from pathlib import Path
from typing import Any, Self

from lrga.checks import check_choice
from lrga.data.datasets.spec import dataset_name, spec_of
from lrga.data.links.negatives import KINDS as NEGATIVES
from lrga.data.links.walks import EXTREME
from lrga.data.packed.sampler import check_fanouts
from lrga.errors import LRGAError, OptionError
from lrga.io import limits
from lrga.io.documents import check_fields, check_keys, read_fields
from lrga.models.embeddings import EMBEDDINGS
from lrga.models.gnn import BLOCKS
from lrga.models.link import PREDICTORS
from lrga.models.zoo import RANK, budget_of, model_name
from lrga.nn.encodings import parse_encodings
from lrga.nn.heads import HEAD_LAYERS
from lrga.nn.layers.base import PRESETS
from lrga.nn.layers.lrga import renamed_reading, wiring_of
from lrga.nn.norm import NORMS
from lrga.ops.attention import check_normalization

_TESTS = {"above": operator.gt, "of at least": operator.ge, "below": operator.lt, "of at most": operator.le}
_POSITIVE, _NOT_NEGATIVE, _COUNT = {"above": 0.0}, {"of at least": 0.0}, {"of at least": 1}
_OPEN = {"above": 0.0, "below": 1.0}
_SHARE, _PROBABILITY = {"of at least": 0.0, "below": 1.0}, {"of at least": 0.0, "of at most": 1.0}
_WALK_BIAS = {"of at least": 1 / EXTREME, "of at most": EXTREME}
ENGINES = ("auto", "plain", "captured")


def _within(default: Any, limits: Mapping[str, float]) -> Any:
    return field(default=default, metadata=limits)


def _among(default: str, choices: tuple[str, ...]) -> Any:
    return field(default=default, metadata={"choices": choices})


@dataclass(frozen=True, kw_only=True)
class DataConfig:
    """The data of a run.

    Attributes:
        name: A named data set (``lrga data ls``), or the user's own data: a folder of CSV files, a ``.pt`` file or
            ``module:factory``. Graphs passed to :func:`~lrga.training.runs.run.train` directly may have any name.
        root: Data root; by default ``LRGA_DATA`` or ``~/.cache/lrga``.
        source: Folder of raw or prepared files to build a named set from.
        options: Options of the data set: ``sizes``, ``seed``; for own data ``task``, ``level``, ``split``, ``seed``.
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
        object.__setattr__(self, "options", plain)  # as they are read from JSON


@dataclass(frozen=True, kw_only=True)
class ModelConfig:
    """The network of a run, with the names of :func:`lrga.build_model`.

    Attributes:
        model: ``"gcn"``, ``"gat"``, ``"gatedgcn"``, ``"graphsage"``, ``"gin"`` or ``"gine"``; for link prediction also
            ``"node2vec"``, ``"deepwalk"`` or ``"mf"``.
        budget: ``"100K"``, ``"500K"`` or a number of parameters; determines width and depth unless they are given.
        lrga: Whether every layer has low-rank global attention.
        hidden: Width of the layers.
        layers: Number of layers.
        heads: Number of heads of GAT.
        rank: Rank of the low-rank attention, κ in the paper.
        attention_heads: Number of heads of the low-rank attention.
        edge_features: ``False`` replaces the edge features of GatedGCN by ones.
        preset: Version of the benchmark's layers, ``"2022"`` or ``"2020"``.
        wiring: Wiring of the augmented layer, a name in :data:`~lrga.nn.layers.lrga.WIRINGS`.
        dropout: Dropout in the layers and on the attention's output.
        residual: Whether layers have residual connections.
        batch_norm: Whether layers have batch normalisation.
        block: ``"benchmark"`` for the paper's layers, or ``"residual"``
            (:class:`~lrga.nn.layers.residual.ResidualLayer`).
        norm: Normalisation of residual blocks: ``"batch"``, ``"layer"`` or ``"rms"``.
        attention_dropout: Dropout on the attention's output in residual blocks; by default ``dropout``.
        readout: ``"mean"``, ``"sum"`` or ``"max"`` over the nodes of a graph; by default the model's default.
        head_layers: Number of linear maps of the head; 1 is a linear classifier.
        encoding: Positional encodings in addition to the features, e.g. ``["rwse:20"]`` (:mod:`lrga.nn.encodings`).
        random_features: Whether random noise replaces the node features in every forward pass.
        resample_features: ``False`` keeps the noise fixed: node j of every graph gets the same noise in every pass.
        backend: Backend of the attention.
        normalize: Normalisation of the attention: ``"graph"`` as in the paper, ``"row"``, ``"rms"`` or ``None``.
        qk_norm: Whether the attention normalises m1 and m2.
        gate: Whether each head of the attention has a learned gate.
    """

    model: str = "gcn"
    budget: str | int = "100K"
    lrga: bool = True
    hidden: int | None = _within(None, _COUNT)
    layers: int | None = _within(None, _COUNT)
    heads: int | None = _within(None, _COUNT)
    rank: int = _within(RANK, _NOT_NEGATIVE)
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
    head_layers: int = _within(HEAD_LAYERS, _COUNT)
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
    """Training options. The defaults are the benchmark's: Adam, the rate reduced on plateaus of the validation loss.

    Attributes:
        optimizer: ``"adam"``, ``"adamw"`` or ``"sgd"``.
        lr: Learning rate; the maximum if a schedule changes it.
        schedule: Learning-rate schedule: ``"plateau"``, ``"constant"``, ``"cosine"``, ``"linear"`` or ``"one_cycle"``
            (formulas: :class:`~lrga.training.optim.Schedule`).
        schedule_per: Whether the rate changes with every ``"step"`` or at the beginning of an ``"epoch"``.
        warmup_epochs: Number of epochs, possibly fractional, with a linearly increasing rate.
        lr_factor: Factor of the rate on a plateau.
        patience: Number of epochs without improvement before the rate is reduced.
        min_lr: With ``"plateau"``, training ends when the rate falls below it; with ``"cosine"`` and ``"linear"``, the
            final rate.
        max_epochs: Maximum number of epochs.
        batch_size: Number of graphs in a batch; with ``fanouts``, number of seed nodes.
        fanouts: For node classification on one graph: number of sampled neighbours in each hop
            (:class:`~lrga.data.NeighborSampler`). Every step trains on a sampled subgraph, and low-rank attention
            attends within it. An epoch uses every training node as a seed once; evaluation uses the whole graph.
        eval_batch_size: Number of graphs in a batch of evaluation (metrics averaged over batches depend on it); by
            default that of training.
        weight_decay: Weight decay of the optimiser (``"adamw"``: decoupled).
        selective_decay: Whether to exclude biases, norms and embeddings from weight decay.
        momentum: Momentum of SGD.
        clip_gradient: Maximum norm of the gradient, or ``None``.
        weight_average: Decay of an exponential moving average of the weights, for example 0.999, which is used for
            evaluation and saved; ``None`` for no average.
        precision: ``"float32"``, or ``"bf16"`` or ``"fp16"`` for mixed precision.
        recalibrate_norm: Number of training batches over which BatchNorm statistics are recomputed before each
            evaluation; 0 keeps the running statistics.
    """

    optimizer: str = _among("adam", ("adam", "adamw", "sgd"))
    lr: float = _within(1e-3, _POSITIVE)
    schedule: str = _among("plateau", ("plateau", "constant", "cosine", "linear", "one_cycle"))
    schedule_per: str = _among("step", ("step", "epoch"))
    warmup_epochs: float = _within(0.0, _NOT_NEGATIVE)
    lr_factor: float = _within(0.5, _OPEN)
    patience: int = _within(10, _NOT_NEGATIVE)
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
    precision: str = _among("float32", ("float32", "bf16", "fp16"))
    recalibrate_norm: int = _within(0, _NOT_NEGATIVE)

    def __post_init__(self) -> None:
        if self.fanouts is not None:
            object.__setattr__(self, "fanouts", check_fanouts(self.fanouts))
        _check_options(self)


@dataclass(frozen=True, kw_only=True)
class RunConfig:
    """Options of a single run.

    Attributes:
        seed: Seed of the weights, the order of the graphs and dropout.
        device: ``"auto"`` (a GPU if there is one), ``"cpu"``, ``"cuda"`` or ``"cuda:1"``.
        loss: Name of a loss that replaces the default of the task.
        metric: Name of a metric that replaces the default of the task.
        log_metrics: Names of other metrics to log.
        label_smoothing: Label smoothing of a cross-entropy loss.
        standardize_targets: Whether to standardise regression targets of your own data with the training split. Losses,
            metrics and predictions are in the original units. ``None``, the default, means yes.
        checkpoint_minutes: Minutes between checkpoints within an epoch. A checkpoint is also written after an epoch if
            the last one is at least ten seconds old, and at the end.
        tensorboard: Whether to log for TensorBoard (extra ``tensorboard``).
        engine: ``"captured"`` for steps captured as CUDA graphs (:mod:`lrga.training.capture.engine`), ``"plain"`` for
            the plain loop, or ``"auto"``: captured on a GPU if the model supports it.
        deterministic: Whether to use deterministic algorithms on a GPU, so that equal runs give bit-identical results;
            slower. Runs on a CPU are always deterministic.
        recompute_layers: Whether to use activation checkpointing: the backward pass computes every layer again, which
            takes less memory and about a third more time.
    """

    seed: int = _within(41, _NOT_NEGATIVE)
    device: str = "auto"
    loss: str | None = None
    metric: str | None = None
    log_metrics: list[str] | None = None
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
    """Additional options of link prediction.

    Attributes:
        skip: Whether the linear map of a layer also gets the layer's input (networks with LRGA).
        predictor: ``"hadamard"``, ``"dot"`` or ``"concat"``.
        predictor_layers: Number of linear maps of the predictor.
        predictor_residual: Whether the predictor's hidden layers have residual connections.
        linear_layers: Whether layers have neither activation nor BatchNorm (:class:`~lrga.models.LinkGNN`).
        input_residual: Factor of the network's input that every linear layer adds to its output.
        orthogonal: Whether learned node vectors are initialised with orthogonal columns.
        mask_batch: Whether the edges of a batch are removed from the message-passing graph (GCN), so that the network
            cannot see the edges that it predicts.
        negatives: ``"uniform"`` random pairs, or ``"no_edge"`` for pairs that are not edges.
        validation_edges: Whether message passing also uses the validation edges for the test scores.
        edge_weights: Whether GCN uses edge weights, if any.
        walk_length: Number of steps of a random walk (Node2Vec, DeepWalk).
        walk_context: Window of skip-gram: number of nodes of a walk that count as near each other.
        walks_per_node: Number of walks from each node in an epoch.
        walk_epochs: Number of epochs of walks before the predictor is trained.
        walk_batch_size: Number of start nodes in a batch.
        walk_lr: Learning rate of the vectors.
        walk_pull: Weight of DeepWalk's Laplacian term, which pulls vectors of near nodes together.
        walk_p: Node2Vec's return parameter p: higher values make it less likely to return to the previous node.
        walk_q: Node2Vec's in-out parameter q: higher values keep the walk near the previous node.
    """

    skip: bool = True
    predictor: str = _among("hadamard", PREDICTORS)
    predictor_layers: int = _within(3, _COUNT)
    predictor_residual: bool = False
    linear_layers: bool = False
    input_residual: float = _within(0.0, _NOT_NEGATIVE)
    orthogonal: bool = False
    mask_batch: bool = False
    negatives: str = _among("uniform", NEGATIVES)
    validation_edges: bool = False
    edge_weights: bool = True
    walk_length: int = _within(40, _COUNT)
    walk_context: int = _within(20, {"of at least": 2})
    walks_per_node: int = _within(10, _COUNT)
    walk_epochs: int = _within(2, _NOT_NEGATIVE)
    walk_batch_size: int = _within(256, _COUNT)
    walk_lr: float = _within(0.01, _POSITIVE)
    walk_pull: float = _within(0.0, _NOT_NEGATIVE)
    walk_p: float = _within(1.0, _WALK_BIAS)
    walk_q: float = _within(1.0, _WALK_BIAS)

    def __post_init__(self) -> None:
        _check_options(self)
        if self.walk_context > self.walk_length + 1:
            got = f"{self.walk_context} for walks of {self.walk_length + 1} nodes"
            raise OptionError("walk_context of at most walk_length + 1 nodes", got, "use longer walks")


@dataclass(frozen=True, kw_only=True)
class TrainingConfig:
    """The configuration of a training run.

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
    link: LinkConfig | None = None  # for link prediction

    @property
    def problem(self) -> str:
        """Kind of the run: ``"graphs"`` or ``"links"``."""
        return "graphs" if self.link is None else "links"

    @property
    def reported(self) -> str:
        """The reported epoch: the ``"best"`` one in validation for sets of one graph, else the ``"last"``."""
        dataset = dataset_name(self.data.name)
        one_graph = self.link is not None or (dataset is not None and spec_of(dataset).one_graph)
        return "best" if one_graph else "last"

    def option(self, name: str) -> Any:
        """The value of an option by name; ``None`` if the run has no such option."""
        return getattr(getattr(self, SECTION_OF[name]), name, None)

    @property
    def budget(self) -> str | int | None:
        """The parameter budget of the network; ``None`` for link prediction, where width and depth are given."""
        return self.model.budget if self.link is None else None

    def to_json(self) -> dict[str, Any]:
        """JSON values for :meth:`from_json`; the key ``link`` exists only for link prediction."""
        values = asdict(self)
        return values if self.link is not None else {key: value for key, value in values.items() if key != "link"}

    @classmethod
    def from_json(cls, values: Mapping[str, Any]) -> Self:
        """Reads the values of :meth:`to_json`; errors name unknown and missing keys."""
        check_keys(cls, values, "configuration")
        made: dict[str, Any] = {}
        for name, section in SECTIONS.items():
            if name not in values:
                continue
            own = values[name]
            if isinstance(own, Mapping):
                own = renamed_reading({key: value for key, value in own.items() if key not in _REMOVED})
                if name == "optimizer" and values.get("link") is not None:  # the only one for links in version 0.1
                    own = {"schedule": "constant", **own}
            made[name] = read_fields(section, own, f"section {name!r} of the configuration")
        return cls(**made)

    @classmethod
    def load(cls, path: str | Path, *, trust: bool = False) -> Self:
        """Reads a JSON file.

        Args:
            path: The file.
            trust: Whether a ``module:factory`` in the file may be imported and its data root written to
                (:mod:`lrga.training.runs.trust`).
        """
        from lrga.training.runs.trust import data_from_file  # imported here: it imports this module

        try:
            values = limits.read_json(Path(path), error=OptionError)
        except LRGAError:
            raise
        except (OSError, ValueError) as error:
            raise OptionError(f"a configuration as JSON in {path}", str(error), "pass another file") from error
        config = cls.from_json(values)
        return replace(config, data=data_from_file(config.data, path, trust=trust))

    def changed(self, **options: Any) -> Self:
        """A copy with other values of options, which may be in any section.

        ``name``, ``root``, ``source`` and ``options`` belong to the data.
        """
        sections: dict[str, dict[str, Any]] = {name: {} for name in SECTIONS}
        for key, value in options.items():
            check_option(key)
            section = SECTION_OF[key]
            if section == "link" and self.link is None:
                got = f"{key} for {self.data.name}"
                remedy = "omit it, or use an ogbl set, or your edge list with --task link"
                raise OptionError("options of link prediction only for link prediction", got, remedy)
            sections[section][key] = value
        return replace(self, **{name: replace(getattr(self, name), **new) for name, new in sections.items() if new})


_REMOVED = ("memory_limit",)  # options of version 0.1 without effect on results
# Options of where and how a run is executed; they do not change what it computes.
PLACE_OPTIONS: dict[str, tuple[str, ...]] = {
    "data": ("root", "source"),
    "run": ("device", "checkpoint_minutes", "tensorboard", "engine", "deterministic", "recompute_layers"),
}


def essence(config: TrainingConfig) -> dict[str, dict[str, Any]]:
    """All options that determine what a run computes, by section."""
    return {
        section: {key: value for key, value in values.items() if key not in PLACE_OPTIONS.get(section, ())}
        for section, values in config.to_json().items()
    }


def first_difference(
    ours: TrainingConfig, theirs: TrainingConfig, *, ignore: Collection[str] = ()
) -> tuple[str, Any, Any] | None:
    """The first option that makes two runs compute different things: its name and both values."""
    here, there = (
        {key: value for section in essence(one).values() for key, value in section.items()} for one in (ours, theirs)
    )
    different = (key for key, value in here.items() if value != there.get(key) and key not in ignore)
    return next(((key, here[key], there.get(key)) for key in different), None)


# Option names are unique over all sections, so sweeps and the command line do not need section names.
SECTIONS: dict[str, Any] = {
    "data": DataConfig, "model": ModelConfig, "optimizer": OptimizerConfig, "run": RunConfig, "link": LinkConfig,
}  # fmt: skip
SECTION_OF: dict[str, str] = {option.name: name for name, section in SECTIONS.items() for option in fields(section)}


def check_option(key: str) -> None:
    """Raises an error that names the nearest option, or all, if ``key`` is none of them."""
    if key not in SECTION_OF:
        if close := get_close_matches(key, SECTION_OF, n=1):
            raise OptionError("an option of training", repr(key), f"write {close[0]}")
        listed = ", ".join(sorted(SECTION_OF))
        raise OptionError(f"an option of training, one of {listed}", repr(key), "choose one of these")


def _check_options(section: Any) -> None:
    """Raises an error for values of the wrong type, or outside the limits of their fields."""
    check_fields(type(section), vars(section))
    for option in fields(section):
        name, value, limits = option.name, getattr(section, option.name), option.metadata
        if "choices" in limits:
            check_choice(name, value, limits["choices"])
        elif value is not None and not all(_TESTS[word](value, bound) for word, bound in limits.items()):
            wanted = " and ".join(f"{word} {bound:g}" for word, bound in limits.items())
            raise OptionError(f"{name}, a number {wanted}", repr(value), f"pass another {name}")
