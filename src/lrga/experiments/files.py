"""A campaign of your own as one file, TOML or Python.

A TOML file lists the runs by their training options; ``common`` holds the shared options::

    title = "Link prediction on ogbl-ddi"
    seeds = [0, 1, 2]
    published = "published.toml"        # path relative to this file; optional
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
from lrga.experiments.cell import cell_beside, model_label, refuse_taken, select_cells
from lrga.experiments.published import PublishedTable, Reference, read_settings
from lrga.experiments.study import Study
from lrga.training.presets import make_config, runs_of_a_table

_KEYS = {"title", "seeds", "published", "common", "cell"}


@runs_of_a_table()
def read_study(
    path: str | Path,
    *,
    seeds: Iterable[int] | None = None,
    published: str | Path | None = None,
    data_options: Mapping[str, Any] | None = None,
    filters: Mapping[str, Any] | None = None,
    **options: Any,
) -> Study:
    """Reads a campaign from a file.

    Args:
        path: A ``.toml`` file, or a ``.py`` file, which is executed.
        seeds: Seeds instead of the file's.
        published: Published numbers to use instead of the file's.
        data_options: Options of the data set that override the file's.
        filters: Which cells to keep, by ``dataset``, ``model``, ``budget`` and ``lrga``; by default all.
        **options: Options of training that override the file's.
    """
    path = Path(path)
    reference = None if published is None else PublishedTable.read(published)
    if path.suffix == ".py":
        study = _of_python(path)
        if reference is not None:
            study = replace(study, cells=tuple(replace(c, published=reference.number(c.config)) for c in study.cells))
        cells = [
            replace(c, config=make_config(None, c.config, data_options=data_options, **options))
            for c in select_cells(study.cells, str(path), **(filters or {}))
        ]
        return replace(study, cells=tuple(cells if seeds is None else (replace(c, seeds=tuple(seeds)) for c in cells)))
    values = read_settings(path)
    if unknown := sorted(set(values) - _KEYS):
        raise DataError(f"{', '.join(sorted(_KEYS))} in {path}", unknown[0], "choose one of these")
    if not isinstance(values.get("cell"), list) or not values["cell"]:
        raise DataError(f"cells in {path}", "none", "write one [[cell]] for each row of the table")
    if reference is None and "published" in values:
        reference = PublishedTable.read(path.parent / values["published"])
    chosen = values.get("seeds", [41]) if seeds is None else tuple(seeds)
    options["data_options"] = {key: value for key, value in (data_options or {}).items() if value is not None}
    cells = [_cell(values.get("common", {}) | cell, options, chosen, reference, path) for cell in values["cell"]]
    return Study(
        title=str(values.get("title", path.stem)), cells=tuple(select_cells(cells, str(path), **(filters or {})))
    )


def _cell(
    values: Mapping[str, Any], options: Mapping[str, Any], seeds: Iterable[int], reference: Reference | None, path: Path
) -> Any:
    known = dict(values)
    refuse_taken(known, seed="seeds", name="dataset")
    name, labels, own = known.pop("dataset", None), known.pop("labels", None), known.pop("seeds", seeds)
    if name is None:
        raise DataError(f"the dataset of every cell in {path}", "none", 'write dataset = "…" in [common]')
    both = {**known.get("data_options", {}), **options["data_options"]}
    config = make_config(str(name), **{**known, **options, "data_options": both})
    labels = labels or {"dataset": config.data.name, "model": model_label(config)}
    return cell_beside(reference, labels=labels, config=config, seeds=own)


def _of_python(path: Path) -> Study:
    if not path.is_file():
        raise OptionError(f"a campaign at {path}", "no such file", "check the path")
    study = runpy.run_path(str(path)).get("study")
    found = study() if callable(study) else None
    if not isinstance(found, Study):
        raise DataError(f"a function study() in {path} that returns a Study", repr(found)[:80], "define it")
    return found
