"""A campaign in one small file, to be continued on another machine.

Packed are all records, and of every run that is not finished what it needs to go on: its small files and its newest
sound checkpoint. Finished runs are known by their records; their weights stay behind.
"""

import io
import shutil
import tarfile
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path, PurePosixPath

from lrga.bench.gathering import gather_records
from lrga.bench.records import FINISHED, FOLDER, RunRecord, read_record, write_record
from lrga.errors import CheckpointError, DataError
from lrga.io.files import write_bytes, writing
from lrga.training.runs.checkpoint import newest_checkpoint
from lrga.training.runs.folder import RunFolder

_SMALL = ("config.json", "model.json", "environment.json", "metrics.jsonl", "log.txt")


def pack(folder: str | Path, target: str | Path) -> int:
    """Writes a campaign's folder as a tar file, whole or not at all; returns its bytes.

    Example:
        >>> import tempfile
        >>> place = Path(tempfile.mkdtemp())
        >>> pack(place, place / "state.tar") > 0
        True
    """
    folder, content = Path(folder), io.BytesIO()
    with tarfile.open(fileobj=content, mode="w") as archive:
        for path in sorted((folder / FOLDER).glob("*.json")):
            archive.add(path, f"{FOLDER}/{path.name}")
        for home in _unfinished(folder):
            for path in _needed(home):
                archive.add(path, f"{home.path.name}/{path.relative_to(home.path).as_posix()}")
    write_bytes(Path(target), content.getvalue())
    return len(content.getvalue())


def _unfinished(folder: Path) -> list[RunFolder]:
    homes = [RunFolder(path) for path in sorted(folder.iterdir()) if path.is_dir()] if folder.is_dir() else []
    known = {path.stem for path in (folder / FOLDER).glob("*.json")}  # a finished run's record has its name
    return [home for home in homes if home.holds_a_run and home.result() is None and home.path.name not in known]


def _needed(home: RunFolder) -> list[Path]:
    files = [home.path / name for name in _SMALL if (home.path / name).is_file()]
    checkpoint, _ = newest_checkpoint(home.path / "checkpoints")
    return files if checkpoint is None else [*files, *sorted(checkpoint.path.iterdir())]


def unpack(source: str | Path, folder: str | Path) -> list[str]:
    """Takes up what :func:`pack` wrote, and says in lines what was taken.

    Nothing that is farther is lost: a run that has come as far here or is finished stays as it is, and records are
    added to those that are there. A folder of records, such as ``results``, is taken up too: what it has is not made
    again.
    """
    source, folder = Path(source), Path(folder)
    with writing(folder):
        folder.mkdir(parents=True, exist_ok=True)
    if source.is_dir():
        return [_take_records([entry.path for entry in gather_records([source])], folder)]
    with tempfile.TemporaryDirectory(prefix=".unpacking-", dir=folder) as temporary:
        place = Path(temporary)
        _extract(source, place)
        said = [_take_records(sorted((place / FOLDER).glob("*.json")), folder)]
        for path in sorted(place.iterdir()):
            if path.name != FOLDER:
                said.append(_take_run(path, folder / path.name))
    return said


@contextmanager
def previewed(folder: str | Path) -> Iterator[Path]:
    """A copy of a campaign's folder without checkpoints, to see what a packed one would add; it is gone afterwards."""
    with tempfile.TemporaryDirectory(prefix="lrga-preview-") as temporary:
        place = Path(temporary) / "runs"
        if Path(folder).is_dir():
            shutil.copytree(folder, place, ignore=shutil.ignore_patterns("checkpoints", "*.safetensors"))
        yield place


def _extract(source: Path, place: Path) -> None:
    """Plain files only, and only below ``place``: the file may come from anywhere."""
    remedy = "take the file that --pack wrote"
    try:
        with tarfile.open(source) as archive:
            for member in archive:
                path = PurePosixPath(member.name)
                if not member.isfile() or path.is_absolute() or ".." in path.parts or not 2 <= len(path.parts) <= 4:
                    raise DataError(f"a packed campaign in {source}", f"the entry {member.name!r}", remedy)
                content = archive.extractfile(member)
                assert content is not None
                target = place.joinpath(*path.parts)
                target.parent.mkdir(parents=True, exist_ok=True)
                target.write_bytes(content.read())
    except (OSError, tarfile.TarError) as error:
        raise DataError(f"a packed campaign in {source}", str(error), remedy) from error


def _take_records(paths: Iterable[Path], folder: Path) -> str:
    new = 0
    for path in paths:
        target = folder / FOLDER / path.name
        record = read_record(path)
        if not target.exists():
            write_bytes(target, path.read_bytes())
            new += 1
        elif record.status != FINISHED and record not in _attempts(folder, record.run):
            write_record(record, folder)  # under the next number
            new += 1
    return f"{new} new records"


def _attempts(folder: Path, run: str) -> list[RunRecord]:
    return [read_record(path) for path in (folder / FOLDER).glob(f"{run}.attempt-*.json")]


def _take_run(path: Path, target: Path) -> str:
    home = RunFolder(target)
    if home.holds_a_run:
        if home.result() is not None or _position(target) >= _position(path):
            return f"{path.name}: has come as far here"
        try:
            with home.lock():
                shutil.rmtree(target)
        except CheckpointError as error:
            raise CheckpointError(f"{target} to be free", error.got, "wait for the campaign that trains it") from error
    with writing(target):
        shutil.move(path, target)
    return f"{path.name}: taken up at {_position(target) or 'its beginning'}"


def _position(folder: Path) -> str:
    checkpoint, _ = newest_checkpoint(folder / "checkpoints")
    return "" if checkpoint is None else checkpoint.path.name
