"""Which variant of a data set is meant, whether it is built, and building it so that a kill leaves nothing believed."""

import inspect
import shlex
import shutil
import warnings
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from importlib import import_module
from pathlib import Path
from typing import Any, cast

from lrga.data.datasets.catalog import DatasetFacts, dataset_facts
from lrga.data.datasets.link_catalog import LINK_CATALOG
from lrga.data.datasets.manifest import FILE_NAME, Manifest, read_manifest, verify_manifest, write_manifest
from lrga.data.datasets.place import SPLITS, Builder, BuildPlace, default_workers
from lrga.data.datasets.root import data_root
from lrga.data.links.data import LinkData
from lrga.data.links.storage import load_link_data, save_link_data
from lrga.data.packed.graphs import PackedGraphs
from lrga.errors import DataError, DataMissingError, LRGAError, OptionError
from lrga.io.files import writing
from lrga.io.lock import FolderLock
from lrga.io.progress import Progress, silent

BUILDERS: dict[str, str] = {
    "PATTERN": "lrga.data.datasets.sbm.pattern",
    "CLUSTER": "lrga.data.datasets.sbm.cluster",
    "ZINC": "lrga.data.datasets.zinc",
    "MNIST": "lrga.data.datasets.superpixels.mnist",
    "CIFAR10": "lrga.data.datasets.superpixels.cifar10",
    "TSP": "lrga.data.datasets.tsp",
}
"""Name → module that offers what :class:`lrga.data.datasets.place.Builder` lists; imported when it is needed."""

READ_SOURCE = ("ZINC", "MNIST", "CIFAR10", "TSP", "ogbl-ppa", "ogbl-collab", "ogbl-ddi")
"""Those that can be built from files of the user; the others are always generated."""

COMMAND_OPTIONS = ("seed", "sizes", "missing")
"""Options that ``lrga data build`` knows; the others are options of :func:`lrga.data.load` alone."""

DEFAULT_VARIANT = "default"
LINK_FILE = "graph.safetensors"
RAW_FOLDER = "raw"


@dataclass(frozen=True)
class Plan:
    """One variant of a data set and where it belongs.

    Attributes:
        facts: The data set.
        recipe: Version of the recipe and all options: what determines the content.
        folder: Where the finished set lies.
        raw: Where downloads lie.
    """

    facts: DatasetFacts
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
        command = build_command(self.facts.name, self.folder.parent.parent, source, self._other_options())
        known = manifest is not None or self.facts.name not in READ_SOURCE
        hint = "" if known else " (and --source DIR if it was built from files of yours)"
        return f"delete {self.folder} and build it again: {command}{hint}"

    def _other_options(self) -> dict[str, Any]:
        defaults = _builder(self.facts.name).options()
        return {key: value for key, value in self.recipe["options"].items() if value != defaults[key]}

    def report(self, source: str | Path | None = None) -> dict[str, Any]:
        """What there is or what building, from ``source`` if it is given, would do, as JSON values."""
        manifest, origin = self.finished(), _existing_folder(source)
        what = f"{self.facts.name} is built in {self.folder}; nothing to do."
        if manifest is None and origin is not None and self.facts.name in READ_SOURCE:
            what = (
                f"{self.facts.name} would be built from the files in {origin}, without downloading anything, with "
                f"{_listed(self.recipe['options'])} in {self.folder}."
            )
        elif manifest is None:
            files = ", ".join(file.url for file in self.facts.files)
            what = (
                f"{self.facts.name} would be {self.facts.obtained} with {_listed(self.recipe['options'])} in "
                f"{self.folder}" + (f", after downloading {files} to {self.raw} unless it is there." if files else ".")
            )
        return {
            "name": self.facts.name,
            "folder": str(self.folder),
            "options": self.recipe["options"],
            "built": manifest is not None,
            "what": what,
            "bytes": 0 if manifest is None else manifest.size,
            "files": {} if manifest is None else {name: asdict(facts) for name, facts in manifest.files.items()},
            "statistics": {} if manifest is None else manifest.notes.get("statistics", {}),
            "graph": None if manifest is None else manifest.notes.get("graph"),
            "note": "" if manifest is None else manifest.notes.get("note", ""),
        }

    def warn_of_other_source(self, manifest: Manifest, source: str | Path | None) -> None:
        """Says that ``source`` is not read, where the set that is there was built from something else."""
        if source is None or self.facts.name not in READ_SOURCE:
            return
        asked, built = Path(source).expanduser().resolve(), manifest.notes.get("source")
        if built is None or Path(built).resolve() != asked:
            origin = "the official files" if built is None else built
            remedy = f"to build it from there, delete {self.folder} or name another data root"
            warnings.warn(f"{self.facts.name} is built from {origin}; {asked} is not read: {remedy}", stacklevel=3)

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
    facts = dataset_facts(name)
    builder = _builder(facts.name)
    known = inspect.signature(builder.options).parameters
    if unknown := [key for key in options if key not in known]:
        raise OptionError(
            f"options of {facts.name}, any of {', '.join(known) or '(none)'}",
            ", ".join(unknown),
            "leave it out, or choose one of these",
        )
    checked, defaults = builder.options(**options), builder.options()
    chosen = [f"{key}-{_text(value)}" for key, value in checked.items() if value != defaults[key]]
    base = data_root(root) / facts.name
    return Plan(
        facts=facts,
        recipe={"version": builder.RECIPE_VERSION, "options": checked},
        folder=base / ("_".join(chosen) or DEFAULT_VARIANT),
        raw=base / RAW_FOLDER,
    )


