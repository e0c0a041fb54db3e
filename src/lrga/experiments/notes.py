"""Notes below a table: how its numbers were computed, why some are not comparable, and which runs remain."""

from collections.abc import Iterable, Sequence
from typing import Any

from lrga.data.datasets.spec import dataset_name, spec_of
from lrga.errors import LRGAError
from lrga.experiments.campaign import BUSY, PENDING, Outcome, run_title
from lrga.experiments.cell import Cell, model_word
from lrga.experiments.records import DIVERGED, FAILED, FINISHED, TIME_LIMITED
from lrga.experiments.sheet import value_text
from lrga.training.problems.protocols import benchmark_schedule
from lrga.training.runs.seeds import SeedResults

LAST, BEST = "the last epoch", "the epoch with the best validation result"

# Graphs that were read like published files but have another origin, by their checksum.
REBUILT = {
    "529fb45c08f729d4921f1bbe9a5f416ea4222f073d61d59147fdc224227cf500": (
        "validation and test are the published graphs; training graphs were rebuilt from the official SMILES strings"
    )
}


def general_notes(cells: Sequence[Cell], outcomes: Sequence[Outcome]) -> list[str]:
    """Notes on how the numbers were computed and why some are not comparable."""
    changes = dict.fromkeys(change_text(key, *pair) for cell in cells for key, pair in cell.deviations().items())
    names = dict.fromkeys(dataset_name(cell.config.data.name) for cell in cells)
    return [
        _how(cells),
        *([f"Not the published protocol: {'; '.join(changes)}."] if changes else []),
        *(f"{name}: {spec_of(name).note}" for name in names if name is not None and spec_of(name).note),
        *_other_files(outcomes),
        *_mixed_data(outcomes),
    ]


def notes_of_seeds(done: SeedResults) -> list[str]:
    """Lines with the folder of each run, its error if it failed, and how to continue."""
    lines = []
    for seed, folder, outcome in zip(done.seeds, done.folders, done.outcomes, strict=True):
        if isinstance(outcome, Exception):
            what = str(outcome) if isinstance(outcome, LRGAError) else f"{type(outcome).__name__}: {outcome}"
            lines.append(f"seed {seed} failed: {what}")
        elif outcome.finished:
            lines.append(f"seed {seed}: {folder}, stopped by {outcome.stopped_by}")
        else:
            lines.append(f"seed {seed}, to continue: lrga train --resume {folder}")
    return lines


def _how(cells: Sequence[Cell]) -> str:
    """Note on layers and wiring of the runs."""
    if all(cell.config.budget is None for cell in cells):
        return _how_links(cells)
    presets = _by_model((cell.config.model.preset, cell) for cell in cells)
    augmented = ((cell.config.model, cell) for cell in cells if cell.config.model.lrga)
    wirings = _by_model((m.wiring if m.block == "benchmark" else "in residual blocks", cell) for m, cell in augmented)
    recalibrated = _distinct(cell.config.optimizer.recalibrate_norm for cell in cells)
    parts = [f"layers{' and patience' if any(map(_impatient, cells)) else ''} of preset {presets}"]
    parts += [f"LRGA wiring {wirings}"] if wirings else []
    if recalibrated != "0":
        parts.append(f"BatchNorm statistics re-estimated over {recalibrated} batches before each evaluation")
    reported = {cell.config.reported for cell in cells}
    epoch = {"last": LAST, "best": BEST}[reported.pop()] if len(reported) == 1 else f"{LAST}, on one graph {BEST}"
    return f"Test results of {epoch}, mean ± std (n − 1) over n seeds; {', '.join(parts)}."


def _by_model(values: Iterable[tuple[str, Cell]]) -> str:
    """Lists different values; each with its networks if no network has two values."""
    found: dict[str, dict[str, None]] = {}
    for value, cell in values:
        found.setdefault(value, {})[model_word(cell.config)] = None
    names = [name for models in found.values() for name in models]
    if len(found) == 1 or len(set(names)) < len(names):
        return ", ".join(found)
    return " and ".join(f"{value} ({', '.join(models)})" for value, models in found.items())


def _impatient(cell: Cell) -> bool:
    """Whether it uses the patience of 2020 although the later one is longer."""
    dataset, patience = dataset_name(cell.config.data.name), cell.config.optimizer.patience
    if dataset is None or cell.config.model.preset != "2020" or cell.config.budget is None:
        return False
    return patience == benchmark_schedule(dataset, preset="2020").patience < benchmark_schedule(dataset).patience


