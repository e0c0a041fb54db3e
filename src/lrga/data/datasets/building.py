"""Data sets by name: built on first use, verified and loaded; an interrupted build is never taken for a finished one.

A finished set is stored in ``ROOT/NAME/VARIANT/{train,val,test}.safetensors`` (one graph: ``graph.safetensors``), where
VARIANT names the options that differ from their defaults. Downloads are in ``ROOT/NAME/raw``. ``manifest.json`` records
what was built, how, and the size and checksum of every file. It is written last, so a folder without one is an
interrupted build, and is built again.
"""

import shlex
import shutil
import warnings
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from lrga.data.datasets.masked import masked_splits
from lrga.data.datasets.source import BuildContext, data_root
from lrga.data.datasets.spec import SPLITS, DatasetSpec, dataset_specs, spec_of
from lrga.data.links.data import LinkData, load_link_data, save_link_data
from lrga.data.packed.graphs import PackedGraphs
from lrga.errors import ChecksumError, DataError, DataMissingError, LRGAError, OptionError
from lrga.io import limits
from lrga.io.documents import write_json
from lrga.io.download import problem_of
from lrga.io.files import FileFacts, facts_of, verify_file, writing
from lrga.io.lock import FolderLock
from lrga.io.progress import PrintedProgress, Progress, silent
from lrga.version import __version__

DEFAULT_VARIANT = "default"
MANIFEST_FILE = "manifest.json"
GRAPH_FILE = "graph.safetensors"  # file of a set that is one graph
RAW_FOLDER = "raw"


@dataclass(frozen=True)
class Manifest:
    """Contents of :data:`MANIFEST_FILE`."""

    name: str
    recipe: dict[str, Any]  # everything that determines the contents: options, seed, version of the recipe
    files: dict[str, FileFacts]
    notes: dict[str, Any] = field(default_factory=dict)  # where the input came from, statistics
    lrga: str = __version__  # the version that built it

    @property
    def size(self) -> int:
        """Total size of all files in bytes."""
        return sum(facts.size or 0 for facts in self.files.values())


def read_manifest(folder: Path) -> Manifest | None:
    """The manifest of ``folder``; ``None`` if there is none. A damaged manifest raises an error."""
    path = folder / MANIFEST_FILE
    if not path.exists():
        return None
    with limits.reading(path, "a manifest in", remedy=rebuild_remedy(folder), damage=ChecksumError):
        value = limits.read_json(path)
        files = {str(name): FileFacts(int(own["size"]), str(own["sha256"])) for name, own in value["files"].items()}
        notes = dict(value["notes"])
        if not isinstance(notes.get("source"), str | None):
            raise TypeError("its source is not a path")
        if not all(isinstance(facts, dict) for facts in dict(notes.get("statistics", {})).values()):
            raise TypeError("its statistics are not numbers by name")
        return Manifest(str(value["name"]), dict(value["recipe"]), files, notes, str(value["lrga"]))


def verify_manifest(folder: Path, manifest: Manifest) -> None:
    """Checks every file of ``manifest``; raises an error naming the first that is missing or damaged."""
    for name, facts in manifest.files.items():
        verify_file(folder / name, facts, remedy=rebuild_remedy(folder))


def rebuild_remedy(folder: Path) -> str:
    """How to fix a damaged set, derived from the name of its folder.

    Example:
        >>> rebuild_remedy(Path("root/CLUSTER/seed-5_sizes-6-2-3"))
        'delete root/CLUSTER/seed-5_sizes-6-2-3 and build it again: lrga data build CLUSTER --seed 5 --sizes 6,2,3 \
--data-root root'
    """
    parts = [] if folder.name == DEFAULT_VARIANT else [part.partition("-") for part in folder.name.split("_")]
    words = [f" --{key} {text.replace('-', ',')}" for key, _, text in parts]
    words.append(f" --data-root {shlex.quote(str(folder.parent.parent))}")
    if spec_of(folder.parent.name).reads_source:
        words.append(" (and --source DIR if it was built from your own files)")
    return f"delete {folder} and build it again: lrga data build {folder.parent.name}{''.join(words)}"


