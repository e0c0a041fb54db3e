"""Tensors in ``safetensors`` files, written atomically, with JSON values in the header."""

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from safetensors import SafetensorError, safe_open
from safetensors.torch import load, save
from torch import Tensor

from lrga.errors import CheckpointError, ChecksumError, DataError, LRGAError
from lrga.io import limits
from lrga.io.files import write_bytes


def save_tensors(
    path: Path,
    tensors: Mapping[str, Tensor],
    *,
    metadata: dict[str, str] | None = None,
    error: type[LRGAError] = CheckpointError,
) -> None:
    """Writes tensors, from any device, to ``path`` atomically."""
    write_bytes(path, to_bytes(tensors, metadata), error=error)


def load_tensors(path: Path, *, remedy: str) -> dict[str, Tensor]:
    """The tensors of a file; ``CheckpointError`` if it is missing, damaged, not a regular file, or exceeds memory."""
    try:
        return from_bytes(limits.read_bytes(path, error=CheckpointError))  # safe_open accepts only UTF-8 paths
    except (OSError, ValueError) as damage:
        raise CheckpointError(f"a complete safetensors file {path}", str(damage), remedy) from damage


def save_data(path: Path, tensors: Mapping[str, Tensor], header: Mapping[str, Any], *, key: str) -> None:
    """Writes tensors and JSON values to ``path`` atomically; equal contents give equal bytes.

    ``header`` is a single entry ``key`` of the file's metadata, because the order of several entries is not fixed.
    """
    save_tensors(path, tensors, metadata={key: json.dumps(header)}, error=DataError)


@contextmanager
def load_data(path: Path, *, key: str, version: int, what: str) -> Iterator[tuple[dict[str, Tensor], dict[str, Any]]]:
    """Tensors and header of a file of :func:`save_data` with ``"format": version``, called ``what`` in errors.

    Any error of the block that uses them means that the file is damaged.
    """
    remedy = "build the data set again with this version, or pass another file"
    with limits.reading(path, "a complete safetensors file", remedy=remedy, damage=ChecksumError):
        limits.open_regular(path, error=ChecksumError).close()
        with safe_open(path, framework="pt") as file:
            tensors, metadata = {name: file.get_tensor(name) for name in file.keys()}, file.metadata()  # noqa: SIM118
    with limits.reading(path, f"{what} in", remedy=remedy):
        header = limits.parse_json(metadata[key])
        if header["format"] != version:
            raise DataError(f"{path} in format {version}", f"format {header['format']}", remedy)
        yield tensors, header


def to_bytes(tensors: Mapping[str, Tensor], metadata: dict[str, str] | None = None) -> bytes:
    """The content of a file of these tensors."""
    # Contiguous copies on the CPU: safetensors supports neither views nor shared memory.
    copies = {name: tensor.detach().to("cpu", copy=True).contiguous() for name, tensor in tensors.items()}
    return save(copies, metadata)


def from_bytes(content: bytes) -> dict[str, Tensor]:
    """The tensors of :func:`to_bytes`; ``ValueError`` if the content is damaged."""
    try:
        return load(content)
    except (SafetensorError, LookupError, RuntimeError) as error:
        raise ValueError(str(error)) from error
