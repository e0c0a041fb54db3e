"""Safe reading of untrusted files: pipes and devices are rejected, and files larger than memory too."""

import errno
import json
import math
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, Any

from lrga.errors import DataError, DataMissingError, LRGAError

ENVIRONMENT_VARIABLE = "LRGA_MAX_MEMORY"
_UNKNOWN = 8 * 1024**3  # if the system does not tell: the memory of a small machine


def show_bytes(size: float) -> str:
    """Formats a size in bytes for people.

    Example:
        >>> show_bytes(2_340_000_000), show_bytes(51_000_000)
        ('2.3 GB', '51 MB')
    """
    return f"{size / 1e9:,.1f} GB" if size >= 1e9 else f"{size / 1e6:.0f} MB"


def available_memory() -> int:
    """Available main memory in bytes, limited by the machine and the container."""
    bounds = []
    with suppress(OSError, ValueError):
        lines = Path("/proc/meminfo").read_text().splitlines()
        bounds += [int(line.split()[1]) * 1024 for line in lines if line.startswith("MemAvailable:")]
    with suppress(OSError, ValueError):  # ValueError: "max", no limit
        group = Path("/sys/fs/cgroup")
        bounds.append(max(int((group / "memory.max").read_text()) - int((group / "memory.current").read_text()), 0))
    with suppress(AttributeError, OSError, ValueError):  # Windows has no such numbers
        bounds.append(os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE"))
    return min(bounds, default=_UNKNOWN)


def memory_limit() -> int:
    """The value of ``LRGA_MAX_MEMORY`` in bytes, else the available memory."""
    return int(float(os.environ.get(ENVIRONMENT_VARIABLE) or available_memory()))


def check_memory(need: int, what: str, *, remedy: str = "correct the file", error: type[LRGAError] = DataError) -> None:
    """Raises an error if ``need`` bytes exceed :func:`memory_limit`.

    Example:
        >>> check_memory(10**18, "the features of graph.pt")
        Traceback (most recent call last):
        ...
        lrga.errors.DataError: expected the features of graph.pt to fit into memory (...), got 1,000,000,000.0 GB. \
To fix: correct the file, or allow more bytes with LRGA_MAX_MEMORY.
    """
    limit = memory_limit()
    if need > limit:
        remedy = f"{remedy}, or allow more bytes with {ENVIRONMENT_VARIABLE}"
        raise error(f"{what} to fit into memory ({show_bytes(limit)})", show_bytes(need), remedy)


def open_regular(path: Path, *, error: type[LRGAError] = DataError) -> IO[bytes]:
    """Opens a regular file for reading; a pipe, a device or a file larger than memory is an error.

    Opening a pipe would wait for a writer, and reading a device may never end.
    """
    descriptor = os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0))
    try:
        facts = os.fstat(descriptor)
        if stat.S_ISDIR(facts.st_mode):
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(path))
        if not stat.S_ISREG(facts.st_mode):
            raise error(f"a regular file at {path}", "a pipe or a device", "replace it with the file itself")
        check_memory(facts.st_size, f"the content of {path}", error=error)
        return open(descriptor, "rb")
    except BaseException:
        os.close(descriptor)
        raise


def read_bytes(path: Path, *, error: type[LRGAError] = DataError) -> bytes:
    """The content of a regular file (:func:`open_regular`)."""
    with open_regular(path, error=error) as file:
        return file.read()


def read_json(path: Path, *, error: type[LRGAError] = DataError) -> Any:
    """The value in a JSON file (:func:`open_regular`); ``ValueError`` if it is not JSON."""
    return parse_json(read_bytes(path, error=error))


def parse_json(text: str | bytes, *, finite: bool = False) -> Any:
    """``json.loads`` of UTF-8, but a value that is nested too deeply raises ``ValueError`` like other damage.

    With ``finite``, NaN, infinity and numbers too large for a float are errors (Python accepts them).

    Example:
        >>> parse_json("[" * 100_000)
        Traceback (most recent call last):
        ...
        ValueError: brackets nested too deeply
    """
    try:
        decoded = text if isinstance(text, str) else text.decode("utf-8-sig")
        return json.loads(decoded, parse_constant=_finite, parse_float=_finite) if finite else json.loads(decoded)
    except RecursionError as error:
        raise ValueError("brackets nested too deeply") from error


def _finite(text: str) -> float:
    value = float(text.replace("Infinity", "inf"))
    if not math.isfinite(value):
        raise ValueError(f"{text[:40]}, which is not a finite number")
    return value


@contextmanager
def reading(path: Path, what: str, *, remedy: str, damage: type[LRGAError] = DataError) -> Iterator[None]:
    """Converts any error of a missing, foreign or damaged file to an error that names the file.

    Args:
        path: The file.
        what: What the file should be, for the error: ``"a complete gzip file"``.
        remedy: Remedy for a damaged file.
        damage: Error class for a damaged file; a missing file raises ``DataMissingError``.
    """
    try:
        if path.exists() and not path.is_file() and not path.is_dir():  # opening a pipe would wait for a writer
            raise damage(f"a regular file at {path}", "a pipe or a device", "replace it with the file itself")
        yield
    except LRGAError:  # some are also OSErrors
        raise
    except (FileNotFoundError, IsADirectoryError) as error:
        got = "a folder" if path.is_dir() else "no such file"
        raise DataMissingError(f"the file {path}", got, "put it there, or correct the path") from error
    except UnicodeDecodeError as error:
        convert = "save it as UTF-8 (in a spreadsheet: 'CSV UTF-8'; elsewhere: iconv -t UTF-8)"
        raise DataError(f"text in UTF-8 in {path}", "a byte of another encoding", convert) from error
    except Exception as error:  # damaged bytes can raise nearly any error
        if isinstance(error, OSError) and error.errno is not None:
            raise DataError(f"to read {path}", str(error.strerror), "check its permissions") from error
        raise damage(f"{what} {path}", f"a damaged or different file ({first_line(error)})", remedy) from error


def first_line(error: BaseException) -> str:
    """The first line of an error message, or the name of the error if the message is empty."""
    return (str(error).strip().splitlines() or [type(error).__name__])[0][:200]