@dataclass(frozen=True)
class Plan:
    """One variant of a data set and its folders."""

    spec: DatasetSpec
    recipe: dict[str, Any]  # version of the recipe and all options: they determine the contents
    folder: Path  # folder of the finished set
    raw: Path  # folder of downloads
    work: Path  # folder for the parts of an unfinished build

    def report(self, source: str | Path | None = None) -> dict[str, Any]:
        """What is built, or what a build (from ``source`` if given) would do, as JSON values."""
        manifest, origin = self.finished(), self.folder_of(source)
        listed = [f"{key} {_text(value, ', ')}" for key, value in self.recipe["options"].items()]
        how = f"with {', '.join(listed) or 'no options'} in {self.folder}"
        if manifest is not None:
            what = f"{self.spec.name} is built in {self.folder}; nothing to do."
        elif origin is not None:
            what = f"{self.spec.name} would be built from the files in {origin}, without any download, {how}."
        else:
            files = ", ".join(file.url for file in self.spec.files)
            download = f", after downloading {files} to {self.raw} if it is not there yet" if files else ""
            what = f"{self.spec.name} would be {self.spec.obtained} {how}{download}."
        done = manifest or Manifest(self.spec.name, self.recipe, {})
        return {
            "name": self.spec.name,
            "folder": str(self.folder),
            "options": self.recipe["options"],
            "built": manifest is not None,
            "what": what,
            "bytes": done.size,
            "files": asdict(done)["files"],
            "statistics": done.notes.get("statistics", {}),
            "graph": done.notes.get("graph"),
            "note": done.notes.get("note", ""),
            "terms": self.spec.terms,
        }

    def folder_of(self, source: str | Path | None) -> Path | None:
        """The folder of raw or prepared files, which must exist, if this set reads files."""
        if source is None:
            return None
        if not self.spec.reads_source:
            raise OptionError("no source", f"one, but {self.spec.name} is generated, not read", "remove it")
        path = Path(source).expanduser().absolute()
        if not path.is_dir():
            raise DataMissingError(f"a folder of data files at {path}", "no such folder", "pass a folder with them")
        return path

    def warn_of_other_source(self, manifest: Manifest, source: str | Path | None) -> None:
        """Warns that ``source`` is ignored if the existing set was built from something else."""
        if source is None:
            return
        asked, built = Path(source).expanduser().resolve(), manifest.notes.get("source")
        if built is None or Path(built).resolve() != asked:
            origin = "the official files" if built is None else built
            remedy = f"to build from it, delete {self.folder} or choose another data root"
            warnings.warn(f"{self.spec.name} was built from {origin}; {asked} is ignored: {remedy}", stacklevel=3)

    def finished(self) -> Manifest | None:
        """The manifest if this variant was completely built by the current recipe, else ``None``."""
        manifest = read_manifest(self.folder)
        return manifest if manifest is not None and manifest.recipe == self.recipe else None


def plan_dataset(name: str, root: str | Path | None = None, **options: Any) -> Plan:
    """Finds the variant that ``options`` select and its folder, without building anything.

    Example:
        >>> plan_dataset("cluster", "somewhere", sizes=(30, 10, 10)).folder.name
        'sizes-30-10-10'
    """
    spec = spec_of(name)
    checked, defaults = spec.options(**options), spec.options()
    chosen = [f"{key}-{_text(value)}" for key, value in checked.items() if value != defaults[key]]
    base = data_root(root) / spec.name
    recipe = {"version": spec.recipe_version, "options": checked}
    folder = base / ("_".join(chosen) or DEFAULT_VARIANT)
    return Plan(spec, recipe, folder, base / RAW_FOLDER, folder / "parts")


