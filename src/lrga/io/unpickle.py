"""Safe reading of untrusted pickles and files of ``torch.save``, without running code in them.

A pickle is a program that can call any function by name. Here every name is looked up in a table of makers in this
module. Each maker checks its arguments and can build only numpy arrays of numbers or text, torch tensors and plain
containers.
"""

import io
import pickle
import warnings
import zipfile
from collections import OrderedDict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import IO, Any

import numpy as np
import torch

from lrga.errors import DataError
from lrga.io import limits

_SAFE_KINDS = "biufcSU"  # numbers and text of fixed width: such arrays hold no Python objects and no pointers
_ADMITTED = "a pickle of arrays, tensors, plain containers and scalars"


class _Refused(Exception):
    """Raised inside the unpickler with the reason; callers get a DataError."""


class _Maker:
    """A callable that a pickle may use.

    It is not a plain function or class, because the BUILD instruction of a pickle sets attributes of any object on its
    stack: it could replace the defaults of a function or the methods of a class for the rest of the process.
    """

    __slots__ = ("_make",)

    def __init__(self, make: Callable[..., Any]) -> None:
        self._make = make

    def __call__(self, *args: Any) -> Any:
        return self._make(*args)

    def __setstate__(self, state: object) -> None:
        raise _Refused(f"an instruction to change {self._make.__name__.strip('_')}")


class _DType:
    """Replaces ``numpy.dtype``: keeps only the name and the byte order."""

    __slots__ = ("dtype",)

    def __init__(self, name: str | bytes, *_: object) -> None:
        text = name.decode("ascii") if isinstance(name, bytes) else name
        dtype = np.dtype(text) if isinstance(text, str) else None
        if dtype is None or dtype.kind not in _SAFE_KINDS or dtype.fields is not None:
            raise _Refused(f"a numpy array of {text!r}")
        self.dtype = dtype

    def __setstate__(self, state: tuple[Any, ...]) -> None:
        # (version, byte order, subdtype, names, fields, ...): the remaining flags and fields are ignored, because they
        # could make numpy interpret bytes of the file as pointers.
        if any(part is not None for part in state[2:5]):
            raise _Refused("a structured numpy array")
        order: Any = state[1].decode("ascii") if isinstance(state[1], bytes) else state[1]
        self.dtype = self.dtype.newbyteorder(order)


class _Array(np.ndarray):
    """An array that a pickle creates empty and then fills."""

    def __setstate__(self, state: tuple[Any, ...]) -> None:
        shape, dtype, column_major, data = state[-4:]
        made = _array(data, dtype, shape, "F" if column_major else "C")
        state = (1, made.shape, made.dtype, bool(column_major), made.tobytes("A"))
        super().__setstate__(state)  # type: ignore[arg-type]  # a Python bool, unlike in numpy's stub


class _Csr(dict[str, Any]):
    """Replaces ``scipy.sparse.csr_matrix``: a dict of its arrays.

    It must be a class, because the pickle creates an object without a call. BUILD cannot change the class: there
    ``__setstate__`` fails for lack of an argument.
    """

    def __setstate__(self, state: Any) -> None:
        parts = {name: state[name] for name in ("data", "indices", "indptr")}
        if any(not isinstance(part, np.ndarray) for part in parts.values()):
            raise _Refused("a sparse matrix without its arrays")
        self.update(parts, shape=state.get("_shape", state.get("shape")))


def _array(data: Any, dtype: Any, shape: Any, order: Any = "C", *_: object) -> np.ndarray:
    if not isinstance(dtype, _DType):
        raise _Refused(f"a {type(dtype).__name__} instead of a numpy dtype")
    raw = data.encode("latin1") if isinstance(data, str) else data  # Python 2 stored bytes as text
    return np.frombuffer(raw, dtype=dtype.dtype).reshape(shape, order="F" if order == "F" else "C").copy(order="K")


def _tensor(storage: Any, offset: Any, size: Any, stride: Any, *_: object) -> torch.Tensor:
    if not isinstance(storage, torch.TypedStorage):
        raise _Refused(f"a {type(storage).__name__} instead of the values of a tensor")
    if len(size) != len(stride) or any(type(n) is not int or n < 0 for n in (offset, *size, *stride)):
        raise _Refused("a tensor of invalid shape")
    untyped = storage._untyped_storage  # the public API warns that typed storages are deprecated
    last = offset + sum((n - 1) * step for n, step in zip(size, stride, strict=True))
    if 0 not in size and last >= untyped.nbytes() // storage.dtype.itemsize:
        # torch would extend the storage with uninitialised memory
        raise _Refused("a tensor larger than its storage")
    return torch.empty(0, dtype=storage.dtype).set_(untyped, offset, size, stride)


def _bytes(text: Any = "", encoding: Any = "latin1") -> bytes:
    if not isinstance(text, str) or encoding != "latin1":  # the form of bytes in the oldest protocols
        raise _Refused(f"bytes of a {type(text).__name__} in {encoding!r}")
    return text.encode("latin1")


