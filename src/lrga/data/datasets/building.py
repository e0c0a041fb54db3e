"""Which variant of a data set is meant, whether it is built, and building it so that a kill leaves nothing believed."""

import inspect
import shlex
import shutil
import warnings
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from lrga.data.datasets.manifest import FILE_NAME, Manifest, read_manifest, verify_manifest, write_manifest
from lrga.data.datasets.masked import masked_splits
from lrga.data.datasets.place import SPLITS, BuildPlace, default_workers
from lrga.data.datasets.root import data_root
from lrga.data.datasets.spec import DatasetSpec, spec_of
from lrga.data.links.data import LinkData
from lrga.data.links.storage import load_link_data, save_link_data
from lrga.data.packed.graphs import PackedGraphs
from lrga.errors import DataError, DataMissingError, LRGAError, OptionError
from lrga.io.files import writing
from lrga.io.lock import FolderLock
from lrga.io.progress import Progress, silent

COMMAND_OPTIONS = ("seed", "sizes", "split", "missing")
"""Options that ``lrga data build`` knows; the others are options of :func:`lrga.data.load` alone."""

DEFAULT_VARIANT = "default"
GRAPH_FILE = "graph.safetensors"  # of a set that is one graph
RAW_FOLDER = "raw"


@dataclass(frozen=True)
class Plan:
    """One variant of a data set and where it belongs.

    Attributes:
        spec: The data set.
        recipe: Version of the recipe and all options: what determines the content.
        folder: Where the finished set lies.
        raw: Where downloads lie.
    """

    spec: DatasetSpec
    recipe: dict[str, Any]
    folder: Path
    raw: Path

    @property
    def work(self) -> Path:
        """Where parts of an unfinished build lie."""
        return self.folder / "parts"

    def rebuild(self, manifest: Manifest | None = None) -> str:
        """What to do about a damaged set; its ``manifest``, where it is legible, says what it was built from."""
        source = None if manifest is None else manifest.notes.get("source")
        command = build_command(self.spec.name, self.folder.parent.parent, source, self._other_options())
        known = manifest is not None or not self.spec.reads_source
        hint = "" if known else " (and --source DIR if it was built from files of yours)"
        return f"delete {self.folder} and build it again: {command}{hint}"

    def _other_options(self) -> dict[str, Any]:
        defaults = self.spec.options()
        return {key: value for key, value in self.recipe["options"].items() if value != defaults[key]}

    def report(self, source: str | Path | None = None) -> dict[str, Any]:
        """What there is or what building, from ``source`` if it is given, would do, as JSON values."""
        manifest, origin = self.finished(), _existing_folder(source)
        what = f"{self.spec.name} is built in {self.folder}; nothing to do."
        if manifest is None and origin is not None and self.spec.reads_source:
            what = (
                f"{self.spec.name} would be built from the files in {origin}, without downloading anything, with "
                f"{_listed(self.recipe['options'])} in {self.folder}."
            )
        elif manifest is None:
            files = ", ".join(file.url for file in self.spec.files)
            what = (
                f"{self.spec.name} would be {self.spec.obtained} with {_listed(self.recipe['options'])} in "
                f"{self.folder}" + (f", after downloading {files} to {self.raw} unless it is there." if files else ".")
            )
        return {
            "name": self.spec.name,
            "folder": str(self.folder),
            "options": self.recipe["options"],
            "built": manifest is not None,
            "what": what,
            "bytes": 0 if manifest is None else manifest.size,
            "files": {} if manifest is None else {name: asdict(facts) for name, facts in manifest.files.items()},
            "statistics": {} if manifest is None else manifest.notes.get("statistics", {}),
            "graph": None if manifest is None else manifest.notes.get("graph"),
            "note": "" if manifest is None else manifest.notes.get("note", ""),
            "terms": self.spec.terms,
        }

    def warn_of_other_source(self, manifest: Manifest, source: str | Path | None) -> None:
        """Says that ``source`` is not read, where the set that is there was built from something else."""
        if source is None or not self.spec.reads_source:
            return
        asked, built = Path(source).expanduser().resolve(), manifest.notes.get("source")
        if built is None or Path(built).resolve() != asked:
            origin = "the official files" if built is None else built
            remedy = f"to build it from there, delete {self.folder} or name another data root"
            warnings.warn(f"{self.spec.name} is built from {origin}; {asked} is not read: {remedy}", stacklevel=3)

    def finished(self) -> Manifest | None:
        """The manifest if this variant is completely built by the present recipe, else ``None``."""
        manifest = read_manifest(self.folder, remedy=self.rebuild())
        return manifest if manifest is not None and manifest.recipe == self.recipe else None


