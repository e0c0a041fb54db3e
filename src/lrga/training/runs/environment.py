"""The environment of a run: hardware, versions, commit."""

import functools
import os
import platform
import subprocess
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import torch

from lrga.ops._triton import allows_tf32
from lrga.version import __version__

_PACKAGES = ("torch", "torch-geometric", "numpy", "scipy", "safetensors", "triton")


def environment(device: torch.device) -> dict[str, Any]:
    """Versions, hardware and commit as JSON values, recorded with every result.

    Example:
        >>> sorted(environment(torch.device("cpu")))
        ['commit', 'cpu', 'cpu_threads', 'device', 'gpu', 'lrga', 'packages', 'platform', 'python', 'tf32']
    """
    return {
        "lrga": __version__,
        "commit": commit(),
        "python": platform.python_version(),
        "platform": platform.platform(),
        "packages": {name: found for name in _PACKAGES if (found := _version(name)) is not None},
        "cpu": _cpu(),
        "cpu_threads": torch.get_num_threads(),
        "device": str(device),
        "gpu": torch.cuda.get_device_name(device) if device.type == "cuda" else None,
        "tf32": allows_tf32() if device.type == "cuda" else None,
    }


def commit() -> str | None:
    """The commit of the source tree of this package, with ``+`` if the tree was changed; ``None`` if there is none.

    For a copy without history, set the environment variable ``LRGA_COMMIT``.
    A package that is only installed inside another repository (e.g. in a virtual environment) has no commit.
    """
    return os.environ.get("LRGA_COMMIT") or _commit_of(Path(__file__).resolve())


@functools.cache  # the commit of the loaded code, even if its files change later
def _commit_of(source: Path) -> str | None:
    if _git(source.parent, "ls-files", "--error-unmatch", source.name) is None:
        return None
    head = _git(source.parent, "rev-parse", "HEAD")
    changed = _git(source.parent, "status", "--porcelain", "--untracked-files=no", "--", str(source.parent))
    return None if head is None else head + ("+" if changed else "")


def _git(folder: Path, *arguments: str) -> str | None:
    try:
        done = subprocess.run(["git", "-C", str(folder), *arguments], capture_output=True, text=True, timeout=10)
    except (OSError, subprocess.TimeoutExpired):
        return None
    return done.stdout.strip() if done.returncode == 0 else None


@functools.cache
def _version(package: str) -> str | None:
    try:
        return version(package)
    except PackageNotFoundError:
        return None


def _cpu() -> str:
    if os.path.exists("/proc/cpuinfo"):
        with open("/proc/cpuinfo", encoding="utf-8") as file:
            for line in file:
                if line.startswith("model name"):
                    return line.split(":", 1)[1].strip()
    return platform.processor() or platform.machine()
