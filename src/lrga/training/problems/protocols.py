"""The training protocols of the data sets, and the options that a run does not use, for graphs and links."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from lrga.data.datasets.spec import dataset_name, spec_of
from lrga.errors import OptionError
from lrga.models.embeddings import EMBEDDINGS
from lrga.models.gnn import EDGE_CONVOLUTIONS
from lrga.models.link import LINK_SETS
from lrga.models.zoo import budget_of, model_name
from lrga.training.config import DataConfig, LinkConfig, OptimizerConfig, TrainingConfig

BATCH_SIZE = 65_536  # edges per batch
OWN_BATCH_SIZE = 32  # graphs per batch of the user's own data
SEED_NODES = 512  # seed nodes per batch with neighbour sampling

_ATTENTION_MODULE = ("rank", "attention_heads", "normalize", "qk_norm", "gate", "backend")
_ATTENTION = (*_ATTENTION_MODULE, "wiring")
_GRAPHS_ONLY = (
    "budget", "heads", "preset", "wiring", "residual", "batch_norm", "readout", "random_features", "resample_features",
    "edge_features", "encoding", "block", "norm", "attention_dropout", "head_layers",
    "recalibrate_norm", "loss", "standardize_targets", "label_smoothing", "fanouts",
)  # fmt: skip
_NETWORK_ONLY = (
    *_ATTENTION_MODULE, "skip", "layers", "validation_edges", "edge_weights", "linear_layers", "input_residual",
    "orthogonal", "mask_batch", "predictor_residual",
)  # fmt: skip
_WALK_BIAS = ("walk_p", "walk_q")
_WALKS = (
    "walk_length", "walk_context", "walks_per_node", "walk_epochs", "walk_batch_size", "walk_lr", "walk_pull",
    *_WALK_BIAS,
)  # fmt: skip


def protocol_config(name: str, data_options: Mapping[str, Any], given: Mapping[str, Any]) -> TrainingConfig:
    """The configuration of a run on the data ``name``: given options, and the protocol of the data for the others."""
    dataset = dataset_name(name)
    is_link = data_options.get("task") == "link" if dataset is None else spec_of(dataset).links
    if is_link:
        if dataset is not None:  # its task is "link" anyway
            data_options = {key: v for key, v in data_options.items() if (key, v) != ("task", "link")}
        base = TrainingConfig(data=DataConfig(name=name, options=data_options), link=LinkConfig())
        convolution = base.changed(model=given.get("model", base.model.model)).model.model
        read = {key: value for key, value in given.items() if key not in idle_options(given, convolution)}
        return base.changed(**(link_protocol(dataset, convolution, lrga=given.get("lrga")) | read))
    config = TrainingConfig(data=DataConfig(name=name, options=data_options)).changed(**given)
    schedule = OptimizerConfig(batch_size=OWN_BATCH_SIZE)
    if dataset is not None:
        if given.get("standardize_targets") is not None:
            got = f"--[no-]standardize-targets for {dataset}"
            remedy = "remove it: the protocol of this data set is fixed"
            raise OptionError("--[no-]standardize-targets only for your own data", got, remedy)
        model = config.model
        schedule = benchmark_schedule(dataset, model.model, budget=model.budget, preset=model.preset)
        config = config.changed(**spec_of(dataset).network)
    if config.optimizer.fanouts is not None:
        schedule = replace(schedule, batch_size=SEED_NODES)
    return replace(config, optimizer=schedule).changed(**given)


def benchmark_schedule(
    dataset: str, model: str = "gcn", *, budget: str | int = "100K", preset: str = "2022"
) -> OptimizerConfig:
    """Adam, with the rate halved on plateaus of the validation loss until it is below 1e-5, and the set's schedule.

    The preset ``"2020"`` uses the benchmark's patience of June 2020.

    Example:
        >>> benchmark_schedule("CLUSTER", "gatedgcn", budget="500K").batch_size
        32
    """
    schedule = spec_of(dataset).schedule
    if schedule is None:
        raise OptionError("a data set of graphs", repr(dataset), "see lrga.training.problems.protocols.link_protocol")
    return OptimizerConfig(**schedule.options(model=model_name(model), budget=budget_of(budget)[1], preset=preset))


_LR = {"ogbl-collab": 5e-4, "ogbl-ddi": 5e-3, "ogbl-ppa": 1e-2}  # for networks
# Walks and windows of the leaderboard's DeepWalk: in a dense graph only the next two nodes of a walk count as near.
_DEEPWALK: dict[str, dict[str, Any]] = {
    "ogbl-collab": {"walk_length": 40, "walk_context": 20, "walk_epochs": 5, "walk_pull": 0.005},
    "ogbl-ddi": {"walk_length": 80, "walk_context": 3, "walk_epochs": 5, "walk_batch_size": 16, "walk_pull": 0.05},
    "ogbl-ppa": {"walk_length": 80, "walk_context": 3, "walk_epochs": 3, "walk_pull": 0.02},
}
_EPOCHS = {"ogbl-collab": 200, "ogbl-ddi": 200, "ogbl-ppa": 20}


def link_protocol(dataset: str | None, model: str = "gcn", *, lrga: bool | None = None) -> dict[str, Any]:
    """All options of a run, by name: the authors' for networks with LRGA, those of OGB's examples for other models.

    Args:
        dataset: The data set; all but the three OGB sets, and ``None``, the user's own edges, have common defaults.
        model: A convolution, ``"node2vec"``, ``"deepwalk"`` or ``"mf"``.
        lrga: Whether the network has LRGA; by default if the model supports it.

    Example:
        >>> options = link_protocol("ogbl-ddi")
        >>> options["rank"], options["skip"], options["lr"], options["negatives"], options["dropout"]
        (50, False, 0.005, 'no_edge', 0.5)
    """
    embedding = model in EMBEDDINGS
    lrga = not embedding if lrga is None else lrga
    if embedding and lrga:
        raise OptionError("a GNN, for LRGA", f"the embedding model {model!r}", "pass lrga=False (--no-lrga)")
    common = {"lrga": lrga, "batch_size": BATCH_SIZE, "schedule": "constant"}
    if dataset not in LINK_SETS:
        own = {"hidden": 128, "layers": 2, "rank": 30, "skip": True, "dropout": 0.0, "predictor_layers": 2}
        steps = {"lr": 5e-3, "max_epochs": 100, "clip_gradient": None if embedding else 1.0, "negatives": "no_edge"}
        return common | own | steps | ({"walk_epochs": 5, "walk_length": 20, "walk_context": 10} if embedding else {})
    facts = LINK_SETS[dataset]
    negatives = "no_edge" if dataset == "ogbl-ddi" else "uniform"
    options = common | {
        "layers": facts.layers, "skip": facts.skip, "rank": facts.rank, "dropout": facts.dropout,
        "negatives": negatives, "max_epochs": _EPOCHS[dataset],
    }  # fmt: skip
    if not embedding:
        rate = 1e-3 if dataset == "ogbl-collab" and not lrga else _LR[dataset]
        return options | {"hidden": facts.hidden, "lr": rate, "clip_gradient": 1.0, "predictor_layers": facts.layers}
    walks = _DEEPWALK[dataset] if model == "deepwalk" else {"walk_epochs": 100 if dataset == "ogbl-ddi" else 2}
    width = 256 if model == "mf" else 128
    return options | walks | {"hidden": width, "lr": 0.01, "clip_gradient": None, "predictor_layers": 3}


def unused_options(config: TrainingConfig, given: Mapping[str, Any]) -> dict[str, str]:
    """Options that a run does not use, with the reason; the result includes all ``given`` options of this kind."""
    model, options, schedule = config.model, config.optimizer, config.optimizer.schedule
    dataset = dataset_name(config.data.name)
    own, spec = dataset is None, None if dataset is None else spec_of(dataset)
    is_flat = schedule in ("plateau", "constant") and not options.warmup_epochs
    rules = [
        (not model.lrga, " ".join(_ATTENTION), "the network has no low-rank attention"),
        (own, "root", "your own data are not stored in a data root"),
        (own, "source", "it applies to named data sets"),
        (own, "sizes", "it applies to named data sets; use split for your own data"),
        (spec is not None and not spec.reads_source, "source", f"{dataset} is generated, not read"),
        (schedule != "plateau", "patience lr_factor", f"the schedule is {schedule}, not plateau"),
        (schedule in ("constant", "one_cycle"), "min_lr", f"the schedule {schedule} does not use it"),
        (schedule == "one_cycle", "warmup_epochs", "one_cycle has its own warm-up"),
        (is_flat, "schedule_per", f"the schedule {schedule} without warm-up changes with epochs only"),
        (options.optimizer != "sgd", "momentum", f"only sgd uses it, not {options.optimizer}"),
        (options.selective_decay and not options.weight_decay, "selective_decay", "there is no weight decay"),
    ]
    if config.link is not None:
        idle = " ".join(idle_options(given, model.model))
        rules += [(True, idle, f"link prediction with {model.model} does not use it")]
    else:
        level, many = "graph" if spec is None else spec.inputs.task, spec is not None and not spec.one_graph
        is_sized = own and model.hidden is not None and model.layers is not None and model.budget != "100K"
        reads_edges, readers = model.model in EDGE_CONVOLUTIONS, " and ".join(EDGE_CONVOLUTIONS)
        is_residual, has_norm = model.block == "residual", model.batch_norm and model.norm == "batch"
        is_held = not model.random_features and not model.resample_features
        rules += [
            (own, "split_by directed", "it applies to edge lists; to predict links, add --task link"),
            (is_sized, "budget", "width and depth are given"),
            (many, "fanouts", f"neighbour sampling needs a single graph; {dataset} has many"),
            (level != "graph", "readout", f"it applies to graph predictions, not to {level} predictions"),
            (model.model != "gat", "heads", f"only gat uses it, not {model.model}; for LRGA: --attention-heads"),
            (model.edge_features and not reads_edges, "edge_features", f"only {readers} use them, not {model.model}"),
            (is_residual, "wiring", "it applies to block=benchmark"),
            (not is_residual, "norm attention_dropout", "it applies to block=residual"),
            (not is_residual and model.model == "gin", "head_layers", "gin predicts from every layer by a linear map"),
            (is_held, "resample_features", "there are no random features"),
            (not has_norm and options.recalibrate_norm > 0, "recalibrate_norm", "the network has no BatchNorm"),
        ]
    return {name: reason for holds, names, reason in rules if holds for name in names.split()}


def idle_options(given: Mapping[str, Any], model: str) -> list[str]:
    """The given options that link prediction with this convolution or embedding does not use.

    Example:
        >>> idle_options({"rank": 30, "walk_p": 2.0, "hidden": 64}, "deepwalk")
        ['rank', 'walk_p']
    """
    if model in EMBEDDINGS:
        unread = _NETWORK_ONLY + {"mf": _WALKS, "deepwalk": _WALK_BIAS, "node2vec": ()}[model]
    else:
        unread = _WALKS if model == "gcn" else (*_WALKS, "edge_weights", "mask_batch")
    if given.get("predictor") == "dot":  # it has no weights, so no training on the vectors of walks either
        unread += ("predictor_layers", "predictor_residual")
        unread += ("predictor",) if model in ("node2vec", "deepwalk") else ()
    if given.get("predictor_layers") == 1:  # no hidden layer
        unread += ("predictor_residual",)
    if given.get("linear_layers"):
        unread += ("skip",)
    # a bool that is false changes nothing
    return [key for key in given if key in _GRAPHS_ONLY or (key in unread and given[key] is not False)]
