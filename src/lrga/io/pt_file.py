"""Files of ``torch.save`` that hold numpy arrays, as OGB's splits do, read without running anything in them.

PyTorch 2.6 and later refuse such files by default, and reading them the old way would run whatever code they hold.
"""

import io
import warnings
import zipfile
from pathlib import Path
from typing import Any

import torch

from lrga.errors import ChecksumError, DataError, DataMissingError
from lrga.io.limits import open_regular
from lrga.io.unpickle import check_torch_file, load_pickle

_MAGIC = 0x1950A86A20F9469CFC6C  # of the format before PyTorch 1.6: four pickles one after the other


def read_pt(path: Path) -> Any:
    """What ``torch.save`` wrote to ``path``: plain containers of numpy arrays or tensors; anything else is refused.

    Example:
        >>> import tempfile, numpy as np
        >>> path = Path(tempfile.mkdtemp()) / "train.pt"
        >>> torch.save({"edge": np.array([[0, 1]])}, path)
        >>> read_pt(path)
        {'edge': array([[0, 1]])}
    """
    remedy = f"delete {path} and get it again from its official source"
    if not path.is_file():
        raise DataMissingError(f"the file {path}", "no such file", "copy it from the official archive")
    try:
        if path.stat().st_size == 0:
            raise ChecksumError(f"a file of torch.save at {path}", "an empty file", remedy)
        with open_regular(path) as file:
            check_torch_file(file, str(path))
        if (found := _tensors(path)) is not None:
            return found
        return _zipped(path) if zipfile.is_zipfile(path) else _legacy(path)
    except (zipfile.BadZipFile, EOFError, OSError) as error:
        if isinstance(error, DataMissingError):
            raise
        raise ChecksumError(f"a whole file of torch.save at {path}", str(error), remedy) from error


def _tensors(path: Path) -> Any:
    """By torch itself, where the file holds nothing but tensors and plain containers."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # torch's remarks on files that are none of its own
            return torch.load(path, map_location="cpu", weights_only=True)
    except Exception:  # arrays, or a damaged file, which can raise anything: the reader of pickles tells which
        return None


def _zipped(path: Path) -> Any:
    with zipfile.ZipFile(path) as archive:
        names = [name for name in archive.namelist() if name.endswith("/data.pkl") or name == "data.pkl"]
        if len(names) != 1:
            got = "a zip archive without data.pkl"
            raise DataError(f"a file of torch.save at {path}", got, "name the right file, or get it again")
        return load_pickle(io.BytesIO(archive.read(names[0])), name=str(path))


def _legacy(path: Path) -> Any:
    with open(path, "rb") as file:
        try:
            magic = load_pickle(file, name=str(path))
        except DataError as error:
            remedy = "name the right file, or get it again from its official source"
            raise DataError(f"a file of torch.save at {path}", error.got, remedy) from error
        if magic != _MAGIC:
            raise DataError(f"a file of torch.save at {path}", "another kind of pickle", "get it again")
        for _ in range(2):  # version of the format, facts of the machine
            load_pickle(file, name=str(path))
        return load_pickle(file, name=str(path))