def _how_links(cells: Sequence[Cell]) -> str:
    """Notes on the runs of link prediction."""
    links = [cell.config for cell in cells if cell.config.option("predictor")]
    known = _distinct("used" if config.option("validation_edges") else "not used" for config in links)
    predictors = _distinct(config.option("predictor") for config in links).replace(", ", " or ")
    negatives = _distinct(config.option("negatives") for config in links).replace(", ", " or ")
    parts = [f"validation edges {known} in the test", f"predictor {predictors}", f"negatives {negatives}"]
    if augmented := [cell.config for cell in cells if cell.config.model.lrga]:
        skip = _distinct("with" if c.option("skip") and not c.option("linear_layers") else "without" for c in augmented)
        parts.append(f"LRGA of rank {_distinct(c.model.rank for c in augmented)} {skip} skip connection")
    return f"Test results of {BEST}, mean ± std (n − 1) over n seeds; " + ", ".join(parts) + "."


def change_text(key: str, here: Any, there: Any) -> str:
    """Text for an option that differs from the protocol.

    Example:
        >>> change_text("max_epochs", 2, 1000), change_text("options", {"sizes": (8, 4, 4)}, {})
        ('max_epochs 2 (published 1000)', 'data sizes 8/4/4')
    """
    if key == "options":
        return f"data {_text(here)}"
    return f"{key} {_text(here)}" + ("" if there is None else f" (published {_text(there)})")


def _other_files(outcomes: Sequence[Outcome]) -> list[str]:
    """Notes on files other than the published ones, by the records of links or the checksum of the graphs."""
    found: dict[str, None] = {}
    for outcome in outcomes:
        data = {} if outcome.record is None else outcome.record.data
        note = REBUILT.get(data.get("sha256", "")) or (data.get("note") if outcome.config.budget is None else None)
        if note:
            found[f"{outcome.config.data.name}: {note}."] = None
    return list(found)


def _mixed_data(outcomes: Sequence[Outcome]) -> list[str]:
    """Notes on runs with different graphs under one data set name, e.g. files of another origin."""
    seen: dict[tuple[str, str], set[str]] = {}
    for outcome in outcomes:
        if outcome.record is not None and outcome.record.data.get("sha256"):
            key = (outcome.config.data.name, str(outcome.config.data.options))
            seen.setdefault(key, set()).add(outcome.record.data["sha256"])
    return [f"Runs on {name} used {len(sums)} different sets of graphs; see the records."
            for (name, _), sums in seen.items() if len(sums) > 1]  # fmt: skip


def ended(outcomes: Sequence[Outcome]) -> list[str]:
    """Notes on runs that failed or diverged, with the reason."""
    return [
        f"{run_title(outcome.config)} {outcome.status}: {outcome.record.reason.splitlines()[0]}"
        for outcome in outcomes
        if outcome.status in (FAILED, DIVERGED) and outcome.record is not None
    ]


def to_continue(outcomes: Sequence[Outcome]) -> list[str]:
    """Notes on the runs that remain and how to resume them."""
    lines = []
    for outcome in outcomes:
        record, title = outcome.record, run_title(outcome.config)
        if outcome.status == TIME_LIMITED and record is not None:
            number = "" if record.test is None else f" (test {record.test:.4g})"
            lines.append(f"{title}: paused after {record.epochs} epochs{number}; run the same command to resume.")
        elif outcome.status == BUSY:
            lines.append(f"{title}: in training by another process.")
        elif outcome.status == PENDING and outcome.begun:
            lines.append(f"{title}: interrupted; run the same command to resume.")
    pending = sum(outcome.status == PENDING and not outcome.begun for outcome in outcomes)
    if 0 < pending < len(outcomes):
        done = sum(outcome.status == FINISHED for outcome in outcomes)
        lines.append(f"{done} of {len(outcomes)} runs are done, {pending} not started; run the same command to resume.")
    return lines


def _distinct(values: Any) -> str:
    return ", ".join(dict.fromkeys(str(value) for value in values))


def _text(value: Any) -> str:
    if isinstance(value, dict):
        return ", ".join(f"{key} {_text(entry)}" for key, entry in value.items()) or "none"
    if isinstance(value, list | tuple):
        return "/".join(f"{entry:,}" if isinstance(entry, int) else str(entry) for entry in value)
    return value_text(value)
