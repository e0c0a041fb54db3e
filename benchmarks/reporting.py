"""How the benchmarks report what they measured; imports nothing large, for some of them measure memory."""

import json
import os
import shutil
import subprocess
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any


def conditions() -> dict[str, Any]:
    """Date and load of the machine: the load average of the last minute, and of GPUs their use and processes."""
    average = round(os.getloadavg()[0], 2) if hasattr(os, "getloadavg") else None
    load = {"average": average, "cores": os.cpu_count(), "gpu": _gpu_load()}
    return {"date": datetime.now(UTC).isoformat(timespec="seconds"), "load": load}


def _gpu_load() -> dict[str, int] | None:
    used, processes = _nvidia_smi("--query-gpu=utilization.gpu"), _nvidia_smi("--query-compute-apps=pid")
    if used is None or processes is None:
        return None
    percent = [int(line) for line in used if line.isdecimal()]
    return {"utilization_percent": max(percent, default=0), "processes": len(processes)}


def _nvidia_smi(query: str) -> list[str] | None:
    if shutil.which("nvidia-smi") is None:
        return None
    command = ["nvidia-smi", query, "--format=csv,noheader,nounits"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=20, check=True)
    except (OSError, subprocess.SubprocessError):
        return None
    return [line.strip() for line in done.stdout.splitlines() if line.strip()]


STARTED = conditions()  # before a script that imports this measures anything: what else is running


def described(record: Mapping[str, Any]) -> dict[str, Any]:
    """The record with commit, date and load; the last two as they were when the script began."""
    from lrga.training.runs.environment import commit

    return {**record, "commit": commit(), **STARTED}


def report(record: Mapping[str, Any], show: Callable[[Any], None], *, out: Path | None, as_json: bool) -> None:
    """Writes what was measured to ``out``, where that is given, and prints it: as JSON, or as ``show`` does."""
    record = described(record)
    text = json.dumps(record, indent=1)
    if out is not None:
        out.parent.mkdir(parents=True, exist_ok=True)
        out.write_text(text + "\n", encoding="utf-8")
    if as_json:
        print(text)
    else:
        show(record)
