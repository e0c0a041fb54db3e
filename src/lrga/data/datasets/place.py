"""What a builder of a data set is given: its folders, its workers, and whom to tell of its progress."""

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from lrga.errors import OptionError
from lrga.io.limits import check_memory
from lrga.io.progress import Progress, silent

SPLITS = ("train", "val", "test")
GRAPH_BYTES = 1_000  # that a graph takes at least


@dataclass(frozen=True)
class BuildPlace:
    """Where and how one data set is built.

    Attributes:
        raw: Folder for downloaded files; they stay (use :func:`lrga.io.download.obtain`).
        work: Folder for parts of a long build, so that it resumes after a kill; write them atomically
            (:func:`lrga.io.files.atomic_path`). It survives a kill and is deleted when the set is finished.
            It belongs to this set and these options alone.
        source: Folder of raw or prepared files that the user named, or ``None``.
        workers: Number of processes or threads to use. The result must not depend on it.
        progress: Is told of the progress: ``progress(label, done, total)``.
        download: Whether the network may be used.
    """

    raw: Path
    work: Path
    source: Path | None = None
    workers: int = 1
    progress: Progress = silent
    download: bool = True


def default_workers() -> int:
    """Number of cores this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def check_seed(seed: Any) -> int:
    """``seed`` as a non-negative integer."""
    if isinstance(seed, bool) or not isinstance(seed, int) or not 0 <= seed < 2**63:
        raise OptionError("seed, an integer of at least 0", repr(seed), "pass for example seed=41")
    return seed


def parse_sizes(text: str) -> tuple[int, ...]:
    """Sizes as typed on the command line, ``"1500,250,250"``.

    Example:
        >>> parse_sizes("1500, 250, 250")
        (1500, 250, 250)
    """
    try:
        return tuple(int(part) for part in text.split(","))
    except ValueError as error:
        raise OptionError("sizes as train,val,test", repr(text), "write for example 1500,250,250") from error


def check_sizes(sizes: Any, default: Mapping[str, int]) -> list[int]:
    """``sizes`` as three numbers of graphs (train, val, test), ``default`` where it is ``None``."""
    if sizes is None:
        return [default[split] for split in SPLITS]
    good = isinstance(sizes, Sequence) and not isinstance(sizes, str) and len(sizes) == len(SPLITS)
    if not good or any(isinstance(n, bool) or not isinstance(n, int) or n < 1 for n in sizes):
        raise OptionError(
            "sizes, three numbers of graphs of at least 1: (train, val, test)",
            repr(sizes),
            "pass for example sizes=(1500, 250, 250)",
        )
    check_memory(GRAPH_BYTES * sum(sizes), f"{sum(sizes):,} graphs", remedy="ask for fewer graphs", error=OptionError)
    return list(sizes)