def plan_dataset(name: str, root: str | Path | None = None, **options: Any) -> Plan:
    """Finds out which variant ``options`` mean and where it lies, without building anything.

    Example:
        >>> plan_dataset("cluster", "somewhere", sizes=(30, 10, 10)).folder.name
        'sizes-30-10-10'
    """
    spec = spec_of(name)
    known = inspect.signature(spec.options).parameters
    if unknown := [key for key in options if key not in known]:
        raise OptionError(
            f"options of {spec.name}, any of {', '.join(known) or '(none)'}",
            ", ".join(unknown),
            "leave it out, or choose one of these",
        )
    checked, defaults = spec.options(**options), spec.options()
    chosen = [f"{key}-{_text(value)}" for key, value in checked.items() if value != defaults[key]]
    base = data_root(root) / spec.name
    return Plan(
        spec=spec,
        recipe={"version": spec.recipe_version, "options": checked},
        folder=base / ("_".join(chosen) or DEFAULT_VARIANT),
        raw=base / RAW_FOLDER,
    )


def plan_of_folder(folder: Path) -> Plan | None:
    """The plan whose set lies in ``folder``, read from its name; ``None`` where no set of this version lies there.

    Example:
        >>> plan_of_folder(Path("somewhere/CLUSTER/seed-5_sizes-6-2-3").absolute()).recipe["options"]
        {'seed': 5, 'sizes': [6, 2, 3]}
    """
    defaults = spec_of(folder.parent.name).options()
    chosen: dict[str, Any] = {}
    for part in [] if folder.name == DEFAULT_VARIANT else folder.name.split("_"):
        key, _, text = part.partition("-")
        kind: Any = type(defaults.get(key))
        try:
            chosen[key] = [int(number) for number in text.split("-")] if kind is list else kind(text)
        except (TypeError, ValueError):  # not the name of a variant
            return None
    try:
        plan = plan_dataset(folder.parent.name, folder.parent.parent, **chosen)
    except LRGAError:
        return None
    return plan if plan.folder == folder else None


def build_command(name: str, root: Path | None, source: str | None, options: Mapping[str, Any]) -> str:
    """The command line that builds a variant; where it has options that the command lacks, the call in Python.

    Example:
        >>> build_command("ZINC", Path("my data"), None, {"sizes": [40, 15, 15]})
        "lrga data build ZINC --sizes 40,15,15 --data-root 'my data'"
    """
    source = source if spec_of(name).reads_source else None
    if set(options) <= set(COMMAND_OPTIONS):
        words = [f"--{key} {_text(value, ',')}" for key, value in options.items()]
        words += [] if root is None else [f"--data-root {shlex.quote(str(root))}"]
        words += [] if source is None else [f"--source {shlex.quote(source)}"]
        return " ".join(["lrga data build", name, *words])
    given = {"root": None if root is None else str(root), "source": source, **options}
    arguments = [f"{key}={value!r}" for key, value in given.items() if value is not None]
    return f"in Python, lrga.data.load({', '.join([repr(name), *arguments])})"


def build_dataset(
    plan: Plan,
    *,
    source: str | Path | None = None,
    workers: int | None = None,
    progress: Progress = silent,
    download: bool = True,
    force: bool = False,
) -> Manifest:
    """Builds a variant unless it is there already, then checked. Builds of one data set wait for each other.

    Args:
        plan: What to build, from :func:`plan_dataset`.
        source: Folder of raw or prepared files to build from.
        workers: Processes or threads; all cores where it is ``None``. The result does not depend on it.
        progress: Is told of the progress.
        download: Whether the network may be used.
        force: Builds it again even if it is there.
    """
    place = BuildPlace(
        raw=plan.raw,
        work=plan.work,
        source=_existing_folder(source),
        workers=_check_workers(workers),
        progress=progress,
        download=download,
    )
    with FolderLock(plan.folder.parent, wait=progress):  # variants share raw files
        manifest = None if force else plan.finished()
        if manifest is not None:
            verify_manifest(plan.folder, manifest, remedy=plan.rebuild(manifest))
            plan.warn_of_other_source(manifest, source)
            return manifest
        with writing(plan.folder, error=DataError):
            (plan.folder / FILE_NAME).unlink(missing_ok=True)  # first: from here on the folder is not believed
            for left_over in plan.folder.glob(".*.tmp"):
                left_over.unlink()
            place.work.mkdir(parents=True, exist_ok=True)
        made: Any = plan.spec.build(place, **plan.recipe["options"])
        writers: dict[type, Any] = {LinkData: _write_link_data, PackedGraphs: _write_graph}
        write = writers.get(type(made), _write)
        manifest = write(plan, made, notes={"source": None if place.source is None else str(place.source)})
        shutil.rmtree(place.work)
        return manifest


