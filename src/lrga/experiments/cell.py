"""One cell of a table: a training configuration, its seeds, and the published number to compare with."""

import hashlib
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from lrga.checks import check_count
from lrga.data.datasets.spec import dataset_name
from lrga.errors import OptionError
from lrga.experiments.published import Published, Reference
from lrga.models.embeddings import EMBEDDING_LABELS
from lrga.models.zoo import ALIASES, MODEL_LABELS
from lrga.nn.layers.lrga import WIRING_OF_READING
from lrga.training.config import TrainingConfig, essence
from lrga.training.presets import parse_budget

# Options newer than the first records, with the value that runs had before: this value does not change a run's name.
LATER_OPTIONS: dict[str, dict[str, Any]] = {
    "model": {
        "resample_features": True, "normalize": "graph", "qk_norm": False, "gate": False, "encoding": None,
        "block": "benchmark", "norm": "batch", "attention_dropout": None, "head_layers": 3,
    },
    "optimizer": {
        "optimizer": "adam", "schedule": "plateau", "schedule_per": "step", "warmup_epochs": 0.0, "momentum": 0.9,
        "selective_decay": False, "weight_average": None, "fanouts": None,
    },
    "run": {"standardize_targets": None, "label_smoothing": 0.0, "log_metrics": None},
    "link": {
        "predictor_residual": False, "linear_layers": False, "input_residual": 0.0, "orthogonal": False,
        "mask_batch": False,
    },
}  # fmt: skip
# The same, but newer records have these in their names; older records are found by the name without them.
NAMED_LATER: dict[str, dict[str, Any]] = {"link": {"walk_pull": 0.0}}

_NEVER = object()


@dataclass(frozen=True, kw_only=True)
class Cell:
    """A configuration run with several seeds: one row of a printed table.

    Attributes:
        labels: Values of the table's first columns; they identify the row.
        config: The configuration; its seed is replaced by each of ``seeds``.
        seeds: One run per seed.
        published: The number to compare with, if any.
        protocol: Configuration of the protocol that ``config`` follows, if any.
    """

    labels: Mapping[str, Any]
    config: TrainingConfig
    seeds: tuple[int, ...]
    published: Published | None = None
    protocol: TrainingConfig | None = field(default=None, repr=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "seeds", check_seeds(self.seeds))

    def runs(self) -> list[TrainingConfig]:
        """The configuration of every run."""
        return [self.config.changed(seed=seed) for seed in self.seeds]

    def deviations(self) -> dict[str, tuple[Any, Any]]:
        """Options that differ from the protocol: name → (here, in the protocol)."""
        if self.protocol is None:
            return {}
        here, there = flat_options(self.config), flat_options(self.protocol)
        return {key.partition(".")[2]: (here[key], there[key]) for key in here if here[key] != there[key]}


def cell_beside(
    reference: Reference | None, *, labels: Mapping[str, Any], config: TrainingConfig, seeds: Iterable[int]
) -> Cell:
    """A cell with its published number and protocol from ``reference``."""
    found = reference or Reference()
    published, protocol = found.number(config), found.protocol(config)
    return Cell(labels=labels, config=config, seeds=tuple(seeds), published=published, protocol=protocol)


def select_cells(
    cells: Iterable[Cell],
    experiment: str,
    *,
    dataset: str | None = None,
    model: str | None = None,
    budget: str | None = None,
    lrga: bool | None = None,
) -> list[Cell]:
    """The cells that match all filters; an error lists the choices if there are none."""
    plain = "".join(c for c in (model or "").lower() if c.isalnum())
    wanted = {
        "dataset": dataset and (dataset_name(dataset) or dataset),
        "model": model and ALIASES.get(plain, plain),
        "budget": budget and parse_budget(str(budget)),
        "lrga": lrga,
    }
    given = {key: value for key, value in wanted.items() if value is not None}
    facts = []
    for cell in cells:
        network = cell.config.model
        names = cell.config.data.name, network.model, network.budget, network.lrga
        facts.append((cell, dict(zip(wanted, names, strict=True))))
    matching = [cell for cell, found in facts if all(found[key] == value for key, value in given.items())]
    if given and not matching:
        got = ", ".join(f"{key}={value}" for key, value in given.items())
        have = "; ".join(
            f"{key} {', '.join(dict.fromkeys(str(found[key]) for _, found in facts))}"
            for key in ("dataset", "model", "budget")
        )
        raise OptionError(f"a cell of {experiment} ({have})", f"none with {got}", "use fewer filters")
    return matching


