"""Reading pickles, and files of ``torch.save``, that somebody else made, without running anything in them.

A pickle is a program: unguarded, it calls whatever function it names. Here every name is looked up in a table of
makers written in this module; each maker checks its arguments and can build nothing but a numpy array of numbers or
text, a torch tensor or a plain container. The bytes of a tensor inside a pickle are a file of ``torch.save``, itself a
pickle: they are loaded with ``weights_only=True``.
"""

import io
import pickle
import pickletools
import warnings
import zipfile
from collections import OrderedDict
from collections.abc import Callable
from pathlib import Path
from typing import IO, Any

import numpy as np
import torch

from lrga.errors import ChecksumError, DataError, DataMissingError
from lrga.io import limits

_SAFE_KINDS = "biufcSU"  # numbers and text of fixed width: an array of these holds no Python object and no pointer
_MAGIC = 0x1950A86A20F9469CFC6C  # of torch.save before PyTorch 1.6
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
    """Stands for ``numpy.dtype`` while the pickle is read: keeps the name and the byte order, nothing else."""

    __slots__ = ("dtype",)
    __hash__ = None  # type: ignore[assignment]  # in a list or as a dict's value it is replaced at the end, in a set not

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


class _Array:
    """Stands for ``numpy.ndarray`` while the pickle is read; replaced by the array at the end."""

    __slots__ = ("value",)
    __hash__ = None  # type: ignore[assignment]

    def __init__(self, *_: object) -> None:
        self.value: np.ndarray | None = None

    def __setstate__(self, state: tuple[Any, ...]) -> None:
        shape, dtype, column_major, data = state[-4:]
        self.value = _array(data, dtype, shape, "F" if column_major else "C")


class _Csr:
    """Stands for ``scipy.sparse.csr_matrix``; replaced by a dict of its arrays at the end.

    A class, as the pickle makes an object of it without a call. It cannot be changed by BUILD: asked of the class,
    ``__setstate__`` lacks an argument.
    """

    __slots__ = ("value",)
    __hash__ = None  # type: ignore[assignment]

    def __setstate__(self, state: Any) -> None:
        if not isinstance(state, dict):
            raise _Refused("a sparse matrix without its arrays")
        parts = {name: state.get(name) for name in ("data", "indices", "indptr")}
        if any(not isinstance(part, _Array) for part in parts.values()):
            raise _Refused("a sparse matrix without its arrays")
        self.value = parts | {"shape": state.get("_shape", state.get("shape"))}


def _array(data: Any, dtype: Any, shape: Any, order: str = "C") -> np.ndarray:
    if not isinstance(dtype, _DType):
        raise _Refused(f"a {type(dtype).__name__} where a numpy dtype belongs")
    raw = data.encode("latin1") if isinstance(data, str) else data  # Python 2 stored bytes as text
    if not isinstance(raw, bytes | bytearray):
        raise _Refused(f"a {type(data).__name__} where the bytes of a numpy array belong")
    return np.frombuffer(raw, dtype=dtype.dtype).reshape(shape, order="F" if order == "F" else "C").copy(order="K")


def _scalar(dtype: Any, data: Any) -> Any:
    return _array(data, dtype, (1,))[0]


def _frombuffer(data: Any, dtype: Any, shape: Any, order: Any, *_: object) -> "_Array":
    made = _Array()
    made.value = _array(data, dtype, shape, order)
    return made


def _storage(data: Any) -> torch.UntypedStorage | torch.TypedStorage:
    if not isinstance(data, bytes | bytearray):
        raise _Refused(f"a {type(data).__name__} where the bytes of a tensor belong")
    try:
        check_torch_file(io.BytesIO(data), "a tensor in a pickle")
        storage = _load_tensors(io.BytesIO(data))
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


def _encode(text: Any, encoding: Any = "latin1", *_: object) -> bytes:
    if not isinstance(text, str) or encoding != "latin1":  # how Python 3 writes bytes in the oldest protocols
        raise _Refused(f"_codecs.encode with {encoding!r}")
    return text.encode("latin1")


