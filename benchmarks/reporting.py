"""Shared by all benchmark scripts: options ``--json`` and ``--out``, and a record (lrga.speed.record)."""

import argparse
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from lrga.speed.record import conditions, make_record

STARTED = conditions()  # taken at import, before any measurement: the load of the machine


def make_parser(doc: str | None) -> argparse.ArgumentParser:
    """A parser of options with the script's docstring as its help."""
    parser = argparse.ArgumentParser(description=doc, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", action="store_true", help="print the record as JSON")
    parser.add_argument("--out", type=Path, help="write the record to this file")
    return parser


def report(
    benchmark: str, rows: list[dict[str, Any]], show: Callable[[Any], None], options: argparse.Namespace, **facts: Any
) -> dict[str, Any]:
    """Writes the record to ``--out``, if given, and prints it, as JSON or by ``show``.

    ``facts`` are the arguments of :func:`lrga.speed.record.make_record`: device, precision, settings, profiles.
    """
    record = make_record(benchmark, rows, started=STARTED, **facts)
    text = json.dumps(record, indent=1, ensure_ascii=False)
    if options.out is not None:
        options.out.parent.mkdir(parents=True, exist_ok=True)
        options.out.write_text(text + "\n", encoding="utf-8")
    if options.json:
        print(text)
    else:
        show(record)
    return record
