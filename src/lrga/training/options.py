"""A configuration from the few options that somebody names; the rest as the benchmark, or good sense, has it."""

import os
import re
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from lrga.data.datasets.spec import dataset_name, spec_of
from lrga.errors import OptionError
from lrga.models.zoo import BUDGETS
from lrga.training.config import DataConfig, ModelConfig, OptimizerConfig, TrainingConfig
from lrga.training.presets import benchmark_schedule
from lrga.training.problems.link_config import LinkConfig, link_protocol, refuse_foreign, refuse_idle
from lrga.training.unused import refuse_unused

OWN_BATCH_SIZE = 32  # of data whose size nobody knows beforehand
SEED_NODES = 512  # of a batch where neighbours are sampled
_BUDGET = re.compile(r"(\d+(?:\.\d+)?)\s*([kKmM]?)")


def make_config(name: str, *, data_options: Mapping[str, Any] | None = None, **options: Any) -> TrainingConfig:
    """The configuration of a run on the data called ``name``.

    Args:
        name: A data set known by name, or the user's own data (:class:`~lrga.training.config.DataConfig`).
        data_options: Options of the data set; those that are ``None`` are left out.
        **options: Any options of :class:`~lrga.training.config.TrainingConfig` by name; those that are ``None`` keep
            their defaults, which on a named data set are the benchmark's schedule and the set's dropout.

    Example:
        >>> config = make_config("CLUSTER", model="gatedgcn", budget="500k", seed=95)
        >>> config.optimizer.batch_size, config.optimizer.patience, config.run.seed
        (32, 5, 95)
    """
    given = _given(options)
    chosen = {key: value for key, value in (data_options or {}).items() if value is not None}
    dataset = dataset_name(name)
    if chosen.get("task") == "link" if dataset is None else spec_of(dataset).links:
        return _link_config(name, chosen, given)
    config = TrainingConfig(data=DataConfig(name=_absolute(name), options=chosen)).changed(**given)
    refuse_unused(config, {*given, *chosen})
    if dataset is not None and given.get("standardize_targets") is not None:
        got, remedy = f"--[no-]standardize-targets for {dataset}", "remove it: the protocol of this data set is fixed"
        raise OptionError("--[no-]standardize-targets only for your own data", got, remedy)
    if dataset is None:
        schedule = OptimizerConfig(batch_size=OWN_BATCH_SIZE)
    else:
        model: ModelConfig = config.model
        schedule = benchmark_schedule(dataset, model.model, budget=model.budget, preset=model.preset)
        config = config.changed(dropout=given.get("dropout", spec_of(dataset).dropout))
    if config.optimizer.fanouts is not None:
        schedule = replace(schedule, batch_size=SEED_NODES)
    return TrainingConfig(data=config.data, model=config.model, optimizer=schedule, run=config.run).changed(**given)


def _link_config(name: str, chosen: Mapping[str, Any], given: Mapping[str, Any]) -> TrainingConfig:
    refuse_foreign(given)
    dataset = dataset_name(name)
    if dataset is not None and chosen.get("task") == "link":  # what it is anyway
        chosen = {key: value for key, value in chosen.items() if key != "task"}
    base = TrainingConfig(data=DataConfig(name=dataset or _absolute(name), options=chosen), link=LinkConfig())
    model = base.changed(model=given.get("model", base.model.model)).model.model
    refuse_idle(given, model)
    protocol = link_protocol(dataset, model, lrga=given.get("lrga"))
    config = base.changed(**(protocol | dict(given)))
    refuse_unused(config, {*given, *chosen})
    return config


def configure(
    name: str | None,
    base: TrainingConfig | None = None,
    *,
    data_options: Mapping[str, Any] | None = None,
    **options: Any,
) -> TrainingConfig:
    """As :func:`make_config`, but begun from ``base`` where there is one; what is given wins."""
    if base is None:
        if name is None:
            raise OptionError("a data set, a run to resume or a configuration file", "none", "write: lrga train ZINC")
        return make_config(name, data_options=data_options, **options)
    given = _given(options)
    chosen = {key: value for key, value in (data_options or {}).items() if value is not None}
    if name is not None:
        given["name"] = _absolute(name)
    config = base.changed(**given, options={**base.data.options, **chosen})
    if config.problem == "links":
        refuse_foreign(given)
        refuse_idle(given, config.model.model)
    refuse_unused(config, {*given, *chosen})
    return config


def _given(options: Mapping[str, Any]) -> dict[str, Any]:
    given = {key: value for key, value in options.items() if value is not None}
    if isinstance(given.get("budget"), str):
        given["budget"] = parse_budget(given["budget"])
    if isinstance(given.get("metric"), str):  # as tables write them: Hits@20, MRR
        given["metric"] = given["metric"].lower()
    for key in ("root", "source"):
        if key in given:
            given[key] = os.path.abspath(os.path.expanduser(given[key]))
    return given


def _absolute(name: str) -> str:
    """A file or folder by its full path, so that the run can be continued from anywhere; other names as they are."""
    path = os.path.abspath(os.path.expanduser(name))
    return path if dataset_name(name) is None and os.path.exists(path) else name


def parse_budget(text: str) -> str | int:
    """A number of parameters as people write it: ``"100k"`` and ``"500K"`` are the paper's, ``"250k"`` a number.

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
    """A split as typed on the command line: fractions of your own data, or the number of a published split.

    Example:
        >>> parse_split("0.8,0.1,0.1"), parse_split("3")
        ((0.8, 0.1, 0.1), 3)
    """
    if text.strip().isdecimal():
        return int(text)
    try:
        return tuple(float(part) for part in text.split(","))
    except ValueError as error:
        remedy = "write for example 0.8,0.1,0.1, or 3 for a published split of that number"
        raise OptionError("fractions as train,val,test, or a number", repr(text), remedy) from error
