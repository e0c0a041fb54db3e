"""``lrga reproduce … --from-records`` and ``--verify``: tables from records, and a recorded run made again."""

import json
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lrga.errors import visible

if TYPE_CHECKING:
    from lrga.bench.record_table import RecordTable
    from lrga.bench.study import Study

DIFFERENCES, PRESET = "differences", "preset"
DEFAULT = "results"


def sorted_out(arguments: Sequence[str]) -> tuple[list[str], list[str]]:
    """What is left of a command line: further seeds, as of ``--seeds 41 95``, and folders, by default ``results``."""
    seeds = [word for word in arguments if word.isdecimal() and not Path(word).exists()]
    return seeds, [word for word in arguments if word not in seeds] or [DEFAULT]


def show_differences(folders: Sequence[str], *, markdown: bool, as_json: bool) -> None:
    """Every cell that is far from the paper's, what was tried, and what that did."""
    from lrga.bench.differences import differences

    found = differences(folders)
    if as_json:
        _print_json([difference.to_json() for difference in found])
        return
    headings = ("cell", "diff", "SE", "variants (SE)", "closest within 2 SE")
    if markdown:
        print(f"| {' | '.join(headings)} |\n|---|---:|---:|---|---|")
    for difference in found:
        cell, changed, errors, tried, verdict = difference.cells()
        line = f"{cell}: {changed} ({errors} SE); variants: {tried}; closest within 2 SE: {verdict}"
        _say(f"| {' | '.join(difference.cells())} |" if markdown else line, markdown)


def show_choices(*, markdown: bool, as_json: bool) -> None:
    """The layers and wiring of each network in the preset ``paper``, and why."""
    from lrga.bench.preset import choices

    rows = choices()
    if as_json:
        _print_json(rows)
        return
    if markdown:
        print("\n".join(["| model | layers | reading | why |", "|---|---|---|---|"]))
    for row in rows:
        reading = row["reading"] or ""
        line = f"{row['model']}: layers of {row['layers']}{reading and f', reading {reading}'}; {row['reason']}"
        _say(f"| {row['model']} | {row['layers']} | {reading} | {row['reason']} |" if markdown else line, markdown)


def given(**options: Any) -> dict[str, Any]:
    """Of options by name, as typed (``--data-seed``), those that somebody gave."""
    found = {key: value for key, value in options.items() if value is not None and value is not False and value != []}
    return {f"--{key.replace('_', '-')}": value for key, value in found.items()}


def refuse(expected: str, names: Iterable[str], remedy: str) -> None:
    """Refuses options that would be passed over, if there are any."""
    from lrga.errors import OptionError

    if found := ", ".join(names):
        raise OptionError(expected, found, remedy)


def tables_of(
    study: "Study", folders: Sequence[str], *, done: bool, seeds: Sequence[int] | None = None
) -> list["RecordTable"]:
    """The table of a study; of claims with all parts, one for each. Seeds that were asked for are the only ones."""
    from lrga.bench.record_table import record_tables

    return record_tables(study, folders, done=done, seeds=seeds)


def show_tables(tables: Sequence["RecordTable"], *, markdown: bool, as_json: bool) -> None:
    """Tables, one below the other; titles only where there are several."""
    from lrga.cli.campaigns import show

    if as_json:
        _print_json(tables[0].to_json() if len(tables) == 1 else [table.to_json() for table in tables])
        return
    for table in tables:
        if not markdown:
            show(table, as_json=False)
            continue
        if len(tables) > 1:
            sys.stdout.write(f"**{table.title}**\n\n")
        sys.stdout.write(table.to_markdown() + ("\n" if table is not tables[-1] else ""))


def show_what_verifying_means(path: Path, *, epochs: int | None, as_json: bool) -> None:
    """Which run would be made again, and how long it took."""
    from lrga.bench.records import read_record
    from lrga.bench.verifying import epochs_again

    record = read_record(path)
    where = record.environment[-1] if record.environment else {}
    facts = {
        "run": record.run,
        "epochs": epochs_again(record, epochs),
        "recorded_epochs": record.epochs,
        "recorded_seconds": record.seconds,
        "recorded_on": where.get("gpu") or where.get("cpu"),
    }
    if as_json:
        _print_json(facts)
        return
    print(visible(f"Would make {record.run} again, {facts['epochs']} of its {record.epochs} epochs, and compare."))
    print(f"All of them took {record.seconds:,.0f} s on {facts['recorded_on'] or 'an unknown device'}.")


def show_rerun(path: Path, *, as_json: bool, **options: Any) -> int:
    """Makes the run of a record again and prints both; returns the exit code."""
    from lrga.bench.records import DIVERGED, FAILED, FINISHED
    from lrga.bench.verifying import verify
    from lrga.cli.campaigns import INCOMPLETE

    found = verify(path, **options)
    if as_json:
        _print_json(found.to_json())
    for line in () if as_json else found.lines:
        print(visible(line))
    if found.equal is False or found.status in (FAILED, DIVERGED):
        return 1
    return 0 if found.status == FINISHED else INCOMPLETE


def _print_json(value: Any) -> None:
    print(json.dumps(value, indent=2, ensure_ascii=False))


def _say(line: str, markdown: bool) -> None:
    from lrga.cli.tables import stdout

    if markdown:
        print(visible(line))
    else:
        stdout().print(line, markup=False, highlight=False)
