"""The record of a benchmark, as written by ``lrga bench --json`` and every script under ``benchmarks/``.

A record is a JSON object with these fields, and no others:

- ``benchmark``: name of the benchmark; ``commit``, ``date``, ``load``: source version, time, load of the machine;
- ``device``, ``torch``, ``lrga``, ``precision``: hardware and versions;
- ``settings``: settings of all rows, such as width and threads, as a flat object;
- ``rows``: the measurements, as flat objects;
- ``profiles``: the kernels of some rows, if the script lists them.

Of the first two lines only ``benchmark`` and ``device`` are required; the others may be ``null``.

A row is identified by ``case`` and, if they apply, ``method``, ``launch`` (``"eager"``, or ``"replay"`` of a CUDA
graph) and ``precision``. The names of measured numbers end in their unit: ``ms``, ``both_ms``, ``peak_bytes``.
``ratio`` is how many times faster the row is than its ``baseline``. A row without a number gives the
reason in ``skipped``. A row may have further words and numbers: sizes, errors, first losses.
"""

import os
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from lrga.io.documents import is_number
from lrga.version import __version__

UNITS = ("ms", "us", "seconds", "mb", "bytes", "per_second", "ratio")  # how a measured number's name ends
WORDS = ("case", "method", "launch", "precision")  # identify a row
_TEXTS = {"benchmark": True, "commit": False, "date": False, "device": True, "torch": False, "lrga": False,
          "precision": False}  # fmt: skip
FIELDS = (*_TEXTS, "load", "settings", "rows", "profiles")


def make_record(
    benchmark: str,
    rows: Sequence[Mapping[str, Any]],
    *,
    device: str,
    precision: str | None = None,
    settings: Mapping[str, Any] | None = None,
    profiles: Sequence[Mapping[str, Any]] = (),
    started: Mapping[str, Any] | None = None,
) -> dict[str, Any]:
    """Creates the record of a measurement in this process; an error if it does not have the form described above.

    Args:
        benchmark: Name of the benchmark.
        rows: The measurements.
        device: ``"cpu"``, a CUDA device, or the name of either.
        precision: Precision of all rows that do not state their own.
        settings: Settings of all rows.
        profiles: Kernels of some rows: ``case``, ``kernel``, ``calls``, ``us``.
        started: :func:`conditions` before the measurement; by default the current ones.

    Example:
        >>> record = make_record("sums", [{"case": "10 nodes", "ms": 1.5}], device="cpu")
        >>> problem_of(record) is None
        True
    """
    import torch

    from lrga.training.runs.environment import commit

    record = {
        "benchmark": benchmark, "commit": commit(), **(started or conditions()), "device": device_name(device),
        "torch": torch.__version__, "lrga": __version__, "precision": precision, "settings": dict(settings or {}),
        "rows": [dict(row) for row in rows], **({"profiles": list(profiles)} if profiles else {}),
    }  # fmt: skip
    if (problem := problem_of(record)) is not None:
        raise ValueError(f"the record of {benchmark} is invalid: {problem}")
    return record


def device_name(device: str) -> str:
    """The name of ``"cpu"`` or of a CUDA device; other names are returned unchanged."""
    import platform

    import torch

    if device == "cpu":
        return f"{platform.processor() or platform.machine()} CPU"
    return torch.cuda.get_device_name(device) if device.startswith("cuda") else device


def problem_of(values: Any) -> str | None:
    """Why JSON values are not a benchmark record; ``None`` if they are.

    Example:
        >>> problem_of({"benchmark": "a", "rows": []})
        'it has no commit'
    """
    if not isinstance(values, dict):
        return "expected a JSON object"
    for name, needed in _TEXTS.items():
        value = values.get(name)
        if name not in values or (needed and value is None):
            return f"it has no {name}"
        if not (isinstance(value, str) or value is None):
            return f"{name} is not a text: {value!r:.40}"
    if unknown := set(values) - set(FIELDS):
        return f"unknown field {min(unknown)!r:.40}"
    load, settings, rows, profiles = (values.get(key) for key in ("load", "settings", "rows", "profiles"))
    if "load" not in values or not (
        load is None or (isinstance(load, dict) and {*load} == {"average", "cores", "gpu"})
    ):
        return "load is neither null nor an object of average, cores and gpu"
    if not _is_flat(settings):
        return "settings is not an object of texts and numbers"
    if not (isinstance(rows, list) and rows):
        return "it has no rows"
    if not (profiles is None or (isinstance(profiles, list) and all(map(_is_flat, profiles)))):
        return "profiles is not a list of flat objects"
    found = ((number, _row_problem(row)) for number, row in enumerate(rows, 1))
    return next((f"row {number}: {problem}" for number, problem in found if problem), None)


def _row_problem(row: Any) -> str | None:
    if not _is_flat(row):
        return "not an object of texts and finite numbers"
    if not isinstance(row.get("case"), str) or not row["case"]:
        return "it has no case"
    if any(not isinstance(row.get(word, ""), str) for word in (*WORDS, "baseline", "skipped")):
        return "case, method, launch, precision, baseline and skipped are texts"
    if row.get("launch", "eager") not in ("eager", "replay"):
        return f"launch is eager or replay, not {row['launch']!r:.40}"
    if "ratio" in row and not (is_number(row["ratio"]) and row.get("baseline")):
        return "a ratio is a number and needs a baseline"
    if "skipped" not in row and not any(unit_of(key) and is_number(row[key]) for key in row):
        return "neither a number named by its unit nor skipped"
    return None


def _is_flat(values: Any) -> bool:
    return isinstance(values, dict) and all(
        isinstance(key, str) and (value is None or isinstance(value, str | bool) or is_number(value))
        for key, value in values.items()
    )


def unit_of(column: str) -> str | None:
    """The unit in which a column's name ends; ``None`` if it is not a measurement.

    Example:
        >>> unit_of("both_ms"), unit_of("peak_bytes"), unit_of("graphs_per_second"), unit_of("items")
        ('ms', 'bytes', 'per_second', None)
    """
    return next((unit for unit in UNITS if column == unit or column.endswith(f"_{unit}")), None)


def conditions() -> dict[str, Any]:
    """Date and load of the machine: load average of the last minute, utilisation and processes of GPUs."""
    average = round(os.getloadavg()[0], 2) if hasattr(os, "getloadavg") else None
    used, processes, gpu = _nvidia_smi("--query-gpu=utilization.gpu"), _nvidia_smi("--query-compute-apps=pid"), None
    if used is not None and processes is not None:
        percent = [int(line) for line in used if line.isdecimal()]
        gpu = {"utilization_percent": max(percent, default=0), "processes": len(processes)}
    load = {"average": average, "cores": os.cpu_count(), "gpu": gpu}
    return {"date": datetime.now(UTC).isoformat(timespec="seconds"), "load": load}


def _nvidia_smi(query: str) -> list[str] | None:
    if shutil.which("nvidia-smi") is None:
        return None
    command = ["nvidia-smi", query, "--format=csv,noheader,nounits"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=20, check=True)
    except (OSError, subprocess.SubprocessError):
        return None
    return [line.strip() for line in done.stdout.splitlines() if line.strip()]
