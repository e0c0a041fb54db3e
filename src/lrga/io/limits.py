"""Memory limits for reading untrusted files.

A small file can require any amount of memory: by a size in its header, by compression, by nesting. Readers therefore
call :func:`check_memory` before they allocate. The default limit is the available memory; ``LRGA_MAX_MEMORY`` or
``lrga --max-memory SIZE`` sets another one.
"""

import errno
import gzip
import json
import math
import os
import re
import stat
import zlib
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, Any

from lrga.errors import DataError, DataMissingError, LRGAError, OptionError

ENVIRONMENT_VARIABLE = "LRGA_MAX_MEMORY"
MIN_LINE = 1 << 20  # a text line of a megabyte is always read
RAISE = f"raise the limit with lrga --max-memory SIZE or {ENVIRONMENT_VARIABLE}"
_UNKNOWN = 8 * 1024**3  # where the system does not say: what a small machine has
_SIZE = re.compile(r"(\d+(?:\.\d+)?)\s*(?:([kmgt])(i?))?b?", re.IGNORECASE)
_POWERS = {"": 0, "k": 1, "m": 2, "g": 3, "t": 4}


def parse_bytes(text: str | int) -> int:
    """A size as people write it.

    Example:
        >>> parse_bytes("8GB"), parse_bytes("1.5g"), parse_bytes("1GiB"), parse_bytes(1000)
        (8000000000, 1500000000, 1073741824, 1000)
    """
    if isinstance(text, int) and not isinstance(text, bool) and text > 0:
        return text
    match = _SIZE.fullmatch(text.strip()) if isinstance(text, str) else None
    unit = (1024 if match[3] else 1000) ** _POWERS[(match[2] or "").lower()] if match is not None else 0
    size = float(match[1]) * unit if match is not None else 0.0
    if not 0 < size < math.inf:
        raise OptionError("a size of memory such as 8GB or 500MB", repr(text)[:80], "write one of these")
    return round(size)


def show_bytes(size: float) -> str:
    """As people read it.

    Example:
        >>> show_bytes(2_340_000_000), show_bytes(51_000_000)
        ('2.3 GB', '51 MB')
    """
    return f"{size / 1e9:,.1f} GB" if size >= 1e9 else f"{size / 1e6:.0f} MB"


def available_memory() -> int:
    """Available main memory in bytes: of the machine, and of the container."""
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


def max_memory() -> int:
    """Bytes that the content of a file may take: ``LRGA_MAX_MEMORY``, else what is available."""
    given = os.environ.get(ENVIRONMENT_VARIABLE)
    return parse_bytes(given) if given else available_memory()


def check_memory(need: int, what: str, *, remedy: str = "correct the file", error: type[LRGAError] = DataError) -> None:
    """Raises an error if ``need`` bytes exceed the memory limit.

    Example:
        >>> check_memory(10**18, "the features of graph.pt")
        Traceback (most recent call last):
        ...
        lrga.errors.DataError: expected the features of graph.pt to fit into memory (...), got 1,000,000,000.0 GB. \
To fix: correct the file, or raise the limit with lrga --max-memory SIZE or LRGA_MAX_MEMORY.
    """
    if need > (limit := max_memory()):
        raise error(f"{what} to fit into memory ({show_bytes(limit)})", show_bytes(need), f"{remedy}, or {RAISE}")


def open_regular(path: Path, *, error: type[LRGAError] = DataError) -> IO[bytes]:
    """Opens a plain file for reading; a pipe, a device or a file above the memory limit is refused at once.

    Opening a pipe would wait for somebody to write into it, and reading a device may never end.
    """
    descriptor = os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0))
    try:
        facts = os.fstat(descriptor)
        if stat.S_ISDIR(facts.st_mode):
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(path))
        if not stat.S_ISREG(facts.st_mode):
            raise error(f"a plain file at {path}", "a pipe or a device", "replace it by the file itself")
        check_memory(facts.st_size, f"the content of {path}", error=error)
        return open(descriptor, "rb")
    except BaseException:
        os.close(descriptor)
        raise


def read_bytes(path: Path, *, error: type[LRGAError] = DataError) -> bytes:
    """The content of a plain file (:func:`open_regular`)."""
    with open_regular(path, error=error) as file:
        return file.read()


def read_json(path: Path, *, error: type[LRGAError] = DataError) -> Any:
    """The value in a JSON file (:func:`open_regular`); ``ValueError`` where it is none."""
    return parse_json(read_bytes(path, error=error))


def parse_json(text: str | bytes, *, finite: bool = False) -> Any:
    """As ``json.loads`` of UTF-8, but a value nested too deeply is a ``ValueError`` like any other damage.

    ``finite`` refuses NaN and infinity, which Python alone would accept, and numbers too large for a float.

    Example:
        >>> parse_json("[" * 100_000)
        Traceback (most recent call last):
        ...
        ValueError: brackets nested too deeply
    """
    try:
        decoded = text if isinstance(text, str) else text.decode("utf-8-sig")
        return json.loads(decoded, parse_constant=_refuse, parse_float=_finite) if finite else json.loads(decoded)
    except RecursionError as error:
        raise ValueError("brackets nested too deeply") from error


def _refuse(name: str) -> None:
    raise ValueError(f"{name}, which is no number of JSON")


def _finite(digits: str) -> float:
    if math.isinf(value := float(digits)):
        raise ValueError(f"{digits[:40]}, which is too large")
    return value


@contextmanager
def reading(path: Path, *, remedy: str, damage: type[LRGAError] = DataError) -> Iterator[None]:
    """Turns what a foreign or unreadable file raises into a ``DataError``, what a cut one raises into ``damage``.

    A file that is not there is a ``DataMissingError``.
    """
    try:
        yield
    except LRGAError:  # some are an OSError as well
        raise
    except (FileNotFoundError, IsADirectoryError) as error:
        got = "a folder" if path.is_dir() else "no such file"
        raise DataMissingError(f"the file {path}", got, "put it there, or correct the path") from error
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise damage(f"a whole gzip file {path}", str(error), remedy) from error
    except UnicodeDecodeError as error:
        convert = "save it as UTF-8 (in a spreadsheet: 'CSV UTF-8'; elsewhere: iconv -t UTF-8)"
        raise DataError(f"text in UTF-8 in {path}", "a byte of another encoding", convert) from error
    except OSError as error:
        raise DataError(f"to read {path}", str(error.strerror or error), "check its permissions") from error


def limited_lines(file: IO[str], path: Path) -> Iterator[str]:
    """The lines of a text file, each of at most a thousandth of the memory limit, and at least 1 MB."""
    longest = max(MIN_LINE, max_memory() // 1000)
    while line := file.readline(longest):
        if len(line) == longest and not line.endswith("\n"):
            remedy = f"end lines with a line feed, or {RAISE}"
            raise DataError(f"lines of at most {show_bytes(longest)} in {path}", "a longer one", remedy)
        yield line
