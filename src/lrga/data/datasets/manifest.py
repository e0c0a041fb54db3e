"""The manifest beside a built set: what was made, how, and the size and checksum of every file.

It is written last, so a folder without one is a build that was killed: not believed, and built again.
"""

from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from lrga.errors import ChecksumError, DataError
from lrga.io import limits
from lrga.io.documents import write_json
from lrga.io.files import FileFacts, facts_of, verify_file
from lrga.version import __version__

FILE_NAME = "manifest.json"


@dataclass(frozen=True)
class Manifest:
    """What :data:`FILE_NAME` holds.

    Attributes:
        name: The data set.
        recipe: Everything that determines its content: options, seed, version of the recipe.
        files: File name → size and checksum.
        notes: Facts worth keeping: where the input came from, statistics.
        lrga: Version of this library that built it.
    """

    name: str
    recipe: dict[str, Any]
    files: dict[str, FileFacts]
    notes: dict[str, Any] = field(default_factory=dict)
    lrga: str = __version__

    @property
    def size(self) -> int:
        """Bytes of all files together."""
        return sum(facts.size or 0 for facts in self.files.values())


def write_manifest(
    folder: Path, *, name: str, recipe: dict[str, Any], files: list[str], notes: dict[str, Any]
) -> Manifest:
    """Measures ``files`` in ``folder`` and writes the manifest; from then on the folder is believed."""
    manifest = Manifest(name, recipe, {file: facts_of(folder / file) for file in files}, notes)
    write_json(folder / FILE_NAME, asdict(manifest), error=DataError)
    return manifest


def read_manifest(folder: Path, *, remedy: str) -> Manifest | None:
    """The manifest of ``folder``; ``None`` where there is none, an error where it is damaged."""
    path = folder / FILE_NAME
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
        raise ChecksumError(f"a manifest in {path}", f"a damaged file ({error})", remedy) from error


def verify_manifest(folder: Path, manifest: Manifest, *, remedy: str) -> None:
    """Checks every file of ``manifest``; raises an error naming the first that is missing or damaged."""
    for name, facts in manifest.files.items():
        verify_file(folder / name, facts, remedy=remedy)
