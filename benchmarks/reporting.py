"""How the benchmarks report what they measured; imports nothing large, for some of them measure memory."""

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any


def report(record: Mapping[str, Any], show: Callable[[Any], None], *, out: Path | None, as_json: bool) -> None:
    """Writes what was measured to ``out``, where that is given, and prints it: as JSON, or as ``show`` does."""
    text = json.dumps(record, indent=1)
    if out is not None:
        out.parent.mkdir(parents=True, exist_ok=True)
        out.write_text(text + "\n", encoding="utf-8")
    if as_json:
        print(text)
    else:
        show(record)
