"""A campaign of your own as one file, TOML or Python.

TOML names the runs, each by any options of training; ``common`` holds what all share::

    title = "Link prediction on ogbl-ddi"
    seeds = [0, 1, 2]
    published = "published.toml"        # beside this file; may be left out
    [common]
    dataset = "ogbl-ddi"
    [[cell]]
    model = "gcn"
    lrga = false
    [[cell]]
    model = "gcn"
    lrga = true

Python defines ``study()``, which returns a :class:`~lrga.experiments.study.Study`.
"""

import runpy
from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from lrga.errors import DataError, OptionError
from lrga.experiments.cell import cell_beside, model_label
from lrga.experiments.published import PublishedTable, Reference, read_settings
from lrga.experiments.study import Study
from lrga.training.presets import make_config

_KEYS = {"title", "seeds", "published", "common", "cell"}


def read_study(
    path: str | Path, *, seeds: Iterable[int] | None = None, published: str | Path | None = None, **options: Any
) -> Study:
    """The campaign of a file.

    Args:
        path: A ``.toml`` or a ``.py`` file, which is run.
        seeds: Other seeds than the file's.
        published: Another table of published numbers than the file's.
        **options: Options of training that win over the file's.
    """
    path = Path(path)
    reference = None if published is None else PublishedTable.read(published)
    if path.suffix == ".py":
        study = _of_python(path)
        if reference is not None:
            study = replace(study, cells=tuple(replace(c, published=reference.number(c.config)) for c in study.cells))
        cells = [replace(c, config=c.config.changed(**options)) for c in study.cells] if options else study.cells
        return replace(study, cells=tuple(cells if seeds is None else (replace(c, seeds=tuple(seeds)) for c in cells)))
    values = read_settings(path)
    if unknown := sorted(set(values) - _KEYS):
        raise DataError(f"{', '.join(sorted(_KEYS))} in {path}", unknown[0], "choose among these")
    if not isinstance(values.get("cell"), list) or not values["cell"]:
        raise DataError(f"cells in {path}", "none", "write one [[cell]] for each row of the table")
    if reference is None and "published" in values:
        reference = PublishedTable.read(path.parent / values["published"])
    chosen = values.get("seeds", [41]) if seeds is None else tuple(seeds)
    cells = [_cell(values.get("common", {}) | cell, options, chosen, reference, path) for cell in values["cell"]]
    return Study(title=str(values.get("title", path.stem)), cells=tuple(cells))


def _cell(
    values: Mapping[str, Any], options: Mapping[str, Any], seeds: Iterable[int], reference: Reference | None, path: Path
) -> Any:
    known = dict(values)
    name, labels, own = known.pop("dataset", None), known.pop("labels", None), known.pop("seeds", seeds)
    if name is None:
        raise DataError(f"the dataset of every cell in {path}", "none", 'write dataset = "…" in [common]')
    config = make_config(str(name), **(known | dict(options)))
    usual = {"dataset": config.data.name, "model": model_label(config)}
    return cell_beside(reference, labels=labels or usual, config=config, seeds=own)


def _of_python(path: Path) -> Study:
    if not path.is_file():
        raise OptionError(f"a campaign at {path}", "no such file", "check the path")
    study = runpy.run_path(str(path)).get("study")
    found = study() if callable(study) else None
    if not isinstance(found, Study):
        raise DataError(f"a function study() in {path} that returns a Study", repr(found)[:80], "define it")
    return found
