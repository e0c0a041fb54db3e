"""The repository around the package: ``reproduction/`` is not in the wheel."""

import sys
from collections.abc import Sequence
from importlib import import_module
from pathlib import Path
from typing import Any

import lrga.version
from lrga.errors import UnsupportedError

ROOT = Path(lrga.version.__file__).resolve().parents[2]


def from_clone(module: str, command: str) -> Any:
    """Imports a module of ``reproduction/``.

    Raises:
        UnsupportedError: The package was installed without the repository.
    """
    if not (ROOT / "reproduction" / "__init__.py").is_file():
        remedy = "clone the repository, run pip install -e . in it, and repeat the command"
        raise UnsupportedError(f"a clone of the repository, for {command}", "an installed package only", remedy)
    if str(ROOT) not in sys.path:
        sys.path.append(str(ROOT))
    return import_module(f"reproduction.{module}")


def folders_of_runs(given: Sequence[str | Path] | None) -> list[Path]:
    """The folders that a command reads. Default: ``runs``, or the recorded results in a clone without ``runs``."""
    if given:
        return list(map(Path, given))
    runs, recorded = Path("runs"), ROOT / "reproduction" / "results"
    chosen = recorded if recorded.is_dir() and not runs.exists() else runs
    print(f"Reading {chosen}", file=sys.stderr)
    return [chosen]