def plan_of_folder(folder: Path) -> Plan | None:
    """The plan whose set lies in ``folder``, read from its name; ``None`` where no set of this version lies there.

    Example:
        >>> plan_of_folder(Path("somewhere/CLUSTER/seed-5_sizes-6-2-3").absolute()).recipe["options"]
        {'seed': 5, 'sizes': [6, 2, 3]}
    """
    defaults = _builder(folder.parent.name).options()
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
    source = source if name in READ_SOURCE else None
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
        made: Any = _builder(plan.facts.name).build(place, **plan.recipe["options"])
        write = _write_link_data if isinstance(made, LinkData) else _write
        manifest = write(plan, made, notes={"source": None if place.source is None else str(place.source)})
        shutil.rmtree(place.work)
        return manifest


def load_splits(plan: Plan, manifest: Manifest) -> Any:
    """Checks every file of a finished variant and reads it: splits of graphs, or a :class:`LinkData`."""
    verify_manifest(plan.folder, manifest, remedy=plan.rebuild(manifest))
    if plan.facts.name in LINK_CATALOG:
        return load_link_data(plan.folder / LINK_FILE)
    for statistics in manifest.notes.get("statistics", {}).values():
        if "incomplete" in statistics:  # results on it must not pass for results on the whole set
            warnings.warn(f"{plan.facts.name} is incomplete: {statistics['incomplete']}", stacklevel=3)
    return {split: PackedGraphs.load(plan.folder / f"{split}.safetensors") for split in SPLITS}


def _write(plan: Plan, splits: Mapping[str, PackedGraphs], *, notes: dict[str, Any]) -> Manifest:
    for split in SPLITS:
        splits[split].meta |= {"dataset": plan.facts.name, "split": split, "recipe": plan.recipe}
        splits[split].save(plan.folder / f"{split}.safetensors")
    marks = {split: {k: v for k, v in splits[split].meta.items() if k == "incomplete"} for split in SPLITS}
    notes |= {"statistics": {s: splits[s].statistics | marks[s] for s in SPLITS}, "note": plan.facts.note}
    files = [f"{split}.safetensors" for split in SPLITS]
    return write_manifest(plan.folder, name=plan.facts.name, recipe=plan.recipe, files=files, notes=notes)


def _write_link_data(plan: Plan, data: LinkData, *, notes: dict[str, Any]) -> Manifest:
    save_link_data(data, plan.folder / LINK_FILE)
    sizes = {
        split: {"edges": part.edge.size(0), "negatives": 0 if part.edge_neg is None else part.edge_neg.size(0)}
        for split, part in data.splits.items()
    }
    graph = {"nodes": data.num_nodes, "edges": data.edge.size(0), "features": data.num_features or 0}
    notes |= {"statistics": sizes, "graph": graph, "note": data.meta.get("differs", "")}
    return write_manifest(plan.folder, name=plan.facts.name, recipe=plan.recipe, files=[LINK_FILE], notes=notes)


def _builder(name: str) -> Builder:
    if name in LINK_CATALOG:
        from lrga.data.datasets.ogb import SETS

        return cast(Builder, SETS[name])
    return cast(Builder, import_module(BUILDERS[name]))


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
