"""A data set by its name: built on first use so that a kill leaves nothing believed, verified, loaded.

A finished set lies in ``ROOT/NAME/VARIANT/{train,val,test}.safetensors`` (one graph: ``graph.safetensors``), where
VARIANT names the options that differ from their defaults. Downloads lie in ``ROOT/NAME/raw``. ``manifest.json`` says
what was made, how, and the size and checksum of every file. It is written last, so a folder without one is a build that
was killed: not believed, and built again.
"""

import inspect
import shlex
import shutil
import warnings
from contextlib import nullcontext
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
from lrga.io.progress import Progress, show_progress, silent
from lrga.version import __version__

DEFAULT_VARIANT = "default"
MANIFEST_FILE = "manifest.json"
GRAPH_FILE = "graph.safetensors"  # of a set that is one graph
RAW_FOLDER = "raw"


@dataclass(frozen=True)
class Manifest:
    """What :data:`MANIFEST_FILE` holds."""

    name: str
    recipe: dict[str, Any]  # everything that determines its content: options, seed, version of the recipe
    files: dict[str, FileFacts]
    notes: dict[str, Any] = field(default_factory=dict)  # where the input came from, statistics
    lrga: str = __version__  # that built it

    @property
    def size(self) -> int:
        """Bytes of all files together."""
        return sum(facts.size or 0 for facts in self.files.values())


def read_manifest(folder: Path) -> Manifest | None:
    """The manifest of ``folder``; ``None`` where there is none, an error where it is damaged."""
    path = folder / MANIFEST_FILE
    try:
        if not path.is_file():
            return None
        value = limits.read_json(path)
        files = {
            str(name): FileFacts(int(facts["size"]), str(facts["sha256"])) for name, facts in value["files"].items()
        }
        notes = dict(value["notes"])
        if not isinstance(notes.get("source"), str | None):
            raise TypeError("its source is no path")
        if not all(isinstance(facts, dict) for facts in dict(notes.get("statistics", {})).values()):
            raise TypeError("its statistics are no numbers by name")
        return Manifest(str(value["name"]), dict(value["recipe"]), files, notes, str(value["lrga"]))
    except (ValueError, KeyError, TypeError, AttributeError, OverflowError, OSError) as error:
        raise ChecksumError(f"a manifest in {path}", f"a damaged file ({error})", rebuild_remedy(folder)) from error


def verify_manifest(folder: Path, manifest: Manifest) -> None:
    """Checks every file of ``manifest``; raises an error naming the first that is missing or damaged."""
    for name, facts in manifest.files.items():
        verify_file(folder / name, facts, remedy=rebuild_remedy(folder, manifest))


def rebuild_remedy(folder: Path, manifest: Manifest | None = None) -> str:
    """What to do about a damaged set, by the name of its folder; a legible ``manifest`` knows what it was built from.

    Example:
        >>> rebuild_remedy(Path("root/CLUSTER/seed-5_sizes-6-2-3"))
        'delete root/CLUSTER/seed-5_sizes-6-2-3 and build it again: lrga data build CLUSTER --seed 5 --sizes 6,2,3 \
--data-root root'
    """
    spec = spec_of(folder.parent.name)
    parts = [] if folder.name == DEFAULT_VARIANT else [part.partition("-") for part in folder.name.split("_")]
    words = [f"--{key} {text.replace('-', ',')}" for key, _, text in parts]
    words.append(f"--data-root {shlex.quote(str(folder.parent.parent))}")
    if spec.reads_source and manifest is None:
        words.append("(and --source DIR if it was built from files of yours)")
    elif manifest is not None and manifest.notes.get("source") is not None:
        words.append(f"--source {shlex.quote(manifest.notes['source'])}")
    return f"delete {folder} and build it again: lrga data build {spec.name} {' '.join(words)}"


