"""The paper's claims that need training, evaluated on records that are part of the package.

The experiments are in ``reproduction/theory``, outside the package; in a clone, ``lrga theory --train`` runs them.
"""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from importlib.resources import files
from typing import Any, NamedTuple

from lrga.errors import DataError, DataMissingError
from lrga.theory.tour import Measurement, Series, Statement, slope

CSL = "circular-skip-links"
CLASS_NETWORKS = ("GNN", "RGNN", "RGNN + LRGA")
HEAD_NETWORKS = ("GNN", "GNN + LRGA")


@dataclass(frozen=True, kw_only=True)
class TrainingRecord:
    """The record of one training experiment.

    Attributes:
        experiment: Key of the experiment.
        config: All options.
        seeds: Seeds, one for each run.
        metrics: ``x``, the positions; ``curves``: name → one list of values for each seed; and further numbers.
        seconds: Total time.
        environment: Versions, hardware, commit.
    """

    experiment: str
    config: Mapping[str, Any]
    seeds: Sequence[int]
    metrics: Mapping[str, Any]
    seconds: float
    environment: Mapping[str, Any]

    @property
    def x(self) -> list[float]:
        """Positions of the values of every curve."""
        return list(self.metrics["x"])

    def mean(self, curve: str) -> list[float]:
        """A curve, averaged over the seeds."""
        runs = self.metrics["curves"][curve]
        return [sum(values) / len(values) for values in zip(*runs, strict=True)]

    def to_json(self) -> dict[str, Any]:
        """Converts to JSON values, which :meth:`from_json` reads."""
        return asdict(self)

    @classmethod
    def from_json(cls, values: Any, *, where: str = "a record") -> "TrainingRecord":
        """Reads the JSON values of :meth:`to_json`."""
        try:
            record = cls(**values)
            shapes = {(len(runs), *map(len, runs)) for runs in record.metrics["curves"].values()}
            sound = shapes <= {(len(record.seeds), *[len(record.x)] * len(record.seeds))}
        except (TypeError, KeyError, AttributeError):
            sound = False
        if not sound:
            expected = f"{where} with one run for each seed, and one value for each x, in every curve"
            raise DataError(expected, repr(values)[:80], "train it with --train")
        return record


def shipped_record(key: str) -> TrainingRecord:
    """The record of an experiment, from the package.

    Example:
        >>> shipped_record("circular-skip-links").experiment
        'circular-skip-links'
    """
    place = files("lrga.theory").joinpath("records", f"{key}.json")
    if not place.is_file():
        raise DataMissingError(f"a record of the experiment {key!r}", "none in this package", "train it with --train")
    return TrainingRecord.from_json(json.loads(place.read_text(encoding="utf-8")), where=f"the record of {key!r}")


def judge_triangles(record: TrainingRecord) -> Measurement:
    """Constructed weights improve with d. Trained weights are better for these d and, on random graphs, beat a guess.

    Guessing the mean has error 1. The check does not require training to beat it on regular graphs; the figures show
    whether it does.
    """
    curves = {name: record.mean(name) for name in record.metrics["curves"]}
    texts, holds = [], True
    for family in record.config["families"]:
        built, trained, blind = (
            curves[f"{family}: {kind}"] for kind in ("constructed", "trained", "trained on degrees")
        )
        figures = ", ".join(f"{a:.2f} / {b:.2f} at d={d}" for d, a, b in zip(record.x, built, trained, strict=True))
        texts.append(f"{family} graphs {figures}, from degrees alone {blind[0]:.2f}")
        holds &= built[-1] < built[0] / 2 and all(b < a for a, b in zip(built, trained, strict=True))
        holds &= trained[-1] < (0.9 if family == "random" else 1.1)
    return Measurement(
        "test error over standard deviation, constructed / trained: " + "; ".join(texts),
        holds,
        {f"{name} d={d}": value for name, values in curves.items() for d, value in zip(record.x, values, strict=True)},
        Series("random features d", "test error / standard deviation", record.x, curves),
    )


def judge_monomials(record: TrainingRecord) -> Measurement:
    """Errors decrease with the number of samples by at least two thirds, to below a fifth of the standard deviation."""
    curves = {name: record.mean(name) for name in record.metrics["curves"]}
    falls = {name: slope(record.x, values) for name, values in curves.items()}
    texts = "; ".join(
        f"{name}: {values[0]:.2f} from {record.x[0]} samples, {values[-1]:.3f} from {record.x[-1]}"
        for name, values in curves.items()
    )
    return Measurement(
        f"test error relative to the standard deviation, {texts}",
        all(values[-1] < min(0.2, values[0] / 3) for values in curves.values()),
        {f"error {name}": values[-1] for name, values in curves.items()}
        | {f"slope {name}": fall for name, fall in falls.items()},
        Series("samples", "test error / standard deviation", record.x, curves, reference=-0.5),
    )


