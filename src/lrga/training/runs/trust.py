"""Restrictions on configurations read from a file: no import of user code, no writing to the data root it names.

A run folder, a configuration file or a record may come from someone else. It can name a ``module:factory``, which would
be imported and run, and a data ``root``, which would be written to. Both require the user's consent (``--trust``).
"""

import os
import warnings
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lrga.data.datasets.building import plan_dataset
from lrga.data.datasets.source import data_root
from lrga.data.datasets.spec import dataset_name
from lrga.data.own.reading import is_factory
from lrga.errors import UntrustedCodeError

if TYPE_CHECKING:
    from lrga.training.config import DataConfig


def data_from_file(
    data: "DataConfig",
    where: str | Path,
    *,
    trust: bool = False,
    name: str | None = None,
    root: str | Path | None = None,
    source: str | Path | None = None,
    command: str | None = None,
) -> "DataConfig":
    """The usable part of the data section of a configuration that was read from ``where``.

    Args:
        data: The section of the file.
        where: The run folder or file, for the messages.
        trust: Whether the user trusts the file; it is then used unchanged.
        name: Data given by the user, which replace the file's.
        root: Data root given by the user, which replaces the file's.
        source: Folder of data files given by the user, which replaces the file's.
        command: A command with the module as an argument, for the remedy.

    Returns:
        The section. The file's root is kept if the data set is already built there, so that it is only read, or if it
        is the default root. Otherwise root and source are dropped, with a warning.

    Raises:
        UntrustedCodeError: The file names a ``module:factory``.

    Example:
        >>> from lrga.training import DataConfig
        >>> data_from_file(DataConfig(name="my_graphs:load"), "runs/a")
        Traceback (most recent call last):
        ...
        lrga.errors.UntrustedCodeError: expected --trust (in Python trust=True) to import 'my_graphs:load', which runs \
its code, got a module that only runs/a names. To fix: if you trust it, add --trust.
    """
    given = {"root": root, "source": source}
    named: dict[str, Any] = {key: os.path.abspath(os.path.expanduser(path)) for key, path in given.items() if path}
    kept = replace(data, **named, name=data.name if name is None else name)
    if trust:
        return kept
    if name is None and is_factory(data.name):
        remedy = "if you trust it, add --trust" + (f", or name the module yourself: {command}" if command else "")
        expected = f"--trust (in Python trust=True) to import {data.name!r}, which runs its code"
        raise UntrustedCodeError(expected, f"a module that only {where} names", remedy)
    if dataset_name(kept.name) is None:
        return kept  # the user's own files are only read
    if plan_dataset(kept.name, kept.root, **kept.options).finished() is not None:
        return kept
    foreign = {"root": kept.root is not None and data_root(kept.root) != data_root(), "source": kept.source is not None}
    left_out: dict[str, Any] = {key: None for key, is_foreign in foreign.items() if is_foreign and key not in named}
    if left_out:
        which = " and ".join(f"{key} {getattr(kept, key)}" for key in left_out)
        used = kept.root if "root" not in left_out and kept.root is not None else data_root()
        warnings.warn(
            f"{where} names the {which}, where {kept.name} is not built yet; using the data root {used} instead. "
            "Pass --data-root, --source or --trust to change this.",
            stacklevel=3,
        )
    return replace(kept, **left_out)