def _bytearray(data: Any = b"", *_: object) -> bytearray:
    if isinstance(data, str):
        return bytearray(data, "latin1")
    if not isinstance(data, bytes | list):  # bytearray(10**12) would be taken for a size
        raise _Refused(f"bytearray of a {type(data).__name__}")
    return bytearray(data)


def _bytes(*args: object) -> bytes:
    if args:  # only the empty ones are written this way
        raise _Refused(f"bytes of a {type(args[0]).__name__}")
    return b""


def _list(*args: object) -> list[Any]:
    if args:  # only the type is named, as what a defaultdict makes
        raise _Refused(f"a list of a {type(args[0]).__name__}")
    return []


def _defaultdict(*_: object) -> dict[Any, Any]:
    return {}


_NUMPY: dict[str, Callable[..., Any]] = {
    "multiarray._reconstruct": _Array,
    "multiarray.scalar": _scalar,
    "numeric._frombuffer": _frombuffer,
}
_BUILTINS: dict[str, Callable[..., Any]] = {
    "set": set,
    "frozenset": frozenset,
    "complex": complex,
    "bytes": _bytes,
    "bytearray": _bytearray,
    "list": _list,
}
_TABLE: dict[str, Callable[..., Any]] = {
    "numpy.ndarray": _Array,
    "numpy.dtype": _DType,
    **{f"numpy.{core}.{name}": make for core in ("core", "_core") for name, make in _NUMPY.items()},
    "torch._utils._rebuild_tensor": _tensor,
    "torch._utils._rebuild_tensor_v2": _tensor,
    "torch.storage._load_from_bytes": _storage,
    "collections.OrderedDict": OrderedDict,
    "collections.defaultdict": _defaultdict,
    "_codecs.encode": _encode,
    **{f"{module}.{name}": make for module in ("builtins", "__builtin__") for name, make in _BUILTINS.items()},
}
_MAKERS: dict[str, Any] = {name: _Maker(make) for name, make in _TABLE.items()}
_MAKERS |= {f"scipy.sparse.{module}.csr_matrix": _Csr for module in ("csr", "_csr")}


class _RestrictedUnpickler(pickle.Unpickler):
    def find_class(self, module: str, name: str) -> Any:
        maker = _MAKERS.get(f"{module}.{name}")
        if maker is None:
            raise _Refused(f"a pickle that asks for {module}.{name}")
        return maker


def load_pickle(source: str | Path | bytes | IO[bytes], *, encoding: str = "ASCII", name: str | None = None) -> Any:
    """Reads a pickle of arrays, tensors, plain containers and scalars; refuses any other without running it.

    Args:
        source: A path, the bytes of a pickle, or a file open for reading bytes.
        encoding: How to read the text of a pickle made by Python 2: ``"ASCII"``, ``"latin1"`` or ``"bytes"``.
        name: What to call the source in an error, where it is not a path.

    Returns:
        The object: lists, tuples, dicts, sets, numbers, text, bytes, ``numpy.ndarray``, ``torch.Tensor``. A
        ``scipy.sparse.csr_matrix`` comes as a dict of its ``data``, ``indices``, ``indptr`` and ``shape``.

    Raises:
        DataError: The pickle names anything else, or is no pickle; the name is in the message.

    Example:
        >>> load_pickle(pickle.dumps({"size": 3, "of": np.arange(3)}))
        {'size': 3, 'of': array([0, 1, 2])}
        >>> load_pickle(b"cos\\nsystem\\n(S'echo hello'\\ntR.")
        Traceback (most recent call last):
        ...
        lrga.errors.DataError: expected a pickle of arrays, tensors, plain containers and scalars, \
got a pickle that asks for os.system in a pickle in memory. \
To fix: do not load this file elsewhere either; get it from its official source.
    """
    if isinstance(source, str | Path):
        content = limits.read_bytes(Path(source))
        return load_pickle(content, encoding=encoding, name=name or str(source))
    if not isinstance(source, bytes):  # another pickle may follow in the file
        label, begin, content = name or str(getattr(source, "name", "a pickle in memory")), source.tell(), source.read()
        value, length = _load(content, encoding, label)
        source.seek(begin + length)
        return value
    return _load(source, encoding, name or "a pickle in memory")[0]


