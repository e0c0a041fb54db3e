"""The paper's claims, each answered in sentences with numbers of records; "not yet run" where there are none."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any

from lrga.bench.cell import Cell
from lrga.bench.claims import PARTS, plain_counterpart
from lrga.bench.differences import FAR
from lrga.bench.gathering import Landed, gather_records, rows_of
from lrga.bench.preset import LATER, PAPER
from lrga.bench.protocols import cells_of
from lrga.bench.record_table import standard_errors
from lrga.bench.tables import Row, Spread

NOT_YET = "not yet run"


@dataclass(frozen=True)
class Answer:
    """A claim, what the records say of it, and whether all runs that it needs are there."""

    claim: str
    text: str
    complete: bool

    def to_json(self) -> dict[str, Any]:
        """As JSON values."""
        return asdict(self)


def answers(folders: Iterable[str | Path]) -> list[Answer]:
    """Every claim with its answer from the records below some folders.

    Example:
        >>> import tempfile
        >>> {answer.text for answer in answers([tempfile.mkdtemp()])}
        {'not yet run'}
    """
    landed = gather_records(folders)
    return [question(landed) for question in QUESTIONS]


def _rows(cells: Sequence[Cell], landed: Sequence[Landed]) -> list[Row]:
    return rows_of(cells, landed)


def _helps(landed: Sequence[Landed]) -> Answer:
    claim = "LRGA improves the network in most cells of Table 1"
    pairs = _pairs(_rows(cells_of("table1"), landed))
    done = [(plain, with_it) for plain, with_it in pairs if plain.finished and with_it.finished]
    if not done:
        return Answer(claim, NOT_YET, False)
    better = [_name(plain) for plain, with_it in done if _gain(plain, with_it) > 0]
    worse = [_name(plain) for plain, with_it in done if _gain(plain, with_it) <= 0]
    printed = [(a.cell.published, b.cell.published, a.metric.higher_is_better) for a, b in pairs]
    won = sum((b.mean > a.mean) == up for a, b, up in printed if a is not None and b is not None and a.mean != b.mean)
    text = f"with LRGA the result is better in {len(better)} of {len(done)} pairs run so far"
    text += f" (in {won} of {len(pairs)} in the paper)"
    text += f": better in {_listed(better)}" if better else ""
    text += f"; not in {_listed(worse)}" if worse else ""
    return Answer(claim, f"{text}.", len(done) == len(pairs))


def _narrows(landed: Sequence[Landed]) -> Answer:
    claim = "LRGA narrows the gap between the networks"
    groups: dict[tuple[str, str], list[tuple[Row, Row]]] = {}
    for plain, with_it in _pairs(_rows(cells_of("table1"), landed)):
        groups.setdefault((plain.cell.config.data.name, str(plain.cell.config.model.budget)), []).append(
            (plain, with_it)
        )
    parts = []
    for (dataset, budget), pairs in groups.items():
        if all(row.finished for pair in pairs for row in pair):
            before, after = (_range([pair[i] for pair in pairs]) for i in (0, 1))
            digits = pairs[0][0].metric.decimals
            word = "narrower" if after < before else "wider"
            parts.append(f"{dataset} {budget}: {before:.{digits}f} without, {after:.{digits}f} with ({word})")
    if not parts:
        return Answer(claim, NOT_YET, False)
    text = "between the best and the worst of GCN, GAT and GatedGCN lie, on " + "; ".join(parts) + "."
    return Answer(claim, text, len(parts) == len(groups))


def _generalises(landed: Sequence[Landed]) -> Answer:
    claim = "Random features help generalisation"
    random = cells_of("table3")
    plain = [plain_counterpart(c.config.model.model, lrga=c.config.model.lrga) for c in random]
    parts = []
    for fresh, own in zip(_rows(random, landed), _rows(plain, landed), strict=True):
        a, b = _gap(fresh), _gap(own)
        if a is not None and b is not None:
            test = f"test {_mean(fresh):.2f} against {_mean(own):.2f}"
            parts.append(f"{fresh.cell.labels['model']} {test}, train − test {a:+.2f} against {b:+.2f}")
    if not parts:
        return Answer(claim, NOT_YET, False)
    text = "PATTERN at 500K, fresh random features against the set's own: " + "; ".join(parts) + "."
    return Answer(claim, text, len(parts) == len(random))


def _saturates(landed: Sequence[Landed]) -> Answer:
    claim = "Accuracy saturates near rank 30"
    for preset in (PAPER, LATER):  # the later layers until the paper's have been run
        rows = {row.cell.config.model.rank: row for row in _rows(cells_of("rank", preset=preset), landed)}
        means = {rank: _mean(row) for rank, row in rows.items() if row.finished}
        if {0, 30} <= set(means) and max(means) > 30:
            break
    else:
        return Answer(claim, NOT_YET, False)
    layers = rows[30].cell.config.model.preset
    best = max(means, key=lambda rank: means[rank])
    top, above = max(means), max(means[rank] - means[30] for rank in means if rank > 30)
    text = (
        f"CLUSTER, LRGA + GCN, layers of {layers}: {means[0]:.2f} at rank 0, {means[30]:.2f} at 30, "
        f"{means[top]:.2f} at {top}; best at {best} ({means[best]:.2f}). "
        f"From rank 0 to 30 it changes by {means[30] - means[0]:+.2f}, beyond by at most "
        f"{above:+.2f}."
    )
    return Answer(claim, text, preset == PAPER and len(means) == len(rows))


def _variants(claim: str, part: str, what: str, landed: Sequence[Landed]) -> Answer:
    """The variants of each network of a part, side by side."""
    rows = _rows(PARTS[part].cells(None, {}), landed)
    groups: dict[str, list[Row]] = {}
    for row in rows:
        groups.setdefault(_name(row, full=True), []).append(row)
    parts = []
    for name, group in groups.items():
        done = [row for row in group if row.finished]
        if len(done) > 1:
            digits = group[0].metric.decimals
            papers = {None if row.cell.published is None else row.cell.published.mean for row in done}
            each = len(papers) > 1
            listed = ", ".join(
                f"{_mean(row):.{digits}f} ({row.cell.labels['variant']}{_paper(row, digits) if each else ''})"
                for row in done
            )
            parts.append(f"{name}: {listed}{'' if each else _paper(done[0], digits)}")
    if not parts:
        return Answer(claim, NOT_YET, False)
    return Answer(claim, f"{what}, " + "; ".join(parts) + ".", all(row.finished for row in rows))


def _far(landed: Sequence[Landed]) -> Answer:
    claim = f"Cells of Tables 1 to 3 more than {FAR:g} pooled standard errors from the paper's"
    rows, known = _distances(landed, PAPER)
    if not known:
        return Answer(claim, NOT_YET, False)
    far = [f"{name} ({value:+.1f})" for name, value in known.items() if abs(value) > FAR]
    text = f"{len(far)} of {len(known)} cells run so far" + (f": {_listed(far)}" if far else "")
    _, later = _distances(landed, LATER)
    near = " and ".join(
        f"{sum(abs(value) <= FAR for value in values.values())} of {len(values)} {words}"
        for values, words in ((known, "with the preset paper"), (later, f"with the layers of {LATER} throughout"))
    )
    return Answer(claim, f"{text}. Within {FAR:g}: {near}.", all(row.finished for row in rows))


def _distances(landed: Sequence[Landed], preset: str) -> tuple[list[Row], dict[str, float]]:
    """The cells of Tables 1 to 3, and how far those that were run are from the paper's, by name."""
    layers: dict[str, dict[str, Any]] = {"table1": {"preset": preset}, "table2": {}, "table3": {"preset": preset}}
    tables = {table: _rows(cells_of(table, **options), landed) for table, options in layers.items()}
    known = {
        _name(row, full=True) + (", noise" if table == "table3" else ""): value
        for table, of_table in tables.items()
        for row in of_table
        if row.finished and (value := standard_errors(row)) is not None
    }
    return [row for table in tables.values() for row in table], known