def build_dataset(
    plan: Plan,
    *,
    source: str | Path | None = None,
    progress: Progress = silent,
    download: bool = True,
    force: bool = False,
) -> Manifest:
    """Builds a variant, or checks its files if it exists already. Builds of one data set wait for each other.

    Args:
        plan: The variant to build, from :func:`plan_dataset`.
        source: Folder of raw or prepared files to build from.
        progress: Called with the progress.
        download: Whether the network may be used.
        force: Builds the variant again even if it exists.
    """
    folder = plan.folder_of(source)
    context = BuildContext(plan.raw, plan.work, folder, progress, download)
    with FolderLock(plan.folder.parent, wait=progress):  # variants share raw files
        manifest = None if force else plan.finished()
        if manifest is not None:
            verify_manifest(plan.folder, manifest)
            plan.warn_of_other_source(manifest, source)
            return manifest
        with writing(plan.folder, error=DataError):
            (plan.folder / MANIFEST_FILE).unlink(missing_ok=True)  # first: from now on the folder counts as unfinished
            for left_over in plan.folder.glob(".*.tmp"):
                left_over.unlink()
            plan.work.mkdir(parents=True, exist_ok=True)
        files, notes = _write(plan, plan.spec.build(context, **plan.recipe["options"]))
        notes["source"] = None if folder is None else str(folder)
        facts = {file: facts_of(plan.folder / file) for file in files}
        manifest = Manifest(plan.spec.name, plan.recipe, facts, notes)
        write_json(plan.folder / MANIFEST_FILE, asdict(manifest), error=DataError)
        shutil.rmtree(plan.work)
        return manifest


def _write(plan: Plan, made: Any) -> tuple[list[str], dict[str, Any]]:
    """Writes the result of a builder; returns the names of the files and the notes of the manifest."""
    if isinstance(made, LinkData):
        save_link_data(made, plan.folder / GRAPH_FILE)
        sizes = {
            split: {"edges": part.edge.size(0), "negatives": 0 if part.edge_neg is None else part.edge_neg.size(0)}
            for split, part in made.splits.items()
        }
        graph = {"nodes": made.num_nodes, "edges": made.edge.size(0), "features": made.num_features or 0}
        return [GRAPH_FILE], {"statistics": sizes, "graph": graph, "note": made.meta.get("differs", "")}
    parts = {"graph": made} if plan.spec.one_graph else made
    for name, part in parts.items():
        part.meta |= {"dataset": plan.spec.name, "recipe": plan.recipe} | ({} if part is made else {"split": name})
        part.save(plan.folder / f"{name}.safetensors")
    notes: dict[str, Any] = {"statistics": {name: part.statistics for name, part in parts.items()}}
    if plan.spec.one_graph:
        chosen = {split: {"chosen": int(made.columns[f"{split}_mask"].values.sum())} for split in SPLITS}
        notes["statistics"] = {split: made.statistics | sizes for split, sizes in chosen.items()}
        features = 0 if made.x is None else made.x.size(1)
        notes["graph"] = {"nodes": made.num_nodes, "edges": made.num_edges, "features": features}
    note = next(iter(parts.values())).meta.get("note", plan.spec.note)
    return [f"{name}.safetensors" for name in parts], notes | {"note": note}


def load_splits(plan: Plan, manifest: Manifest) -> Any:
    """Checks and reads every file of a finished variant; returns splits of graphs, or a :class:`LinkData`."""
    verify_manifest(plan.folder, manifest)
    if plan.spec.links:
        return load_link_data(plan.folder / GRAPH_FILE)
    if plan.spec.one_graph:
        return masked_splits(PackedGraphs.load(plan.folder / GRAPH_FILE))
    return {split: PackedGraphs.load(plan.folder / f"{split}.safetensors") for split in SPLITS}


def load(
    name: str,
    root: str | Path | None = None,
    *,
    source: str | Path | None = None,
    progress: Progress | None = None,
    download: bool = True,
    **options: Any,
) -> Any:
    """The splits ``train``, ``val`` and ``test`` of a data set, or the :class:`~lrga.data.links.data.LinkData` of a
    link-prediction set; built first if necessary.

    Args:
        name: A name listed by ``lrga data ls``, in upper or lower case.
        root: Data root; see :func:`lrga.data.datasets.source.data_root`.
        source: Folder of raw or prepared files to build from. If the set was already built from other files, a
            warning is given.
        progress: Called with the progress; ``None`` shows it on stderr.
        download: Whether the network may be used.
        options: Options of the data set, such as ``seed`` and ``sizes=(train, val, test)`` of generated sets.

    Example:
        >>> import tempfile
        >>> splits = load("CLUSTER", tempfile.mkdtemp(), sizes=(4, 2, 2), seed=41)
        >>> len(splits["train"]), splits["train"].y_level
        (4, 'node')
    """
    plan = plan_dataset(name, root, **options)
    manifest = plan.finished()
    if manifest is None:
        told = PrintedProgress() if progress is None else progress
        manifest = build_dataset(plan, source=source, progress=told, download=download)
    else:
        plan.warn_of_other_source(manifest, source)
    return load_splits(plan, manifest)


