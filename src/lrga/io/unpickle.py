"""Reading pickles, and files of ``torch.save``, that somebody else made, without running anything in them.

A pickle is a program: unguarded, it calls whatever function it names. Here every name is looked up in a table of
makers written in this module; each maker checks its arguments and can build nothing but a numpy array of numbers or
text, a torch tensor or a plain container.
"""

import io
import pickle
import warnings
import zipfile
from collections import OrderedDict
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import IO, Any

import numpy as np
import torch

from lrga.errors import DataError, DataMissingError, LRGAError
from lrga.io import limits

_SAFE_KINDS = "biufcSU"  # numbers and text of fixed width: an array of these holds no Python object and no pointer
_ADMITTED = "a pickle of arrays, tensors, plain containers and scalars"


class _Refused(Exception):
    """Raised inside the unpickler with the reason; callers see a DataError."""


class _Maker:
    """A callable that a pickle may name.

    Not a plain function or class, because the BUILD instruction of a pickle sets attributes on whatever lies on its
    stack: on a function it could replace the defaults, on a class the methods, for the rest of the process.
    """

    __slots__ = ("_make",)

    def __init__(self, make: Callable[..., Any]) -> None:
        self._make = make

    def __call__(self, *args: Any) -> Any:
        return self._make(*args)

    def __setstate__(self, state: object) -> None:
        raise _Refused(f"an instruction to change {self._make.__name__.strip('_')}")


class _DType:
    """Stands for ``numpy.dtype``: keeps the name and the byte order, nothing else."""

    __slots__ = ("dtype",)

    def __init__(self, name: str | bytes, *_: object) -> None:
        text = name.decode("ascii") if isinstance(name, bytes) else name
        dtype = np.dtype(text) if isinstance(text, str) else None
        if dtype is None or dtype.kind not in _SAFE_KINDS or dtype.fields is not None:
            raise _Refused(f"a numpy array of {text!r}")
        self.dtype = dtype

    def __setstate__(self, state: tuple[Any, ...]) -> None:
        # (version, byte order, subdtype, names, fields, ...): the flags and fields that follow could make numpy take
        # bytes of the file for pointers, so they are not passed on.
        if any(part is not None for part in state[2:5]):
            raise _Refused("a numpy array of structures")
        order: Any = state[1].decode("ascii") if isinstance(state[1], bytes) else state[1]
        self.dtype = self.dtype.newbyteorder(order)


class _Array(np.ndarray):
    """An array that a pickle makes empty, and then fills."""

    def __setstate__(self, state: tuple[Any, ...]) -> None:
        shape, dtype, column_major, data = state[-4:]
        made = _array(data, dtype, shape, "F" if column_major else "C")
        state = (1, made.shape, made.dtype, bool(column_major), made.tobytes("A"))
        super().__setstate__(state)  # type: ignore[arg-type]  # a bool of Python, whatever numpy's stub says


class _Csr(dict[str, Any]):
    """Stands for ``scipy.sparse.csr_matrix``: a dict of its arrays.

    A class, as the pickle makes an object of it without a call. It cannot be changed by BUILD: asked of the class,
    ``__setstate__`` lacks an argument.
    """

    def __setstate__(self, state: Any) -> None:
        parts = {name: state[name] for name in ("data", "indices", "indptr")}
        if any(not isinstance(part, np.ndarray) for part in parts.values()):
            raise _Refused("a sparse matrix without its arrays")
        self.update(parts, shape=state.get("_shape", state.get("shape")))


def _array(data: Any, dtype: Any, shape: Any, order: Any = "C", *_: object) -> np.ndarray:
    if not isinstance(dtype, _DType):
        raise _Refused(f"a {type(dtype).__name__} where a numpy dtype belongs")
    raw = data.encode("latin1") if isinstance(data, str) else data  # Python 2 stored bytes as text
    if not isinstance(raw, bytes | bytearray):
        raise _Refused(f"a {type(data).__name__} where the bytes of a numpy array belong")
    return np.frombuffer(raw, dtype=dtype.dtype).reshape(shape, order="F" if order == "F" else "C").copy(order="K")


