"""The paper's claims that need training, trained again (``lrga theory --train``)."""

import json
import time
from collections.abc import Callable, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

import torch

from lrga.errors import DataError
from lrga.theory.tour import Statement
from lrga.theory.trained import CSL, TrainingRecord, trained_statements
from lrga.training.runs.environment import environment
from reproduction.theory.graphs import ClassesConfig, learn_classes, pairs_config
from reproduction.theory.head import HeadConfig, learn_head
from reproduction.theory.monomials import MonomialConfig, learn_monomials
from reproduction.theory.triangles import TriangleConfig, learn_triangles

Say = Callable[[str], None]

# The options of the recorded run, and the function that trains with them: learn(config, say) returns the metrics.
EXPERIMENTS: dict[str, tuple[Any, Callable[[Any, Say], dict[str, Any]]]] = {
    "trained-triangles": (TriangleConfig(), learn_triangles),
    "learned-monomials": (MonomialConfig(), learn_monomials),
    CSL: (ClassesConfig(seeds=(0, 1)), learn_classes),
    "equivalent-pairs": (pairs_config(), learn_classes),
    "learned-head": (HeadConfig(), learn_head),
}


def train_experiment(key: str, config: Any = None, *, say: Say | None = None) -> TrainingRecord:
    """Trains an experiment again and records its options and environment.

    Args:
        key: One of :data:`EXPERIMENTS`.
        config: Options to use instead of those of the recorded run: a dataclass with ``seeds``.
        say: Called with progress messages.
    """
    recorded, learn = EXPERIMENTS[key]
    config = recorded if config is None else config
    began = time.perf_counter()
    with torch.random.fork_rng(devices=[]):  # leaves the caller's random state unchanged
        metrics = learn(config, say or (lambda _: None))
    values = {
        "experiment": key,
        "config": {name: value for name, value in asdict(config).items() if name != "seeds"},
        "seeds": list(config.seeds),
        "metrics": metrics,
        "seconds": round(time.perf_counter() - began, 1),
        "environment": environment(torch.device("cpu")),
    }
    return TrainingRecord.from_json(json.loads(json.dumps(values)))  # tuples become lists, as in a file


def fresh_statements(folder: Path, *, say: Say | None = None) -> tuple[Statement, ...]:
    """The claims as statements of a tour; measuring one trains it. Records are written to ``folder``."""

    def train(key: str) -> TrainingRecord:
        record = train_experiment(key, say=say)
        write_training(record, folder)
        return record

    return trained_statements(train)


def write_training(record: TrainingRecord, folder: str | Path) -> Path:
    """Writes ``folder/KEY.json``."""
    path = Path(folder) / f"{record.experiment}.json"
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        # More than six digits are not meaningful.
        path.write_text(json.dumps(_rounded(record.to_json()), ensure_ascii=False, indent=1) + "\n", encoding="utf-8")
    except OSError as error:
        raise DataError(f"a folder to write to at {folder}", str(error), "choose another with --output") from error
    return path


def _rounded(value: Any) -> Any:
    if isinstance(value, float):
        return float(f"{value:.6g}")
    if isinstance(value, Mapping):
        return {name: _rounded(inner) for name, inner in value.items()}
    return [_rounded(inner) for inner in value] if isinstance(value, list | tuple) else value
