"""Options that a run would not use: refused, so that nobody believes that they had an effect."""

from collections.abc import Collection, Iterator
from contextlib import contextmanager
from contextvars import ContextVar

from lrga.data.datasets.spec import dataset_name, spec_of
from lrga.errors import OptionError
from lrga.training.config import OptimizerConfig, TrainingConfig

_ATTENTION = ("rank", "attention_heads", "reading", "backend")
_FLAGS = {"root": "--data-root"}
# Within runs_of_a_table: option → why no run so far uses it, "" where one does.
_collected: ContextVar[dict[str, str] | None] = ContextVar("collected", default=None)


def refuse_unused(config: TrainingConfig, given: Collection[str]) -> None:
    """Refuses options that the run of a configuration would not use.

    Args:
        config: Of the run.
        given: Names of the options that somebody gave, those of the data set included.

    Example:
        >>> from lrga.training import DataConfig
        >>> config = TrainingConfig(data=DataConfig(name="ZINC"))
        >>> refuse_unused(config, ["rank", "lr"])
        >>> refuse_unused(config, ["heads"])
        Traceback (most recent call last):
        ...
        lrga.errors.OptionError: expected only options that this run uses, got --heads: only gat has such heads, ...
    """
    unused, collected = unused_options(config), _collected.get()
    for key in given:
        if collected is not None:
            collected[key] = unused.get(key, "") and collected.get(key, unused[key])
        elif key in unused:
            _refuse(key, unused[key])


@contextmanager
def runs_of_a_table() -> Iterator[None]:
    """Within it an option may concern some of the runs; one that none of them uses is refused at the end."""
    if _collected.get() is not None:  # within a table already
        yield
        return
    token = _collected.set({})
    try:
        yield
        collected = _collected.get() or {}
    finally:
        _collected.reset(token)
    for key, reason in collected.items():
        if reason:
            _refuse(key, reason)


def _refuse(key: str, reason: str) -> None:
    flag = _FLAGS.get(key, f"--{key.replace('_', '-')}")
    raise OptionError("only options that this run uses", f"{flag}: {reason}", "remove it")


def unused_options(config: TrainingConfig) -> dict[str, str]:
    """Every option that the run of a configuration does not use, with the reason."""
    data, model = config.data, config.model
    dataset = dataset_name(data.name)
    unused: dict[str, str] = {}
    if not model.lrga:
        unused |= dict.fromkeys(_ATTENTION, "the network has no low-rank attention")
    if dataset is None:
        unused["root"] = "your own data are read where they are"
        unused["source"] = "it names the files of a named data set"
        unused["sizes"] = "it is for named data sets; divide your own with split"
    elif not spec_of(dataset).reads_source:
        unused["source"] = f"{dataset} is generated, not read"
    unused |= _unused_by_optimizer(config.optimizer)
    if config.problem == "links":
        return unused
    if dataset is None:
        unused |= dict.fromkeys(("split_by", "directed"), "it is for an edge list; to predict links add --task link")
        if model.hidden is not None and model.layers is not None and model.budget != "100K":
            unused["budget"] = "width and depth are given"
    elif not spec_of(dataset).one_graph:
        unused["fanouts"] = f"neighbours are sampled in one graph, {dataset} has many"
    if dataset is not None and (level := spec_of(dataset).inputs.task) != "graph":
        unused["readout"] = f"it is for predictions of graphs, {dataset} has them of {level}s"
    if model.model != "gat":
        unused["heads"] = f"only gat has such heads, not {model.model}"
    if model.model != "gatedgcn" and model.edge_features:
        unused["edge_features"] = f"only gatedgcn reads edge features, not {model.model}"
    if not model.random_features and not model.resample_features:
        unused["resample_features"] = "there are no random features"
    if not model.batch_norm and config.optimizer.recalibrate_norm:
        unused["recalibrate_norm"] = "the network has no BatchNorm"
    return unused


def _unused_by_optimizer(options: OptimizerConfig) -> dict[str, str]:
    unused: dict[str, str] = {}
    if options.schedule != "plateau":
        unused |= dict.fromkeys(("patience", "lr_factor"), f"the schedule is {options.schedule}, not plateau")
    if options.schedule in ("constant", "one_cycle"):
        unused["min_lr"] = f"the schedule {options.schedule} does not use it"
    if options.schedule == "one_cycle":
        unused["warmup_epochs"] = "one_cycle has a warm-up of its own"
    elif options.schedule in ("plateau", "constant") and not options.warmup_epochs:
        unused["schedule_per"] = f"the schedule {options.schedule} without warm-up changes with epochs only"
    if options.optimizer != "sgd":
        unused["momentum"] = f"only sgd has it, not {options.optimizer}"
    if options.selective_decay and not options.weight_decay:
        unused["selective_decay"] = "there is no weight decay"
    return unused