def model_label(config: TrainingConfig) -> str:
    """The network as the paper writes it.

    Example:
        >>> from lrga.training import DataConfig, ModelConfig
        >>> model_label(TrainingConfig(data=DataConfig(name="ZINC"), model=ModelConfig(model="gatedgcn")))
        'LRGA + GatedGCN'
    """
    return ("LRGA + " if config.model.lrga else "") + model_word(config)


def model_word(config: TrainingConfig) -> str:
    """The name of the network without "LRGA +"."""
    return (MODEL_LABELS | EMBEDDING_LABELS)[config.model.model]


def budget_label(config: TrainingConfig) -> str:
    """The parameter budget of a network; empty if its width was given, as for link prediction."""
    return str(config.model.budget) if config.budget is not None and config.model.hidden is None else ""


def run_name(config: TrainingConfig) -> str:
    """The name of a run: readable, and unique for configurations with different results.

    Example:
        >>> from lrga.training import DataConfig
        >>> config = TrainingConfig(data=DataConfig(name="ZINC"))
        >>> run_name(config).rsplit("-", 1)[0]
        'zinc-lrga-gcn-100k-seed41'
        >>> run_name(config) == run_name(config.changed(device="cpu")) != run_name(config.changed(lr=0.1))
        True
    """
    return _named(config, LATER_OPTIONS)


def earlier_name(config: TrainingConfig) -> str:
    """The name of the same run in records older than some options; usually equal to :func:`run_name`."""
    sections = LATER_OPTIONS.keys() | NAMED_LATER.keys()
    left_out = {key: {**LATER_OPTIONS.get(key, {}), **NAMED_LATER.get(key, {})} for key in sections}
    return _named(config, left_out)


def _named(config: TrainingConfig, left_out: Mapping[str, Mapping[str, Any]]) -> str:
    model, data = config.model, Path(config.data.name.replace(":", "-")).stem
    first = {"graphs": "plateau", "links": "constant"}[config.problem]  # before there was an option
    left_out = {**left_out, "optimizer": {**left_out["optimizer"], "schedule": first}}
    decisive = {
        section: {key: v for key, v in values.items() if left_out.get(section, {}).get(key, _NEVER) != v}
        for section, values in essence(config).items()
    }
    # The names of runs keep the older name of this option.
    letters = {name: letter for letter, name in WIRING_OF_READING.items()}
    wiring = decisive["model"].pop("wiring", None)
    if wiring is not None:
        decisive["model"]["reading"] = letters[wiring]
    digest = hashlib.sha256(json.dumps(decisive, sort_keys=True).encode()).hexdigest()[:10]
    budget = [str(config.budget)] if config.budget else []
    parts = [data, "lrga" if model.lrga else "plain", model.model, *budget, f"seed{config.run.seed}", digest]
    return "-".join(part.lower() for part in parts)


def key_of(config: TrainingConfig, *ignored: str) -> str:
    """A key that is equal for runs that differ only in their seed and the options ``ignored``."""
    return json.dumps(flat_options(config, *ignored), sort_keys=True)


def flat_options(config: TrainingConfig, *ignored: str) -> dict[str, Any]:
    """All options that affect the result, by section and name, without the seed and those ``ignored``."""
    return {
        f"{section}.{key}": value
        for section, values in essence(config).items()
        for key, value in values.items()
        if (section, key) not in (("run", "seed"), ("run", "log_metrics")) and key not in ignored
    }


def check_seeds(seeds: Any) -> tuple[int, ...]:
    """Checks that ``seeds`` are different integers, at least one."""
    found = (seeds,) if isinstance(seeds, int) else tuple(seeds)
    for seed in found:
        check_count("seed", seed)
    if not found or len(set(found)) < len(found):
        raise OptionError("one or more different seeds", repr(list(found)), "pass for example seeds=(41, 95, 12, 35)")
    return found


def refuse_taken(options: Mapping[str, Any], /, **instead: str) -> None:
    """Raises an error for options that a campaign sets itself; the error names the alternative.

    Example:
        >>> refuse_taken({"lr": 0.1}, seed="seeds")
    """
    for key, other in instead.items():
        if key in options:
            raise OptionError(f"{other} instead of {key}", f"the option {key}", f"use {other}")
