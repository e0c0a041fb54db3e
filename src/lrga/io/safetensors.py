"""Tensors in ``safetensors`` files, written atomically, with JSON values in their header."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from safetensors import SafetensorError, safe_open
from safetensors.torch import load, save, save_file
from torch import Tensor

from lrga.errors import CheckpointError, ChecksumError, DataError, DataMissingError, LRGAError
from lrga.io import limits
from lrga.io.files import atomic_path

_DAMAGE = (SafetensorError, OSError, LookupError, ValueError, RuntimeError)


def save_tensors(
    path: Path,
    tensors: Mapping[str, Tensor],
    *,
    metadata: dict[str, str] | None = None,
    error: type[LRGAError] = CheckpointError,
) -> None:
    """Writes tensors, from any device, to ``path`` atomically."""
    with atomic_path(path, error=error) as temporary:
        try:
            save_file(_copies(tensors), temporary, metadata=metadata)
        except SafetensorError as refusal:
            raise error(f"to write {path}", str(refusal), "free some space, or choose another folder") from refusal


def load_tensors(path: Path, *, remedy: str, error: type[LRGAError] = CheckpointError) -> dict[str, Tensor]:
    """The tensors of a file; ``error`` where it is damaged, no plain file, or larger than memory."""
    try:
        return from_bytes(limits.read_bytes(path, error=error))  # safe_open takes no path that is not UTF-8
    except LRGAError:
        raise
    except _DAMAGE as damage:
        raise error(f"a whole safetensors file {path}", str(damage), remedy) from damage


def save_data(path: Path, tensors: Mapping[str, Tensor], header: Mapping[str, Any], *, key: str) -> None:
    """Writes tensors and JSON values to ``path`` atomically; equal contents are equal bytes.

    ``header`` is one entry of the file's metadata, named ``key``: the order of several would not be fixed.
    """
    save_tensors(path, tensors, metadata={key: json.dumps(header)}, error=DataError)


def load_data(path: Path, *, key: str, version: int, what: str) -> tuple[dict[str, Tensor], dict[str, Any]]:
    """What :func:`save_data` wrote; its header must say ``"format": version``. ``what`` names it in errors."""
    if not path.is_file():
        raise DataMissingError(f"the file {path}", "no such file", "build the data set, or name another file")
    try:
        limits.open_regular(path, error=ChecksumError).close()
        with safe_open(path, framework="pt") as file:
            tensors, metadata = {name: file.get_tensor(name) for name in file.keys()}, file.metadata() or {}  # noqa: SIM118
    except LRGAError:
        raise
    except _DAMAGE as damage:
        raise ChecksumError(f"a whole safetensors file {path}", str(damage), "build the data set again") from damage
    try:
        header = limits.parse_json(metadata[key])
        found = header["format"]
    except (LookupError, TypeError, ValueError) as error:
        raise DataError(f"{what} in {path}", f"a file without {error}", "build it again") from error
    if found != version:
        remedy = "build the data set again with this version"
        raise DataError(f"{path} in format {version}", f"format {found}", remedy)
    return tensors, header


def to_bytes(tensors: Mapping[str, Tensor]) -> bytes:
    """The content of a file of these tensors."""
    return save(_copies(tensors))


def from_bytes(content: bytes) -> dict[str, Tensor]:
    """The tensors of :func:`to_bytes`; ``ValueError`` where the content is damaged."""
    try:
        return load(content)
    except SafetensorError as error:
        raise ValueError(str(error)) from error


def _copies(tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Contiguous copies on the CPU: safetensors takes neither views nor shared memory."""
    return {name: tensor.detach().to("cpu", copy=True).contiguous() for name, tensor in tensors.items()}