_NUMPY: dict[str, Callable[..., Any]] = {
    "multiarray._reconstruct": lambda *_: _Array(0),
    "multiarray.scalar": lambda dtype, data: _array(data, dtype, (1,))[0],
    "numeric._frombuffer": _array,
}
_BUILTINS: dict[str, Callable[..., Any]] = {
    "set": set,
    "frozenset": frozenset,
    "complex": complex,
    "bytes": _bytes,
    "list": lambda: [],  # noqa: PIE807  (the factory of a defaultdict: no arguments)
}
_TABLE: dict[str, Callable[..., Any]] = {
    "numpy.ndarray": _Array,
    "numpy.dtype": _DType,
    **{f"numpy.{core}.{name}": make for core in ("core", "_core") for name, make in _NUMPY.items()},
    "torch._utils._rebuild_tensor": _tensor,
    "torch._utils._rebuild_tensor_v2": _tensor,
    "torch.storage._load_from_bytes": lambda data: _load_torch(io.BytesIO(data), "a tensor in a pickle"),
    "collections.OrderedDict": OrderedDict,
    "collections.defaultdict": lambda *_: {},
    "_codecs.encode": _bytes,
    **{f"{module}.{name}": make for module in ("builtins", "__builtin__") for name, make in _BUILTINS.items()},
}
_MAKERS: dict[str, Any] = {name: _Maker(make) for name, make in _TABLE.items()}
_MAKERS |= {f"scipy.sparse.{module}.csr_matrix": _Csr for module in ("csr", "_csr")}


class _RestrictedUnpickler(pickle._Unpickler):
    """The Python unpickler: the compiled one allocates a table of any size that a pickle requests."""

    def find_class(self, module: str, name: str) -> Any:
        maker = _MAKERS.get(f"{module}.{name}")
        if maker is None:
            raise _Refused(f"a pickle that asks for {module}.{name}")
        return maker


def load_pickle(source: str | Path | bytes, *, encoding: str = "ASCII") -> Any:
    """Reads a pickle of arrays, tensors, plain containers and scalars; any other pickle is an error and is not run.

    Args:
        source: A path, or the bytes of a pickle.
        encoding: Encoding of text in a pickle of Python 2: ``"ASCII"``, ``"latin1"`` or ``"bytes"``.

    Returns:
        The object: lists, tuples, dicts, sets, numbers, text, bytes, ``numpy.ndarray``, ``torch.Tensor``. A
        ``scipy.sparse.csr_matrix`` is returned as a dict of ``data``, ``indices``, ``indptr`` and ``shape``.

    Raises:
        DataError: The pickle contains anything else (the message names it), or is not a pickle.

    Example:
        >>> load_pickle(pickle.dumps({"size": 3, "of": np.arange(3)}))["of"].tolist()
        [0, 1, 2]
        >>> load_pickle(b"cos\\nsystem\\n(S'echo hello'\\ntR.")
        Traceback (most recent call last):
        ...
        lrga.errors.DataError: expected a pickle of arrays, tensors, plain containers and scalars in \
a pickle in memory, got a pickle that asks for os.system. \
To fix: do not load this file with other tools either; download it from its official source.
    """
    where = Path("a pickle in memory" if isinstance(source, bytes) else source)
    with _refusing(where, _ADMITTED + " in"):
        content = source if isinstance(source, bytes) else limits.read_bytes(where)
        value = _RestrictedUnpickler(io.BytesIO(content), encoding=encoding).load()
        if isinstance(value, _Maker | type):
            raise _Refused("a name instead of a value")
        return value


@contextmanager
def _refusing(path: Path, what: str) -> Iterator[None]:
    """Converts a rejected pickle and any error of a damaged file to a ``DataError``."""
    with limits.reading(path, what, remedy="delete the file and download it again from its official source"):
        try:
            yield
        except _Refused as refusal:
            remedy = "do not load this file with other tools either; download it from its official source"
            raise DataError(f"{what} {path}", str(refusal), remedy) from refusal


def read_pt(path: Path) -> Any:
    """Reads a file of ``torch.save``: plain containers of numpy arrays or tensors; anything else is an error.

    PyTorch's own restricted loader rejects files with numpy arrays, such as OGB's splits.

    Example:
        >>> import tempfile
        >>> path = Path(tempfile.mkdtemp()) / "train.pt"
        >>> torch.save({"edge": np.array([[0, 1]])}, path)
        >>> read_pt(path)["edge"].tolist()
        [[0, 1]]
    """
    with _refusing(path, "a file of torch.save at"), limits.open_regular(path) as file:
        return _load_torch(file, str(path))


def _load_torch(file: IO[bytes], label: str) -> Any:
    """Loads with torch, which parses the file, and the makers above, which build the objects."""
    check_torch_file(file, label)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # torch warns about unusual files; they raise our own errors
        return torch.load(file, map_location="cpu", pickle_module=_PICKLE_MODULE, weights_only=False)


_PICKLE_MODULE = SimpleNamespace(
    Unpickler=_RestrictedUnpickler,
    load=lambda file, **options: _RestrictedUnpickler(file, **options).load(),
    __name__="restricted pickle",
)


def check_torch_file(file: IO[bytes], label: str) -> None:
    """Raises an error for a file of ``torch.save`` that exceeds memory, or that is a TorchScript program."""
    begin = file.read(4)
    file.seek(0)
    if begin == b"PK\x03\x04":  # since PyTorch 1.6; older files are four consecutive pickles
        with zipfile.ZipFile(file) as archive:
            limits.check_memory(sum(member.file_size for member in archive.infolist()), f"the content of {label}")
            if any(name.rpartition("/")[2] == "constants.pkl" for name in archive.namelist()):
                raise DataError(f"tensors in {label}", "a TorchScript program", "save the tensors themselves")
        file.seek(0)
