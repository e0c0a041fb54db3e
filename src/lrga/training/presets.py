"""Configurations from a few given options; the others get the benchmark's values or our defaults."""

import os
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

from lrga.data.datasets.spec import dataset_name
from lrga.errors import OptionError
from lrga.models.zoo import BUDGETS
from lrga.training.config import TrainingConfig
from lrga.training.problems.protocols import protocol_config, unused_options
from lrga.training.recipes import recipe_options

_BUDGET = re.compile(r"(\d+(?:\.\d+)?)\s*([kKmM]?)")
_FLAGS = {"root": "--data-root", "max_epochs": "--epochs"}
SET_ONLY = frozenset([  # options without a flag of their own
    "attention_dropout", "backend", "batch_norm", "block", "fanouts", "gate", "head_layers", "input_residual",
    "label_smoothing", "linear_layers", "log_metrics", "mask_batch", "momentum", "norm", "normalize", "optimizer",
    "orthogonal", "predictor_residual", "qk_norm", "resample_features", "residual", "schedule", "schedule_per",
    "selective_decay", "walk_batch_size", "walk_lr", "walk_pull", "walks_per_node", "warmup_epochs", "weight_average",
])  # fmt: skip
# Inside runs_of_a_table: option → why no run so far uses it, or "" if one does.
_collected: ContextVar[dict[str, str] | None] = ContextVar("collected", default=None)


def make_config(
    name: str | None,
    base: TrainingConfig | None = None,
    *,
    data_options: Mapping[str, Any] | None = None,
    recipe: str | None = None,
    **options: Any,
) -> TrainingConfig:
    """The configuration of a run on the data called ``name``.

    Args:
        name: A named data set, or the user's own data (:class:`~lrga.training.config.DataConfig`).
        base: A configuration to start from, by default the protocol of the data; given options override it, and
            ``name`` may be ``None``.
        data_options: Options of the data set; ``None`` values are ignored.
        recipe: ``"modern"`` uses :mod:`lrga.training.recipes` instead of the benchmark for options that are not given.
        **options: Any options of :class:`~lrga.training.config.TrainingConfig` by name; ``None`` keeps the default
            (for a named data set, the benchmark's schedule and the set's dropout).

    Example:
        >>> config = make_config("CLUSTER", model="gatedgcn", budget="500k", seed=95)
        >>> config.optimizer.batch_size, config.optimizer.patience, config.run.seed
        (32, 5, 95)
    """
    given = plain_options(options)
    chosen = {key: value for key, value in (data_options or {}).items() if value is not None}
    if base is not None:
        if recipe is not None:
            got = f"--recipe {recipe} with --config or --resume"
            raise OptionError("a recipe only for a new run", got, "remove it: the configuration has all options")
        given |= {} if name is None else {"name": full_name(name)}
        config = base.changed(**given, options={**base.data.options, **chosen})
    elif name is None:
        raise OptionError("a data set, a run to resume or a configuration file", "none", "write: lrga train ZINC")
    else:
        settings = given if recipe is None else recipe_options(recipe, name, chosen, given)
        config = protocol_config(full_name(name), chosen, settings)
    refuse_unused(config, {**given, **chosen})
    return config


def plain_options(options: Mapping[str, Any]) -> dict[str, Any]:
    """Converts options from the command line to the form of a configuration; ``None`` values are dropped."""
    given = {key: value for key, value in options.items() if value is not None}
    if isinstance(given.get("budget"), str):
        given["budget"] = parse_budget(given["budget"])
    if isinstance(given.get("metric"), str):  # spelled as in tables: Hits@20, MRR
        given["metric"] = given["metric"].lower()
    if isinstance(given.get("log_metrics"), list):
        given["log_metrics"] = [str(name).lower() for name in given["log_metrics"]]
    for key in ("root", "source"):
        if key in given:
            given[key] = os.path.abspath(os.path.expanduser(given[key]))
    return given


def full_name(name: str) -> str:
    """The full path of a file or folder, so that the run can be resumed from anywhere; other names are unchanged."""
    path = os.path.abspath(os.path.expanduser(name))
    return path if dataset_name(name) is None and os.path.exists(path) else name


def parse_budget(text: str) -> str | int:
    """Parses a number of parameters: ``"100k"`` and ``"500K"`` are the paper's budgets, ``"250k"`` is a number.

    Example:
        >>> parse_budget("500k"), parse_budget("1.5M"), parse_budget("42000")
        ('500K', 1500000, 42000)
    """
    if text.upper() in BUDGETS:
        return text.upper()
    match = _BUDGET.fullmatch(text.strip().replace(",", ""))
    if match is None:
        raise OptionError("a number of parameters such as 100k, 500k or 250000", repr(text), "write one of these")
    return round(float(match[1]) * {"": 1, "k": 1_000, "m": 1_000_000}[match[2].lower()])


def parse_split(text: str) -> int | tuple[float, ...]:
    """Parses a split from the command line: fractions of your own data, or the number of a published split.

    Example:
        >>> parse_split("0.8,0.1,0.1"), parse_split("3")
        ((0.8, 0.1, 0.1), 3)
    """
    if text.strip().isdecimal():
        return int(text)
    try:
        return tuple(float(part) for part in text.split(","))
    except ValueError as error:
        remedy = "write for example 0.8,0.1,0.1, or 3 for the published split number 3"
        raise OptionError("fractions as train,val,test, or a number", repr(text), remedy) from error


def refuse_unused(config: TrainingConfig, given: Mapping[str, Any]) -> None:
    """Raises an error for options, including those of the data set, that the run would not use.

    Example:
        >>> from lrga.training import DataConfig
        >>> config = TrainingConfig(data=DataConfig(name="ZINC"))
        >>> refuse_unused(config, {"rank": 30, "lr": 0.1})
        >>> refuse_unused(config, {"heads": 4})
        Traceback (most recent call last):
        ...
        lrga.errors.OptionError: expected only options that this run uses, got --heads: only gat uses it, ...
    """
    unused, collected = unused_options(config, given), _collected.get()
    for key in given:
        if collected is not None:
            collected[key] = unused.get(key, "") and collected.get(key, unused[key])
        elif key in unused:
            _refuse(key, unused[key])


@contextmanager
def runs_of_a_table() -> Iterator[None]:
    """Inside the block an option may apply to some of the runs; an option that no run uses is an error at the end."""
    outer = _collected.get()
    collected = {} if outer is None else outer  # nested blocks share one
    token = _collected.set(collected)
    try:
        yield
    finally:
        _collected.reset(token)
    for key, reason in collected.items():
        if reason and outer is None:
            _refuse(key, reason)


def _refuse(key: str, reason: str) -> None:
    raise OptionError("only options that this run uses", f"{flag_of(key)}: {reason}", "remove it")


def flag_of(key: str) -> str:
    """An option as the command line accepts it: ``--batch-size``, ``--set momentum``."""
    return f"--set {key}" if key in SET_ONLY else _FLAGS.get(key, f"--{key.replace('_', '-')}")
