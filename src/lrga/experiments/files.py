"""A campaign of your own as one file, TOML, JSON or Python.

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

A ``.json`` file has the same fields. Python defines ``study()``, which returns a
:class:`~lrga.experiments.study.Study`.
"""

import runpy
from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from lrga.errors import DataError, OptionError
from lrga.experiments.cell import Cell, cell_beside, flat_options, model_label, refuse_taken, select_cells
from lrga.experiments.loading import network_labels
from lrga.experiments.published import (
    TABLE,
    TABLES,
    TEXT,
    Kind,
    PublishedTable,
    Reference,
    check_data_name,
    check_fields,
    located,
    read_settings,
)
from lrga.experiments.study import Study
from lrga.training.presets import make_config, runs_of_a_table

_SEEDS: Kind = "a list of integers", lambda value: isinstance(value, list) and all(type(one) is int for one in value)
_LABELS: Kind = (
    "a table of text and numbers",
    lambda value: isinstance(value, Mapping) and all(isinstance(one, str | int | float) for one in value.values()),
)
_FIELDS = {"title": TEXT, "seeds": _SEEDS, "published": TEXT, "common": TABLE, "cell": TABLES}
_CELL = {"seeds": _SEEDS, "labels": _LABELS, "data_options": TABLE, "recipe": TEXT, "root": TEXT, "source": TEXT}


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
        path: A ``.toml`` or ``.json`` file, or a ``.py`` file, which is executed.
        seeds: Seeds instead of the file's.
        published: Published numbers to use instead of the file's.
        data_options: Options of the data set that override the file's.
        filters: Which cells to keep, by ``dataset``, ``model``, ``budget`` and ``lrga``; by default all.
        **options: Options of training that override the file's.
    """
    path = Path(path)
    reference = None if published is None else PublishedTable.read(published)
    if path.suffix == ".py":
        if not path.is_file():
            raise OptionError(f"a campaign at {path}", "no such file", "check the path")
        defined = runpy.run_path(str(path)).get("study")
        study = defined() if callable(defined) else None
        if not isinstance(study, Study):
            raise DataError(f"a function study() in {path} that returns a Study", repr(study)[:80], "define it")
        cells = select_cells(study.cells, str(path), **(filters or {}))
        cells = [_changed(cell, reference, data_options=data_options, **options) for cell in cells]
        return replace(study, cells=tuple(cells if seeds is None else (replace(c, seeds=tuple(seeds)) for c in cells)))
    values = read_settings(path)
    if "cell" not in values:
        raise DataError(f"cells in {path}", "none", "write one [[cell]] for each row of the table")
    check_fields(values, _FIELDS, str(path))
    if reference is None and "published" in values:
        reference = PublishedTable.read(path.parent / values["published"])
    options["data_options"] = {key: value for key, value in (data_options or {}).items() if value is not None}
    cells = []
    for number, cell in enumerate(values["cell"], start=1):
        own = {"seeds": values.get("seeds", [41]), **values.get("common", {}), **cell}
        own |= {} if seeds is None else {"seeds": list(seeds)}
        cells.append(_cell(own, options, reference, f"cell {number} of {path}"))
    cells = _told_apart(cells)
    chosen = select_cells(cells, str(path), **(filters or {}))
    return Study(title=values.get("title", path.stem), cells=tuple(chosen))


def _cell(values: dict[str, Any], options: Mapping[str, Any], reference: Reference | None, where: str) -> Cell:
    """A cell from the fields of a file; options of the command line override them."""
    with located(where):
        refuse_taken(values, seed="seeds", name="dataset", options="data_options", base="dataset")
    if "dataset" not in values:
        raise DataError(f"the dataset of {where}", "none", 'write dataset = "…" in it or in [common]')
    check_fields(values, _CELL, where, others=True)
    name, labels, seeds = check_data_name(values.pop("dataset"), where), values.pop("labels", None), values.pop("seeds")
    data_options = {**values.pop("data_options", {}), **options["data_options"]}
    with located(where):
        config = make_config(name, **{**values, **options, "data_options": data_options})
        return cell_beside(reference, labels=labels or {}, config=config, seeds=seeds)


def _told_apart(cells: list[Cell]) -> list[Cell]:
    """The cells; those without labels get their data set and network and, if several share these, what differs."""
    names = [(cell.config.data.name, model_label(cell.config)) for cell in cells]
    longer = network_labels([cell.config for cell in cells])
    found = []
    for cell, name, label in zip(cells, names, longer, strict=True):
        labels = {"dataset": name[0], "model": name[1] if names.count(name) == 1 else label}
        found.append(replace(cell, labels=cell.labels or labels))
    return found


def _changed(cell: Cell, reference: Reference | None, **options: Any) -> Cell:
    """A cell with other options, and a published number only if it is for these."""
    config = make_config(None, cell.config, **options)
    if reference is not None:
        return replace(cell, config=config, published=reference.number(config))
    same = flat_options(config) == flat_options(cell.config)
    return replace(cell, config=config, published=cell.published if same else None)