def _load(content: bytes, encoding: str, label: str) -> tuple[Any, int]:
    """The object, and the length of its pickle, which may be followed by other bytes."""
    try:
        length = _check_program(content)
        return _without_stand_ins(_RestrictedUnpickler(io.BytesIO(content), encoding=encoding).load(), {}), length
    except _Refused as refusal:
        remedy = "do not load this file elsewhere either; get it from its official source"
        raise DataError(_ADMITTED, f"{refusal} in {label}", remedy) from refusal
    except Exception as error:  # a damaged pickle can raise nearly anything, out of the reader or out of numpy
        got = f"{label}, which is damaged or no pickle ({type(error).__name__}: {_first_line(error)})"
        raise DataError(_ADMITTED, got, "delete the file and fetch it again") from error


def read_pt(path: Path) -> Any:
    """What ``torch.save`` wrote to ``path``: plain containers of numpy arrays or tensors; anything else is refused.

    PyTorch 2.6 and later refuse files with arrays, as OGB's splits are.

    Example:
        >>> import tempfile
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
        with limits.open_regular(path) as file:
            check_torch_file(file, str(path))
        try:
            return _load_tensors(path)
        except Exception:  # arrays, or a damaged file, which can raise anything: the reader of pickles tells which
            return _read_zipped(path) if zipfile.is_zipfile(path) else _read_legacy(path)
    except (zipfile.BadZipFile, EOFError, OSError) as error:
        raise ChecksumError(f"a whole file of torch.save at {path}", str(error), remedy) from error


def _load_tensors(file: Path | IO[bytes]) -> Any:
    """By torch itself, which takes nothing but tensors and plain containers."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # torch's remarks on odd files: those are refused, in our words
        return torch.load(file, map_location="cpu", weights_only=True)


def _read_zipped(path: Path) -> Any:
    with zipfile.ZipFile(path) as archive:
        names = [name for name in archive.namelist() if name.endswith("/data.pkl") or name == "data.pkl"]
        if len(names) != 1:
            got = "a zip archive without data.pkl"
            raise DataError(f"a file of torch.save at {path}", got, "name the right file, or get it again")
        return load_pickle(archive.read(names[0]), name=str(path))


def _read_legacy(path: Path) -> Any:
    """The format before PyTorch 1.6: a magic number, a version, facts of the machine and the object, each a pickle."""
    with open(path, "rb") as file:
        try:
            magic = load_pickle(file, name=str(path))
        except DataError as error:
            remedy = "name the right file, or get it again from its official source"
            raise DataError(f"a file of torch.save at {path}", error.got, remedy) from error
        if magic != _MAGIC:
            raise DataError(f"a file of torch.save at {path}", "another kind of pickle", "get it again")
        return [load_pickle(file, name=str(path)) for _ in range(3)][-1]


def check_torch_file(file: IO[bytes], label: str) -> None:
    """Refuses a file of ``torch.save`` that would take more memory than there is, or whose pickle never ends.

    Raises:
        DataError: It does, or it is damaged.
    """
    try:
        begin = file.read(4)
        file.seek(0)
        if begin != b"PK\x03\x04":  # before PyTorch 1.6: four pickles one after the other
            content = file.read()
            for _ in range(4):
                content = content[_check_program(content) :] if content else content
            return
        with zipfile.ZipFile(file) as archive:
            limits.check_memory(sum(member.file_size for member in archive.infolist()), f"the content of {label}")
            for member in archive.namelist():
                if member.endswith("data.pkl"):
                    _check_program(archive.read(member))
    except DataError:
        raise
    except _Refused as refusal:
        remedy = "do not load this file elsewhere either; get it from its official source"
        raise DataError("a file of torch.save", f"{refusal} in {label}", remedy) from refusal
    except Exception as error:  # a damaged archive or pickle can raise nearly anything
        got = f"{label}, which is damaged or no such file ({type(error).__name__}: {_first_line(error)})"
        raise DataError("a file of torch.save", got, "delete the file and fetch it again") from error