def load_splits(plan: Plan, manifest: Manifest) -> Any:
    """Checks every file of a finished variant and reads it: splits of graphs, or a :class:`LinkData`."""
    verify_manifest(plan.folder, manifest, remedy=plan.rebuild(manifest))
    if plan.spec.links:
        return load_link_data(plan.folder / GRAPH_FILE)
    if plan.spec.one_graph:
        return masked_splits(PackedGraphs.load(plan.folder / GRAPH_FILE))
    for statistics in manifest.notes.get("statistics", {}).values():
        if "incomplete" in statistics:  # results on it must not pass for results on the whole set
            warnings.warn(f"{plan.spec.name} is incomplete: {statistics['incomplete']}", stacklevel=3)
    return {split: PackedGraphs.load(plan.folder / f"{split}.safetensors") for split in SPLITS}


def _write(plan: Plan, splits: Mapping[str, PackedGraphs], *, notes: dict[str, Any]) -> Manifest:
    for split in SPLITS:
        splits[split].meta |= {"dataset": plan.spec.name, "split": split, "recipe": plan.recipe}
        splits[split].save(plan.folder / f"{split}.safetensors")
    marks = {split: {k: v for k, v in splits[split].meta.items() if k == "incomplete"} for split in SPLITS}
    notes |= {"statistics": {s: splits[s].statistics | marks[s] for s in SPLITS}, "note": plan.spec.note}
    files = [f"{split}.safetensors" for split in SPLITS]
    return write_manifest(plan.folder, name=plan.spec.name, recipe=plan.recipe, files=files, notes=notes)


def _write_graph(plan: Plan, graph: PackedGraphs, *, notes: dict[str, Any]) -> Manifest:
    graph.meta |= {"dataset": plan.spec.name, "recipe": plan.recipe}
    graph.save(plan.folder / GRAPH_FILE)
    sizes = {split: int(graph.columns[f"{split}_mask"].values.sum()) for split in SPLITS}
    x = graph.x
    shape = {"nodes": graph.num_nodes, "edges": graph.num_edges, "features": 0 if x is None else x.size(1)}
    statistics = {split: graph.statistics | {"chosen": size} for split, size in sizes.items()}
    notes |= {"statistics": statistics, "graph": shape, "note": plan.spec.note}
    return write_manifest(plan.folder, name=plan.spec.name, recipe=plan.recipe, files=[GRAPH_FILE], notes=notes)


def _write_link_data(plan: Plan, data: LinkData, *, notes: dict[str, Any]) -> Manifest:
    save_link_data(data, plan.folder / GRAPH_FILE)
    sizes = {
        split: {"edges": part.edge.size(0), "negatives": 0 if part.edge_neg is None else part.edge_neg.size(0)}
        for split, part in data.splits.items()
    }
    graph = {"nodes": data.num_nodes, "edges": data.edge.size(0), "features": data.num_features or 0}
    notes |= {"statistics": sizes, "graph": graph, "note": data.meta.get("differs", "")}
    return write_manifest(plan.folder, name=plan.spec.name, recipe=plan.recipe, files=[GRAPH_FILE], notes=notes)


def _existing_folder(source: str | Path | None) -> Path | None:
    if source is None:
        return None
    path = Path(source).expanduser().absolute()
    if not path.is_dir():
        raise DataMissingError(f"a folder of data files at {path}", "no such folder", "name the folder that holds them")
    return path


def _check_workers(workers: int | None) -> int:
    if workers is None:
        return default_workers()
    if isinstance(workers, bool) or not isinstance(workers, int) or workers < 1:
        raise OptionError("workers, an integer of at least 1", repr(workers), "pass for example workers=2")
    return workers


def _listed(options: Mapping[str, Any]) -> str:
    return ", ".join(f"{key} {_text(value, ', ')}" for key, value in options.items()) or "no options"


def _text(value: Any, separator: str = "-") -> str:
    return separator.join(map(str, value)) if isinstance(value, list | tuple) else str(value)
