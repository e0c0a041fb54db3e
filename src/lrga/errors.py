"""Every error a user can meet.

Each error states what was expected, what was given and how to fix it. All errors derive from :class:`LRGAError` and
from the matching built-in exception (``ValueError``, ``TypeError``, …).
"""

import re
from importlib import import_module
from typing import Any

# C0, C1 and the marks that change the direction of text; tabs and line ends are kept.
_CONTROL = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u200e\u200f\u202a-\u202e\u2066-\u2069]")


def visible(text: str) -> str:
    """The text with control characters escaped, so that a name from a file cannot control the terminal.

    Example:
        >>> visible("run\\x1b[2J")
        'run\\\\x1b[2J'
    """
    return _CONTROL.sub(lambda found: f"\\x{ord(found[0]):02x}", text)


class LRGAError(Exception):
    """Base class of all errors of this library.

    Args:
        expected: What was expected.
        got: What was given.
        remedy: How to fix it.

    Example:
        >>> raise ShapeError("x of shape [N, 16]", "shape [10, 8]", "pass in_channels=8")
        Traceback (most recent call last):
        ...
        lrga.errors.ShapeError: expected x of shape [N, 16], got shape [10, 8]. To fix: pass in_channels=8.
    """

    def __init__(self, expected: str, got: str, remedy: str) -> None:
        self.expected, self.got, self.remedy = expected, got, remedy
        super().__init__(expected, got, remedy)  # args has all three, so the error can be pickled

    def __str__(self) -> str:
        return visible(f"expected {self.expected}, got {self.got.rstrip('.')}. To fix: {self.remedy.rstrip('.')}.")


class ShapeError(LRGAError, ValueError):
    """A tensor does not have the shape that the operation needs."""


class DTypeError(LRGAError, TypeError):
    """A tensor or an argument does not have the type that the operation needs."""


class DeviceError(LRGAError, ValueError):
    """Tensors are on different devices, or a device is not available."""


class OptionError(LRGAError, ValueError):
    """An option has a value outside its choices or range."""


class NonFiniteError(LRGAError, ValueError):
    """NaN or infinity where finite values are needed."""


class BatchError(LRGAError, ValueError):
    """A batch vector does not match the nodes."""


class BatchContextError(LRGAError, RuntimeError):
    """An augmented layer has no batch vector."""


class UnsupportedError(LRGAError, NotImplementedError):
    """A valid input that this operation does not define, such as bipartite graphs."""


class DataError(LRGAError, ValueError):
    """A data file, or the user's own data, is malformed."""


class DataMissingError(LRGAError, FileNotFoundError):
    """A required data file is missing and could not be downloaded."""


class ChecksumError(LRGAError, ValueError):
    """A file is truncated or corrupted."""


class CheckpointError(LRGAError, RuntimeError):
    """A run folder or checkpoint cannot be read, written or resumed."""


class UntrustedCodeError(LRGAError, RuntimeError):
    """A file names a Python module whose import the user has not allowed."""


class FolderInUseError(CheckpointError):
    """Another process is training in the same run folder."""


class MissingDependencyError(LRGAError, ImportError):
    """A required optional package is not installed."""


def optional_module(name: str, purpose: str, extra: str) -> Any:
    """Imports a module that an optional extra installs."""
    try:
        return import_module(name)
    except ImportError as error:
        remedy, package = f"pip install 'lrga[{extra}]'", name.partition(".")[0]
        raise MissingDependencyError(f"the package {package}, {purpose}", str(error), remedy) from error


class RankLostError(LRGAError, RuntimeError):
    """Another process of a distributed run has stopped."""


class OutOfMemoryError(LRGAError, RuntimeError):
    """Training needs more memory than is available."""