def judge_classes(record: TrainingRecord) -> Measurement:
    """A GNN is exactly at chance on all entries; RGNN, with and without LRGA, is clearly above chance on some entry.

    The check does not require this on every entry, or that LRGA helps; the figures show whether it does.
    """
    last = {curve: record.mean(curve)[-1] for curve in record.metrics["curves"]}
    texts, at_chance, learned = [], True, False
    for entry, chance in record.metrics["chance"].items():
        scores = [(last[f"{entry}: {name}, train"], last[f"{entry}: {name}, test"]) for name in CLASS_NETWORKS]
        figures = ", ".join(f"{name} {a:.0f}/{b:.0f}" for name, (a, b) in zip(CLASS_NETWORKS, scores, strict=True))
        texts.append(f"{entry}: {figures} (chance {chance:.0f})")
        at_chance &= all(abs(score - chance) < 0.01 for score in scores[0])
        learned |= all(test > 1.5 * chance for _, test in scores[1:])
    curves = {
        (name if len(record.metrics["chance"]) == 1 else f"{entry}: {name}"): record.mean(f"{entry}: {name}, test")
        for entry in record.metrics["chance"]
        for name in CLASS_NETWORKS
    }
    series = Series("epoch", "test accuracy (%)", record.x, curves, "")
    return Measurement("% train/test, " + "; ".join(texts), at_chance and learned, last, series)


def judge_head(record: TrainingRecord) -> Measurement:
    """Parameter counts agree to 5 %, errors decrease with the training set, and LRGA's error is smaller at the end."""
    plain, augmented = (record.mean(name) for name in HEAD_NETWORKS)
    counts = record.metrics["parameters"]
    texts = ", ".join(f"{a:.3f} / {b:.3f} from {n}" for n, a, b in zip(record.x, plain, augmented, strict=True))
    equal = abs(counts["GNN"] / counts["GNN + LRGA"] - 1) < 0.05
    return Measurement(
        f"test error relative to the standard deviation, GNN / GNN + LRGA: {texts} graphs; "
        f"{counts['GNN']:,} / {counts['GNN + LRGA']:,} parameters",
        equal and augmented[-1] < augmented[0] and augmented[-1] < plain[-1],
        {f"gnn_{n}": a for n, a in zip(record.x, plain, strict=True)}
        | {f"lrga_{n}": b for n, b in zip(record.x, augmented, strict=True)},
        Series("training graphs", "test error / standard deviation", record.x, {"GNN": plain, "GNN + LRGA": augmented}),
    )


class TrainedClaim(NamedTuple):
    """A claim that needs training: a :class:`~lrga.theory.tour.Statement` with a function that checks its record."""

    key: str
    place: str
    claim: str
    judge: Callable[[TrainingRecord], Measurement]


TRAINED_CLAIMS: tuple[TrainedClaim, ...] = (
    TrainedClaim(
        "trained-triangles",
        "Proposition 1, trained",
        "DeepSets on [R, AR] trained to count triangles beat constructed ones at small d (error on random graphs < .9)",
        judge_triangles,
    ),
    TrainedClaim(
        "learned-monomials",
        "Proposition 3, trained",
        "a two-layer network learns monomials from samples (error < .2, falling by two thirds or more)",
        judge_monomials,
    ),
    TrainedClaim(
        CSL,
        "Section 5, circular skip links",
        "ten classes equal under 1-WL: GNN exactly at chance; RGNN and RGNN + LRGA above 1.5 times chance",
        judge_classes,
    ),
    TrainedClaim(
        "equivalent-pairs",
        "Section 5, graphs equal under 1-WL",
        "GNN exactly at chance on every pair; RGNN and RGNN + LRGA above 1.5 times chance on at least one",
        judge_classes,
    ),
    TrainedClaim(
        "learned-head",
        "Theorem 1, trained",
        "a head of 2-FWL is learned with a smaller error with LRGA than without, at equal parameters (±5 %)",
        judge_head,
    ),
)


def trained_statements(train: Callable[[str], TrainingRecord] | None = None) -> tuple[Statement, ...]:
    """The claims as statements of a tour, from the records of the package or, with ``train``, from new ones.

    Example:
        >>> [statement.key for statement in trained_statements()][:2]
        ['trained-triangles', 'learned-monomials']
    """
    return tuple(Statement(c.key, c.place, c.claim, partial(_measure, c, train)) for c in TRAINED_CLAIMS)


def _measure(claim: TrainedClaim, train: Callable[[str], TrainingRecord] | None) -> Measurement:
    if train is not None:
        return claim.judge(train(claim.key))
    record = shipped_record(claim.key)
    found = claim.judge(record)
    return replace(found, figure=f"{found.figure} (recorded, {record.seconds:.0f} s; --train measures again)")
