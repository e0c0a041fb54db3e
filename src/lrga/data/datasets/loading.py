"""A data set by its name: built on first use, verified, loaded.

Every set is one :class:`~lrga.data.datasets.spec.DatasetSpec` in a module of this package.
A finished set lies in ``ROOT/NAME/VARIANT/{train,val,test}.safetensors`` with ``manifest.json`` beside it, where
VARIANT names the options that differ from their defaults. Downloads lie in ``ROOT/NAME/raw``.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from lrga.data.datasets.building import (
    DEFAULT_VARIANT,
    RAW_FOLDER,
    build_command,
    build_dataset,
    load_splits,
    plan_dataset,
    plan_of_folder,
)
from lrga.data.datasets.manifest import FILE_NAME, Manifest, read_manifest
from lrga.data.datasets.root import data_root
from lrga.data.datasets.spec import dataset_specs, spec_of
from lrga.errors import DataMissingError, LRGAError
from lrga.io.download import check_recorded
from lrga.io.files import verify_file
from lrga.io.progress import Progress, show_progress


def load(
    name: str,
    root: str | Path | None = None,
    *,
    source: str | Path | None = None,
    workers: int | None = None,
    progress: Progress | None = None,
    download: bool = True,
    **options: Any,
) -> Any:
    """The splits ``train``, ``val`` and ``test`` of a data set, or the :class:`~lrga.data.links.data.LinkData` of a
    link-prediction set; built first if they are not there.

    Args:
        name: A name that ``lrga data ls`` lists, in any case.
        root: Data root; see :func:`lrga.data.datasets.root.data_root`.
        source: Folder of raw or prepared files to build from, where the set is not built yet; where it is built from
            something else, a warning says so.
        workers: Processes or threads of a build; all cores where it is ``None``. The result does not depend on it.
        progress: Is told of the progress; shown on stderr where it is ``None``.
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
        if progress is not None:
            manifest = build_dataset(plan, source=source, workers=workers, progress=progress, download=download)
        else:
            with show_progress() as shown:
                manifest = build_dataset(plan, source=source, workers=workers, progress=shown, download=download)
    else:
        plan.warn_of_other_source(manifest, source)
    return load_splits(plan, manifest)


@dataclass(frozen=True)
class BuiltSet:
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


@dataclass(frozen=True)
class Check:
    """One file that was verified; ``problem`` says what is wrong with it."""

    file: Path
    problem: str | None = None


def built_sets(name: str, root: str | Path | None = None) -> list[BuiltSet]:
    """The variants of a data set below the data root."""
    base = data_root(root) / spec_of(name).name
    folders = sorted(path for path in base.iterdir() if path.is_dir()) if base.is_dir() else []
    return [_built_set(folder) for folder in folders if folder.name != RAW_FOLDER]


def _built_set(folder: Path) -> BuiltSet:
    try:
        return BuiltSet(folder, read_manifest(folder, remedy=_rebuild(folder)))
    except LRGAError as error:  # one damaged variant must not hide the others
        return BuiltSet(folder, None, str(error))


def verify(name: str, root: str | Path | None = None) -> list[Check]:
    """Checks every file of every variant of a data set, and its downloads, by size and checksum.

    Example:
        >>> import tempfile
        >>> root = tempfile.mkdtemp()
        >>> _ = load("PATTERN", root, sizes=(3, 1, 1))
        >>> [check.problem for check in verify("PATTERN", root)]
        [None, None, None]
    """
    base = data_root(root) / spec_of(name).name
    folders = sorted(path for path in base.iterdir() if path.is_dir()) if base.is_dir() else []
    checks = []
    for folder in folders:
        checks += check_recorded(folder) if folder.name == RAW_FOLDER else _verify_variant(folder)
    if not checks:
        command = build_command(base.name, None if root is None else base.parent, None, {})
        raise DataMissingError(f"{base.name} below {base.parent}", "nothing built there", f"build it: {command}")
    return [Check(file, problem) for file, problem in checks]


def _verify_variant(folder: Path) -> list[tuple[Path, str | None]]:
    built = _built_set(folder)
    if built.problem is not None:
        return [(folder / FILE_NAME, built.problem)]
    manifest, remedy = built.manifest, _rebuild(folder, built.manifest)
    if manifest is None:
        return [(folder / FILE_NAME, f"no such file: the build of {folder} did not end. To fix: {remedy}.")]
    result: list[tuple[Path, str | None]] = []
    for name, facts in manifest.files.items():
        try:
            verify_file(folder / name, facts, remedy=remedy)
            result.append((folder / name, None))
        except LRGAError as error:
            result.append((folder / name, str(error)))
    return result


def _rebuild(folder: Path, manifest: Manifest | None = None) -> str:
    plan = plan_of_folder(folder)
    return f"delete {folder}, which this version would not build" if plan is None else plan.rebuild(manifest)