@dataclass(frozen=True)
class Plan:
    """One variant of a data set and where it belongs."""

    spec: DatasetSpec
    recipe: dict[str, Any]  # version of the recipe and all options: what determines the content
    folder: Path  # of the finished set
    raw: Path  # of downloads

    @property
    def work(self) -> Path:
        """Where parts of an unfinished build lie."""
        return self.folder / "parts"

    def report(self, source: str | Path | None = None) -> dict[str, Any]:
        """What there is or what building, from ``source`` if it is given, would do, as JSON values."""
        manifest, origin = self.finished(), _existing_folder(source)
        listed = [f"{key} {_text(value, ', ')}" for key, value in self.recipe["options"].items()]
        how = f"with {', '.join(listed) or 'no options'} in {self.folder}"
        if manifest is not None:
            what = f"{self.spec.name} is built in {self.folder}; nothing to do."
        elif origin is not None and self.spec.reads_source:
            what = f"{self.spec.name} would be built from the files in {origin}, without downloading anything, {how}."
        else:
            files = ", ".join(file.url for file in self.spec.files)
            download = f", after downloading {files} to {self.raw} unless it is there" if files else ""
            what = f"{self.spec.name} would be {self.spec.obtained} {how}{download}."
        notes = {} if manifest is None else manifest.notes
        return {
            "name": self.spec.name,
            "folder": str(self.folder),
            "options": self.recipe["options"],
            "built": manifest is not None,
            "what": what,
            "bytes": 0 if manifest is None else manifest.size,
            "files": {} if manifest is None else asdict(manifest)["files"],
            "statistics": notes.get("statistics", {}),
            "graph": notes.get("graph"),
            "note": notes.get("note", ""),
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
        manifest = read_manifest(self.folder)
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
        expected = f"options of {spec.name}, any of {', '.join(known) or '(none)'}"
        raise OptionError(expected, ", ".join(unknown), "leave it out, or choose one of these")
    checked, defaults = spec.options(**options), spec.options()
    chosen = [f"{key}-{_text(value)}" for key, value in checked.items() if value != defaults[key]]
    base = data_root(root) / spec.name
    recipe = {"version": spec.recipe_version, "options": checked}
    return Plan(spec, recipe, base / ("_".join(chosen) or DEFAULT_VARIANT), base / RAW_FOLDER)


def build_dataset(
    plan: Plan,
    *,
    source: str | Path | None = None,
    progress: Progress = silent,
    download: bool = True,
    force: bool = False,
) -> Manifest:
    """Builds a variant unless it is there already, then checked. Builds of one data set wait for each other.

    Args:
        plan: What to build, from :func:`plan_dataset`.
        source: Folder of raw or prepared files to build from.
        progress: Is told of the progress.
        download: Whether the network may be used.
        force: Builds it again even if it is there.
    """
    folder = _existing_folder(source)
    context = BuildContext(plan.raw, plan.work, folder, progress, download)
    with FolderLock(plan.folder.parent, wait=progress):  # variants share raw files
        manifest = None if force else plan.finished()
        if manifest is not None:
            verify_manifest(plan.folder, manifest)
            plan.warn_of_other_source(manifest, source)
            return manifest
        with writing(plan.folder, error=DataError):
            (plan.folder / MANIFEST_FILE).unlink(missing_ok=True)  # first: from here on the folder is not believed
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
    """Writes what a builder made; the names of the files, and the notes of the manifest."""
    meta = {"dataset": plan.spec.name, "recipe": plan.recipe}
    if isinstance(made, LinkData):
        save_link_data(made, plan.folder / GRAPH_FILE)
        sizes = {
            split: {"edges": part.edge.size(0), "negatives": 0 if part.edge_neg is None else part.edge_neg.size(0)}
            for split, part in made.splits.items()
        }
        graph = {"nodes": made.num_nodes, "edges": made.edge.size(0), "features": made.num_features or 0}
        return [GRAPH_FILE], {"statistics": sizes, "graph": graph, "note": made.meta.get("differs", "")}
    if isinstance(made, PackedGraphs):
        made.meta |= meta
        made.save(plan.folder / GRAPH_FILE)
        chosen = {split: {"chosen": int(made.columns[f"{split}_mask"].values.sum())} for split in SPLITS}
        statistics = {split: made.statistics | sizes for split, sizes in chosen.items()}
        features = 0 if made.x is None else made.x.size(1)
        graph = {"nodes": made.num_nodes, "edges": made.num_edges, "features": features}
        return [GRAPH_FILE], {"statistics": statistics, "graph": graph, "note": plan.spec.note}
    statistics = {}
    for split in SPLITS:
        made[split].meta |= meta | {"split": split}
        made[split].save(plan.folder / f"{split}.safetensors")
        statistics[split] = made[split].statistics
    note = made["train"].meta.get("note", plan.spec.note)
    return [f"{split}.safetensors" for split in SPLITS], {"statistics": statistics, "note": note}


def load_splits(plan: Plan, manifest: Manifest) -> Any:
    """Checks every file of a finished variant and reads it: splits of graphs, or a :class:`LinkData`."""
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
    link-prediction set; built first if they are not there.

    Args:
        name: A name that ``lrga data ls`` lists, in any case.
        root: Data root; see :func:`lrga.data.datasets.source.data_root`.
        source: Folder of raw or prepared files to build from, where the set is not built yet; where it is built from
            something else, a warning says so.
        progress: Called with the progress; ``None`` shows it on stderr.
        download: Whether the network may be used.
        options: Options of the data set, such as ``seed`` and ``sizes=(train, val, test)`` of the generated ones.

    Example:
        >>> import tempfile
        >>> splits = load("CLUSTER", tempfile.mkdtemp(), sizes=(4, 2, 2), seed=41)
        >>> len(splits["train"]), splits["train"].y_level
        (4, 'node')
    """
    plan = plan_dataset(name, root, **options)
    manifest = plan.finished()
    if manifest is None:
        with show_progress() if progress is None else nullcontext(progress) as told:
            manifest = build_dataset(plan, source=source, progress=told, download=download)
    else:
        plan.warn_of_other_source(manifest, source)
    return load_splits(plan, manifest)


class BuiltSet(NamedTuple):
    """A variant of a data set on disk.

    ``manifest`` is ``None`` where its build did not end, or where the manifest is damaged: ``problem`` then says how.
    """

    folder: Path
    manifest: Manifest | None
    problem: str | None = None

    @property
    def size(self) -> int:
        """Bytes on disk."""
        return sum(path.stat().st_size for path in self.folder.rglob("*") if path.is_file())


def built_sets(name: str, root: str | Path | None = None) -> list[BuiltSet]:
    """The variants of a data set below the data root."""
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
    """Every data set with its facts and what of it is on disk, as JSON values."""
    return [describe(name, root) for name in dataset_specs()]


def describe(name: str, root: str | Path | None = None) -> dict[str, Any]:
    """Facts of one data set and what of it is on disk, as JSON values."""
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
    """One file that was verified; ``problem`` says what is wrong with it."""

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
            ended = f"no such file: the build of {folder} did not end. To fix: {rebuild_remedy(folder)}."
            checks.append(Check(folder / MANIFEST_FILE, problem or ended))
            continue
        for file, facts in manifest.files.items():
            try:
                verify_file(folder / file, facts, remedy=rebuild_remedy(folder, manifest))
                checks.append(Check(folder / file))
            except LRGAError as error:
                checks.append(Check(folder / file, str(error)))
    if not checks:
        remedy = f"build it: lrga data build {base.name}" + ("" if root is None else f" --data-root {base.parent}")
        raise DataMissingError(f"{base.name} below {base.parent}", "nothing built there", remedy)
    return checks


def _existing_folder(source: str | Path | None) -> Path | None:
    if source is None:
        return None
    path = Path(source).expanduser().absolute()
    if not path.is_dir():
        raise DataMissingError(f"a folder of data files at {path}", "no such folder", "name the folder that holds them")
    return path


def _text(value: Any, separator: str = "-") -> str:
    return separator.join(map(str, value)) if isinstance(value, list | tuple) else str(value)
