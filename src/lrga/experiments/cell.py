"""One cell of a table: a training configuration, the seeds it is run with, and the number to compare it with."""

import hashlib
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from lrga.checks import check_count
from lrga.errors import OptionError
from lrga.experiments.published import Published, Reference
from lrga.models.embeddings import EMBEDDING_LABELS
from lrga.models.zoo import MODEL_LABELS
from lrga.nn.layers.lrga import WIRING_OF_READING
from lrga.training.config import TrainingConfig, essence

# Options that came later than the first records, at the value that runs had before: it leaves the names as they were.
LATER_OPTIONS: dict[str, dict[str, Any]] = {
    "model": {
        "resample_features": True, "normalize": "graph", "qk_norm": False, "gate": False, "encoding": None,
        "block": "benchmark", "norm": "batch", "attention_dropout": None,
    },
    "optimizer": {
        "optimizer": "adam", "schedule": "plateau", "schedule_per": "step", "warmup_epochs": 0.0, "momentum": 0.9,
        "selective_decay": False, "weight_average": None, "fanouts": None,
    },
    "run": {"standardize_targets": None, "label_smoothing": 0.0},
}  # fmt: skip
# The same, but some records are named with these; others, older ones, are found by the name without.
NAMED_LATER: dict[str, dict[str, Any]] = {"link": {"walk_pull": 0.0}}

_NEVER = object()


@dataclass(frozen=True, kw_only=True)
class Cell:
    """A configuration run with several seeds: one row of a printed table.

    Attributes:
        labels: Values of the table's first columns, which identify the row.
        config: The configuration; its seed is replaced by each of ``seeds``.
        seeds: One run each.
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
    """A cell with the published number and protocol that ``reference`` has for it."""
    found = reference or Reference()
    published, protocol = found.number(config), found.protocol(config)
    return Cell(labels=labels, config=config, seeds=tuple(seeds), published=published, protocol=protocol)


def model_label(config: TrainingConfig) -> str:
    """The network as the paper writes it.

    Example:
        >>> from lrga.training import DataConfig, ModelConfig
        >>> model_label(TrainingConfig(data=DataConfig(name="ZINC"), model=ModelConfig(model="gatedgcn")))
        'LRGA + GatedGCN'
    """
    return ("LRGA + " if config.model.lrga else "") + model_word(config)


def model_word(config: TrainingConfig) -> str:
    """The same without "LRGA +"."""
    return (MODEL_LABELS | EMBEDDING_LABELS)[config.model.model]


def budget_label(config: TrainingConfig) -> str:
    """The budget that a network was made for; empty where its width was given, as it is where links are predicted."""
    return str(config.model.budget) if config.budget is not None and config.model.hidden is None else ""


def run_name(config: TrainingConfig) -> str:
    """The name of a run: readable, and different for every configuration that computes something else.

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
    """The name that the same run has in records older than some options; mostly :func:`run_name`."""
    sections = LATER_OPTIONS.keys() | NAMED_LATER.keys()
    left_out = {key: {**LATER_OPTIONS.get(key, {}), **NAMED_LATER.get(key, {})} for key in sections}
    return _named(config, left_out)


_FIRST_SCHEDULE = {"graphs": "plateau", "links": "constant"}  # before there was a choice


def _named(config: TrainingConfig, left_out: Mapping[str, Mapping[str, Any]]) -> str:
    model, data = config.model, Path(config.data.name.replace(":", "-")).stem
    left_out = {**left_out, "optimizer": {**left_out["optimizer"], "schedule": _FIRST_SCHEDULE[config.problem]}}
    decisive = {
        section: {key: v for key, v in values.items() if left_out.get(section, {}).get(key, _NEVER) != v}
        for section, values in essence(config).items()
    }
    # Names of runs are older than that of the option.
    letters = {name: letter for letter, name in WIRING_OF_READING.items()}
    wiring = decisive["model"].pop("wiring", None)
    if wiring is not None:
        decisive["model"]["reading"] = letters[wiring]
    digest = hashlib.sha256(json.dumps(decisive, sort_keys=True).encode()).hexdigest()[:10]
    budget = [str(config.budget)] if config.budget else []
    parts = [data, "lrga" if model.lrga else "plain", model.model, *budget, f"seed{config.run.seed}", digest]
    return "-".join(part.lower() for part in parts)


def key_of(config: TrainingConfig, *ignored: str) -> str:
    """The same for runs that compute the same, whatever their seed and the options ``ignored``."""
    return json.dumps(flat_options(config, *ignored), sort_keys=True)


def flat_options(config: TrainingConfig, *ignored: str) -> dict[str, Any]:
    """All options that decide what is computed, by section and name, without the seed and those ``ignored``."""
    return {
        f"{section}.{key}": value
        for section, values in essence(config).items()
        for key, value in values.items()
        if (section, key) != ("run", "seed") and key not in ignored
    }


def check_seeds(seeds: Any) -> tuple[int, ...]:
    """``seeds`` as different integers, at least one."""
    found = (seeds,) if isinstance(seeds, int) else tuple(seeds)
    for seed in found:
        check_count("seed", seed)
    if not found or len(set(found)) < len(found):
        raise OptionError("one or more different seeds", repr(list(found)), "pass for example seeds=(41, 95, 12, 35)")
    return found


def refuse_taken(options: Mapping[str, Any], **instead: str) -> None:
    """Refuses options that a campaign decides itself, saying what to use in their place.

    Example:
        >>> refuse_taken({"lr": 0.1}, seed="seeds")
    """
    for key, other in instead.items():
        if key in options:
            raise OptionError(f"{other} in place of {key}", f"the option {key}", f"use {other}")