def _storage(data: Any) -> torch.UntypedStorage | torch.TypedStorage:
    if not isinstance(data, bytes | bytearray):
        raise _Refused(f"a {type(data).__name__} where the bytes of a tensor belong")
    try:
        storage = _load_torch(io.BytesIO(data), "a tensor in a pickle")
    except Exception as error:  # whatever torch raises on bytes it does not trust
        raise _Refused(f"a tensor whose bytes torch refuses ({_first_line(error)})") from error
    if not isinstance(storage, torch.UntypedStorage | torch.TypedStorage):
        raise _Refused(f"a {type(storage).__name__} where the values of a tensor belong")
    return storage


def _tensor(storage: Any, offset: Any, size: Any, stride: Any, *_: object) -> torch.Tensor:
    if not isinstance(storage, torch.TypedStorage):
        raise _Refused(f"a {type(storage).__name__} where the values of a tensor belong")
    if len(size) != len(stride) or any(type(n) is not int or n < 0 for n in (offset, *size, *stride)):
        raise _Refused("a tensor of impossible shape")
    untyped = storage._untyped_storage  # the public ways to it warn that storages with a type will go
    last = offset + sum((n - 1) * step for n, step in zip(size, stride, strict=True))
    if 0 not in size and last >= untyped.nbytes() // storage.dtype.itemsize:
        # torch would grow the storage with whatever lies in memory
        raise _Refused("a tensor that reaches past its values")
    return torch.empty(0, dtype=storage.dtype).set_(untyped, offset, size, stride)


def _bytes(text: Any = "", encoding: Any = "latin1") -> bytes:
    if not isinstance(text, str) or encoding != "latin1":  # how Python 3 writes bytes in the oldest protocols
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
    "list": lambda: [],  # noqa: PIE807  (only the type is named, as what a defaultdict makes: no arguments)
}
_TABLE: dict[str, Callable[..., Any]] = {
    "numpy.ndarray": _Array,
    "numpy.dtype": _DType,
    **{f"numpy.{core}.{name}": make for core in ("core", "_core") for name, make in _NUMPY.items()},
    "torch._utils._rebuild_tensor": _tensor,
    "torch._utils._rebuild_tensor_v2": _tensor,
    "torch.storage._load_from_bytes": _storage,
    "collections.OrderedDict": OrderedDict,
    "collections.defaultdict": lambda *_: {},
    "_codecs.encode": _bytes,
    **{f"{module}.{name}": make for module in ("builtins", "__builtin__") for name, make in _BUILTINS.items()},
}
_MAKERS: dict[str, Any] = {name: _Maker(make) for name, make in _TABLE.items()}
_MAKERS |= {f"scipy.sparse.{module}.csr_matrix": _Csr for module in ("csr", "_csr")}


class _RestrictedUnpickler(pickle._Unpickler):
    """The unpickler in Python: the compiled one makes a table as large as a pickle says."""

    def find_class(self, module: str, name: str) -> Any:
        maker = _MAKERS.get(f"{module}.{name}")
        if maker is None:
            raise _Refused(f"a pickle that asks for {module}.{name}")
        return maker