class BuiltSet(NamedTuple):
    """A variant of a data set on disk.

    ``manifest`` is ``None`` if the build did not finish or the manifest is damaged; ``problem`` describes the damage.
    """

    folder: Path
    manifest: Manifest | None
    problem: str | None = None

    @property
    def size(self) -> int:
        """Bytes on disk."""
        return sum(path.stat().st_size for path in self.folder.rglob("*") if path.is_file())


def built_sets(name: str, root: str | Path | None = None) -> list[BuiltSet]:
    """The variants of a data set in the data root."""
    base = data_root(root) / spec_of(name).name
    folders = sorted(path for path in base.iterdir() if path.is_dir()) if base.is_dir() else []
    result = []
    for folder in folders:
        if folder.name != RAW_FOLDER:
            try:
                result.append(BuiltSet(folder, read_manifest(folder)))
            except LRGAError as error:  # one damaged variant must not hide the others
                result.append(BuiltSet(folder, None, str(error)))
    return result


def overview(root: str | Path | None = None) -> list[dict[str, Any]]:
    """Every data set with its facts and its variants on disk, as JSON values."""
    return [describe(name, root) for name in dataset_specs()]


def describe(name: str, root: str | Path | None = None) -> dict[str, Any]:
    """Facts of one data set and its variants on disk, as JSON values."""
    variants: list[dict[str, Any]] = [
        {
            "folder": str(built.folder),
            "options": None if built.manifest is None else built.manifest.recipe.get("options"),
            "complete": built.manifest is not None,
            "problem": built.problem,
            "bytes": built.size,
            "statistics": None if built.manifest is None else built.manifest.notes.get("statistics"),
        }
        for built in built_sets(name, root)
    ]
    return spec_of(name).facts() | {
        "built": any(variant["complete"] for variant in variants),
        "full": any(variant["complete"] and Path(variant["folder"]).name == DEFAULT_VARIANT for variant in variants),
        "damaged": any(variant["problem"] is not None for variant in variants),
        "bytes": sum(variant["bytes"] for variant in variants),
        "variants": variants,
        "data_root": str(data_root(root)),
    }


class Check(NamedTuple):
    """Result of verifying one file; ``problem`` says what is wrong with it."""

    file: Path
    problem: str | None = None


def verify(name: str, root: str | Path | None = None) -> list[Check]:
    """Checks every file of every variant of a data set, and its downloads, by size and checksum.

    Example:
        >>> import tempfile
        >>> root = tempfile.mkdtemp()
        >>> _ = load("PATTERN", root, sizes=(3, 1, 1))
        >>> [check.problem for check in verify("PATTERN", root)]
        [None, None, None]
    """
    spec = spec_of(name)
    base = data_root(root) / spec.name
    downloads = [(file, base / RAW_FOLDER / file.name) for file in spec.files]
    found = [(path, problem_of(file, path)) for file, path in downloads if path.exists()]
    checks = [Check(path, None if problem is None else str(problem)) for path, problem in found]
    for folder, manifest, problem in built_sets(name, root):
        if manifest is None:
            ended = f"no such file: the build of {folder} did not finish. To fix: {rebuild_remedy(folder)}."
            checks.append(Check(folder / MANIFEST_FILE, problem or ended))
            continue
        for file, facts in manifest.files.items():
            try:
                verify_file(folder / file, facts, remedy=rebuild_remedy(folder))
                checks.append(Check(folder / file))
            except LRGAError as error:
                checks.append(Check(folder / file, str(error)))
    if not checks:
        remedy = f"build it: lrga data build {base.name}" + ("" if root is None else f" --data-root {base.parent}")
        raise DataMissingError(f"{base.name} in {base.parent}", "nothing built there", remedy)
    return checks


def _text(value: Any, separator: str = "-") -> str:
    return separator.join(map(str, value)) if isinstance(value, list | tuple) else str(value)
