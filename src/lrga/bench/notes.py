"""The lines below a table: how its numbers were made, and what keeps them from being comparable."""

from collections.abc import Iterable, Sequence
from typing import Any

from lrga.bench.cell import Cell, model_word
from lrga.bench.display import value_text
from lrga.bench.records import DIVERGED, FAILED, FINISHED, TIME_LIMITED
from lrga.bench.runner import BUSY, PENDING, Outcome, run_title
from lrga.data.datasets.spec import dataset_name, spec_of
from lrga.training.presets import benchmark_schedule

# Sets of graphs that were read as if published, but were made in another way, by their checksum.
REBUILT = {
    "529fb45c08f729d4921f1bbe9a5f416ea4222f073d61d59147fdc224227cf500": (
        "validation and test are the published graphs; those of training were rebuilt from the official SMILES strings"
    )
}


def notes_of(cells: Sequence[Cell], outcomes: Sequence[Outcome]) -> list[str]:
    """All notes that apply, the general ones first."""
    return [
        _how(cells),
        *_changes(cells),
        *_fresh_draws(cells),
        *_other_files(outcomes),
        *_mixed_data(outcomes),
        *_unfinished(outcomes),
    ]


def _how(cells: Sequence[Cell]) -> str:
    """Which of the readings that the paper leaves open was run."""
    if all(cell.config.problem == "links" for cell in cells):
        return _how_links(cells)
    presets = _by_model((cell.config.model.preset, cell) for cell in cells)
    readings = _by_model((cell.config.model.reading, cell) for cell in cells if cell.config.model.lrga)
    recalibrated = _distinct(cell.config.optimizer.recalibrate_norm for cell in cells)
    what = "layers and patience" if any(map(_impatient, cells)) else "layers"
    parts = [f"{what} of preset {presets}"]
    if readings:
        parts.append(f"LRGA in reading {readings}")
    if recalibrated != "0":
        parts.append(f"BatchNorm statistics averaged afresh over {recalibrated} batches before each evaluation")
    return "Last epoch's model, mean ± std (n − 1) over n seeds; " + ", ".join(parts) + "."


def _by_model(values: Iterable[tuple[str, Cell]]) -> str:
    """Different values; each with its networks where no network has two."""
    found: dict[str, dict[str, None]] = {}
    for value, cell in values:
        found.setdefault(value, {})[model_word(cell.config)] = None
    names = [name for models in found.values() for name in models]
    if len(found) == 1 or len(set(names)) < len(names):
        return ", ".join(found)
    return " and ".join(f"{value} ({', '.join(models)})" for value, models in found.items())


def _impatient(cell: Cell) -> bool:
    """Whether it has the patience of 2020 where the later one is longer."""
    dataset, patience = dataset_name(cell.config.data.name), cell.config.optimizer.patience
    if dataset is None or cell.config.model.preset != "2020" or cell.config.problem == "links":
        return False
    return patience == benchmark_schedule(dataset, preset="2020").patience < benchmark_schedule(dataset).patience


def _how_links(cells: Sequence[Cell]) -> str:
    """The same of link prediction."""
    links = [cell.config for cell in cells if cell.config.problem == "links"]
    known = _distinct("known" if config.option("validation_edges") else "not known" for config in links)
    predictors = _distinct(config.option("predictor") for config in links).replace(", ", " or ")
    negatives = _distinct(config.option("negatives") for config in links).replace(", ", " or ")
    parts = [f"validation edges {known} in the test", f"predictor {predictors}", f"negatives {negatives}"]
    if augmented := [cell.config for cell in cells if cell.config.model.lrga]:
        ranks = _distinct(config.model.rank for config in augmented)
        skips = _distinct("with" if config.option("skip") else "without" for config in augmented)
        parts.append(f"LRGA of rank {ranks} {skips} skip connection")
    return "Best validation epoch's model, mean ± std (n − 1) over n seeds; " + ", ".join(parts) + "."


def _changes(cells: Sequence[Cell]) -> list[str]:
    """Every option that differs from the paper's protocol."""
    changed: dict[str, list[str]] = {}
    for cell in cells:
        for key, (here, there) in cell.deviations().items():
            name, beside = ("data", "") if key == "options" else (key, f" (paper {_text(there)})")
            text = f"{name} {_text(here)}{'' if there is None else beside}"
            if text not in changed.setdefault(key, []):
                changed[key].append(text)
    listed = [text for texts in changed.values() for text in texts]
    return [f"Not the paper's protocol: {'; '.join(listed)}."] if listed else []


def _fresh_draws(cells: Sequence[Cell]) -> list[str]:
    names = dict.fromkeys(dataset_name(cell.config.data.name) for cell in cells)
    return [f"{name}: {spec_of(name).note}" for name in names if name is not None and spec_of(name).note]


def _other_files(outcomes: Sequence[Outcome]) -> list[str]:
    """Files that are not the published ones, as the records of links or the checksum of the graphs have it."""
    found: dict[str, None] = {}
    for outcome in outcomes:
        data = {} if outcome.record is None else outcome.record.data
        note = REBUILT.get(data.get("sha256", "")) or (data.get("note") if outcome.config.problem == "links" else None)
        if note:
            found[f"{outcome.config.data.name}: {note}."] = None
    return list(found)


def _mixed_data(outcomes: Sequence[Outcome]) -> list[str]:
    """Runs on different graphs under one name, e.g. files of another origin."""
    seen: dict[tuple[str, str], set[str]] = {}
    for outcome in outcomes:
        if outcome.record is not None and outcome.record.data.get("sha256"):
            key = (outcome.config.data.name, str(outcome.config.data.options))
            seen.setdefault(key, set()).add(outcome.record.data["sha256"])
    return [f"Runs on {name} were made with {len(sums)} different sets of graphs; see the records."
            for (name, _), sums in seen.items() if len(sums) > 1]  # fmt: skip


def _unfinished(outcomes: Sequence[Outcome]) -> list[str]:
    """What became of runs that have no number."""
    lines = []
    for outcome in outcomes:
        record, title = outcome.record, run_title(outcome.config)
        if outcome.status in (FAILED, DIVERGED) and record is not None:
            lines.append(f"{title} {outcome.status}: {record.reason.splitlines()[0]}")
        elif outcome.status == TIME_LIMITED and record is not None:
            number = "" if record.test is None else f" (test {record.test:.4g})"
            lines.append(f"{title}: paused after {record.epochs} epochs{number}; the same command continues it.")
        elif outcome.status == BUSY:
            lines.append(f"{title}: another process trains it.")
        elif outcome.status == PENDING and outcome.begun:
            lines.append(f"{title}: stopped on its way; the same command continues it.")
    pending = sum(outcome.status == PENDING and not outcome.begun for outcome in outcomes)
    if 0 < pending < len(outcomes):
        done = sum(outcome.status == FINISHED for outcome in outcomes)
        lines.append(f"{done} of {len(outcomes)} runs are done, {pending} not begun; the same command continues.")
    return lines


def _distinct(values: Any) -> str:
    return ", ".join(dict.fromkeys(str(value) for value in values))


def _text(value: Any) -> str:
    if isinstance(value, dict):
        return ", ".join(f"{key} {_text(entry)}" for key, entry in value.items()) or "none"
    if isinstance(value, list | tuple):
        return "/".join(f"{entry:,}" if isinstance(entry, int) else str(entry) for entry in value)
    return value_text(value)