def load_pickle(source: str | Path | bytes, *, encoding: str = "ASCII", name: str = "a pickle in memory") -> Any:
    """Reads a pickle of arrays, tensors, plain containers and scalars; refuses any other without running it.

    Args:
        source: A path, or the bytes of a pickle.
        encoding: How to read the text of a pickle made by Python 2: ``"ASCII"``, ``"latin1"`` or ``"bytes"``.
        name: What to call the source in an error, where it is not a path.

    Returns:
        The object: lists, tuples, dicts, sets, numbers, text, bytes, ``numpy.ndarray``, ``torch.Tensor``. A
        ``scipy.sparse.csr_matrix`` comes as a dict of its ``data``, ``indices``, ``indptr`` and ``shape``.

    Raises:
        DataError: The pickle names anything else, or is no pickle; the name is in the message.

    Example:
        >>> load_pickle(pickle.dumps({"size": 3, "of": np.arange(3)}))["of"].tolist()
        [0, 1, 2]
        >>> load_pickle(b"cos\\nsystem\\n(S'echo hello'\\ntR.")
        Traceback (most recent call last):
        ...
        lrga.errors.DataError: expected a pickle of arrays, tensors, plain containers and scalars, \
got a pickle that asks for os.system in a pickle in memory. \
To fix: do not load this file elsewhere either; get it from its official source.
    """
    label = name if isinstance(source, bytes) else str(source)
    try:
        content = source if isinstance(source, bytes) else limits.read_bytes(Path(source))
        value = _RestrictedUnpickler(io.BytesIO(content), encoding=encoding).load()
        if isinstance(value, _Maker | type):
            raise _Refused("a name in place of a value")
        return value
    except LRGAError:
        raise
    except _Refused as refusal:
        remedy = "do not load this file elsewhere either; get it from its official source"
        raise DataError(_ADMITTED, f"{refusal} in {label}", remedy) from refusal
    except Exception as error:  # a damaged pickle can raise nearly anything, out of the reader or out of numpy
        got = f"{label}, which is damaged or no pickle ({type(error).__name__}: {_first_line(error)})"
        raise DataError(_ADMITTED, got, "delete the file and fetch it again") from error


def read_pt(path: Path) -> Any:
    """What ``torch.save`` wrote to ``path``: plain containers of numpy arrays or tensors; anything else is refused.

    PyTorch's own restricted loader refuses files with arrays, as OGB's splits are.

    Example:
        >>> import tempfile
        >>> path = Path(tempfile.mkdtemp()) / "train.pt"
        >>> torch.save({"edge": np.array([[0, 1]])}, path)
        >>> read_pt(path)["edge"].tolist()
        [[0, 1]]
    """
    if not path.is_file():
        raise DataMissingError(f"the file {path}", "no such file", "copy it from the official archive")
    try:
        with limits.open_regular(path) as file:
            return _load_torch(file, str(path))
    except LRGAError:
        raise
    except Exception as error:  # damaged bytes can make torch raise nearly anything
        got = str(error) if isinstance(error, _Refused) else f"an empty, damaged or other file ({_first_line(error)})"
        remedy = f"delete {path} and get it again from its official source"
        raise DataError(f"a file of torch.save at {path}", got, remedy) from error


def _load_torch(file: IO[bytes], label: str) -> Any:
    """By torch, which takes the file apart, and the makers above, which make what is in it."""
    check_torch_file(file, label)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # torch's remarks on odd files: those are refused, in our words
        return torch.load(file, map_location="cpu", pickle_module=_PICKLE_MODULE, weights_only=False)


_PICKLE_MODULE = SimpleNamespace(
    Unpickler=_RestrictedUnpickler,
    load=lambda file, **options: _RestrictedUnpickler(file, **options).load(),
    __name__="restricted pickle",
)


def check_torch_file(file: IO[bytes], label: str) -> None:
    """Refuses a file of ``torch.save`` that would take more memory than there is, and a program of TorchScript."""
    begin = file.read(4)
    file.seek(0)
    if begin == b"PK\x03\x04":  # since PyTorch 1.6; before, four pickles one after the other
        with zipfile.ZipFile(file) as archive:
            limits.check_memory(sum(member.file_size for member in archive.infolist()), f"the content of {label}")
            if any(name.rpartition("/")[2] == "constants.pkl" for name in archive.namelist()):
                raise DataError(f"tensors in {label}", "a program of TorchScript", "save the tensors themselves")
        file.seek(0)


def _first_line(error: Exception) -> str:
    return (str(error).splitlines() or [""])[0][:200]