def _check_program(content: bytes) -> int:
    """Refuses a pickle whose instructions take memory or time without bound; returns its length.

    Two do: to memorise at a far place, for which the reader makes a table that large; and to put a tuple several times
    into a tuple, that into another and so on, as the time to hash it doubles each time.
    """
    stream = io.BytesIO(content)
    sizes: list[int] = []  # of the objects on the stack, tuples counted with all they hold; _MARK for a mark
    memo: dict[int, int] = {}
    count = 0
    while (code := stream.read(1)) != b".":
        name, read, taken, below_mark, made = _INSTRUCTIONS[code]
        argument: Any = read(stream) if read is not None else None
        count += 1
        if name in _MEMORISE:
            place = len(memo) if argument is None else argument
            if place > count:
                raise _Refused(f"an instruction to memorise {place:,} objects")
            memo[place] = sizes[-1]
        elif name in _RECALL:
            sizes.append(memo[argument])
        elif name == "MARK":
            sizes.append(_MARK)
        else:
            first = len(sizes) - taken
            if below_mark is not None:
                first = len(sizes) - 1 - sizes[::-1].index(_MARK) - below_mark
            size = 1 + sum(sizes[first:]) if name in _REPEAT else 1
            if first < 0 or size > _LARGEST_TUPLE:
                raise _Refused("a tuple that repeats itself without end" if first >= 0 else "a damaged pickle")
            sizes[first:] = [size] * made
    return stream.tell()


def _skip_line(stream: IO[bytes]) -> None:
    stream.readline()  # text of Python 2, which need not be ASCII


_INSTRUCTIONS: dict[bytes, tuple[str, Any, int, int | None, int]] = {
    op.code.encode("latin1"): (
        op.name,
        _skip_line if op.name == "STRING" else op.arg and op.arg.reader,
        len(op.stack_before),
        op.stack_before.index(pickletools.markobject) if pickletools.markobject in op.stack_before else None,
        len(op.stack_after),
    )
    for op in pickletools.opcodes
}  # name, how to read its argument, objects it takes, how many of these lie below the mark, objects it makes
_MEMORISE = {"PUT", "BINPUT", "LONG_BINPUT", "MEMOIZE"}
_RECALL = {"GET", "BINGET", "LONG_BINGET"}
_REPEAT = {"TUPLE", "TUPLE1", "TUPLE2", "TUPLE3", "DUP"}
_LARGEST_TUPLE = 1_000_000
_MARK = 0


def _first_line(error: Exception) -> str:
    return (str(error).splitlines() or [""])[0][:200]


def _without_stand_ins(value: Any, seen: dict[int, Any]) -> Any:
    """The same object with arrays in place of their stand-ins; ``seen`` keeps shared parts shared and ends circles."""
    if isinstance(value, _Array):
        if value.value is None:
            raise _Refused("a numpy array without values")
        return value.value
    if isinstance(value, _DType):
        return value.dtype
    if isinstance(value, _Csr):
        return _without_stand_ins(value.value, seen)
    if isinstance(value, _Maker) or value is _Csr:
        raise _Refused("a name in place of a value")
    if not isinstance(value, list | tuple | dict) or id(value) in seen:
        return seen.get(id(value), value)
    if isinstance(value, tuple):
        seen[id(value)] = value
        made = tuple(_without_stand_ins(item, seen) for item in value)
        seen[id(value)] = made
        return made
    seen[id(value)] = value
    if isinstance(value, list):
        value[:] = [_without_stand_ins(item, seen) for item in value]
    else:
        for key, item in value.items():  # keys stay: an array cannot be one
            value[key] = _without_stand_ins(item, seen)
    return value