# What the parts of claims answer: the claim, the part, and what its numbers are.
_OF_PARTS = (
    ("One head is on par with several", "heads", "at equal parameters"),
    ("Fresh features are better than features held fixed (PATTERN)", "features", "test accuracy"),
    ("What re-averaged BatchNorm statistics change", "norm", "test accuracy"),
    ("The benchmark's layers of 2020 against those of 2022", "presets", "test"),
    ("Readings of the augmented layer, which the paper's text leaves open", "readings", "test"),
    ("Depth against width of the two networks whose shape the paper does not print", "shapes", "test"),
    ("What ZINC's edge features give GatedGCN", "edges", "test"),
    ("What another draw of PATTERN and CLUSTER changes", "draws", "test accuracy"),
    ("How long vectors of ogbl-ddi learn from walks", "walks", "test Hits@20"),
)
QUESTIONS: tuple[Callable[[Sequence[Landed]], Answer], ...] = (
    _helps, _narrows, _generalises, _saturates, *(partial(_variants, *words) for words in _OF_PARTS), _far,
)  # fmt: skip


def _pairs(rows: Sequence[Row]) -> list[tuple[Row, Row]]:
    """Every network without and with LRGA."""
    by_name = {(_name(row), row.cell.config.model.lrga): row for row in rows}
    return [(row, by_name[name, True]) for (name, lrga), row in by_name.items() if not lrga and (name, True) in by_name]


def _name(row: Row, *, full: bool = False) -> str:
    labels, config = row.cell.labels, row.cell.config
    model = str(labels["model"]) if full else str(labels["model"]).removeprefix("LRGA + ")
    return " ".join(filter(None, (config.data.name, model, str(labels.get("budget", "")))))


def _paper(row: Row, digits: int) -> str:
    found = row.cell.published
    return "" if found is None else f", paper {found.mean:.{digits}f}"


def _mean(row: Row) -> float:
    spread = row.spread()
    assert spread is not None
    return spread.mean


def _gain(plain: Row, with_it: Row) -> float:
    """How much better the second is, whichever direction is better."""
    change = _mean(with_it) - _mean(plain)
    return change if plain.metric.higher_is_better else -change


def _gap(row: Row) -> float | None:
    """Training minus test of the last epoch, mean over the seeds."""
    found = Spread.of([r.last["train_metric"] - r.last["test_metric"] for r in row.finished if r.last is not None])
    return None if found is None else found.mean


def _range(rows: Sequence[Row]) -> float:
    means = [_mean(row) for row in rows]
    return max(means) - min(means)


def _listed(names: Sequence[str]) -> str:
    return ", ".join(names)
