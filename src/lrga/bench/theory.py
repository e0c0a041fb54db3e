"""The paper's claims that need training, as experiments: shown from shipped records, or trained afresh.

Each is a statement for the tour (:func:`lrga.theory.tour.run_tour`) beside those that are merely computed.
"""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from lrga.bench.theory_graphs import CSL, ClassesConfig, judge_classes, learn_classes, pairs_config
from lrga.bench.theory_head import HeadConfig, judge_head, learn_head
from lrga.bench.theory_monomials import MonomialConfig, judge_monomials, learn_monomials
from lrga.bench.theory_records import Say, TrainingRecord, record_training, shipped_record, write_training
from lrga.bench.theory_triangles import TriangleConfig, judge_triangles, learn_triangles
from lrga.theory.tour import Measurement, Statement


@dataclass(frozen=True)
class Experiment:
    """A claim that takes training.

    Attributes:
        key, place, claim: As of a :class:`~lrga.theory.tour.Statement`.
        config: Options of the recorded run.
        learn: ``learn(config, say)`` trains and returns the metrics.
        judge: What a record says of the claim.
    """

    key: str
    place: str
    claim: str
    config: Any
    learn: Callable[[Any, Say], dict[str, Any]]
    judge: Callable[[TrainingRecord], Measurement]


EXPERIMENTS: tuple[Experiment, ...] = (
    Experiment(
        "trained-triangles",
        "Proposition 1, trained",
        "DeepSets on [R, AR], trained on triangles, errs less than the constructed at small d (random graphs: < .9)",
        TriangleConfig(),
        learn_triangles,
        judge_triangles,
    ),
    Experiment(
        "learned-monomials",
        "Proposition 3, trained",
        "a two-layer network learns monomials from samples (error < .2, falling by two thirds or more)",
        MonomialConfig(),
        learn_monomials,
        judge_monomials,
    ),
    Experiment(
        CSL,
        "Section 5, circular skip links",
        "ten classes that are one to 1-WL: GNN at chance exactly; RGNN and RGNN + LRGA above 1.5 times that",
        ClassesConfig(seeds=(0, 1)),
        learn_classes,
        judge_classes,
    ),
    Experiment(
        "equivalent-pairs",
        "Section 5, graphs that are one to 1-WL",
        "GNN at chance exactly on every pair; RGNN and RGNN + LRGA above 1.5 times that on one of them at least",
        pairs_config(),
        learn_classes,
        judge_classes,
    ),
    Experiment(
        "learned-head",
        "Theorem 1, trained",
        "one head of 2-FWL is learned with a smaller error with LRGA than without, at equal parameters (±5 %)",
        HeadConfig(),
        learn_head,
        judge_head,
    ),
)


def train_experiment(experiment: Experiment, config: Any = None, *, say: Say | None = None) -> TrainingRecord:
    """Trains an experiment afresh.

    Args:
        experiment: One of :data:`EXPERIMENTS`.
        config: Options other than the recorded run's.
        say: Is told how far it is.
    """
    chosen = experiment.config if config is None else config
    return record_training(experiment.key, chosen, experiment.learn, say or (lambda _: None))


def training_statements(
    *, train: bool = False, say: Say | None = None, folder: Path | None = None
) -> tuple[Statement, ...]:
    """The experiments as statements of a tour.

    Args:
        train: Whether to train afresh, a few minutes in all, rather than to read the shipped records.
        say: Is told how far training is.
        folder: Fresh records are written there.

    Example:
        >>> [statement.key for statement in training_statements()][:2]
        ['trained-triangles', 'learned-monomials']
    """
    return tuple(Statement(e.key, e.place, e.claim, _measure(e, train, say, folder)) for e in EXPERIMENTS)


def _measure(experiment: Experiment, train: bool, say: Say | None, folder: Path | None) -> Callable[[], Measurement]:
    def measure() -> Measurement:
        if not train:
            record = shipped_record(experiment.key)
            found = experiment.judge(record)
            told = f"{found.figure} (recorded, {record.seconds:.0f} s; --train measures afresh)"
            return Measurement(told, found.holds, found.values, found.series)
        record = train_experiment(experiment, say=say)
        if folder is not None:
            write_training(record, folder)
        return experiment.judge(record)

    return measure
