"""Hostile pickles here are real: each would create a file if anything in it ran."""

import collections
import copyreg
import functools
import io
import os
import pickle
import pickletools
import warnings
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse
import torch

from lrga.errors import DataError, DataMissingError
from lrga.io import unpickle
from lrga.io.unpickle import load_pickle, read_pt


class Calls:
    """Pickles as a call of ``function(*args)``."""

    def __init__(self, function, *args, state=None):
        self.parts = (function, args) if state is None else (function, args, state)

    def __reduce__(self):
        return self.parts


def touch(mark: Path) -> Calls:
    return Calls(os.system, f"touch {mark}")


def run(mark: Path) -> str:
    return f"open({str(mark)!r}, 'w').close()"


def tensor_bytes(mark: Path, **options) -> list[Calls]:
    buffer = io.BytesIO()
    torch.save(touch(mark), buffer, **options)
    return [Calls(torch.storage._load_from_bytes, buffer.getvalue())]


def dotted(mark: Path) -> bytes:
    words = ("numpy", "lib.npyio.os.system", f"touch {mark}")
    parts = [bytes([0x8C, len(text)]) + text.encode() for text in words]
    return b"\x80\x04" + parts[0] + parts[1] + b"\x93" + parts[2] + b"\x85R."


HOSTILE = {
    "tensor bytes": lambda mark: {"x": Calls(torch.storage._load_from_bytes, pickle.dumps(touch(mark)))},
    "tensor bytes saved by torch": tensor_bytes,
    "tensor bytes saved by old torch": lambda mark: tensor_bytes(mark, _use_new_zipfile_serialization=False),
    "text protocol": lambda mark: f"cposix\nsystem\n(S'touch {mark}'\ntR.".encode(),
    "dotted name": dotted,
    "instance opcode": lambda mark: f"(S'touch {mark}'\nios\nsystem\n.".encode(),
    "os.system": touch,
    "nested deep": lambda mark: {"a": [({"b": touch(mark)},)]},
    "eval": lambda mark: Calls(eval, run(mark)),
    "exec": lambda mark: Calls(exec, run(mark)),
    "import": lambda mark: Calls(__import__, "os"),
    "open": lambda mark: Calls(open, str(mark), "w"),
    "partial": lambda mark: Calls(functools.partial, os.system, f"touch {mark}"),
    "copyreg constructor": lambda mark: Calls(copyreg._reconstructor, Calls, object, None),
    "array of objects": lambda mark: np.array([touch(mark)], dtype=object),
    "state of a dict": lambda mark: Calls(collections.OrderedDict, state={"x": touch(mark)}),
    "map": lambda mark: Calls(map, os.system, [f"touch {mark}"]),
    "torch.load": lambda mark: Calls(torch.load, str(mark)),
}


def hostile(kind: str, mark: Path) -> bytes:
    made = HOSTILE[kind](mark)
    return made if isinstance(made, bytes) else pickle.dumps(made)


@pytest.mark.parametrize("kind", HOSTILE)
def test_a_hostile_pickle_is_refused_and_nothing_of_it_runs(kind, tmp_path):
    mark = tmp_path / "ran"
    path = tmp_path / "data.pickle"
    path.write_bytes(hostile(kind, mark))
    with pytest.raises(DataError) as caught:
        load_pickle(path)
    assert not mark.exists()
    assert str(path) in str(caught.value)


def test_the_hostile_pickles_would_run_if_read_unguarded(tmp_path):
    for kind in ("os.system", "nested deep", "text protocol", "eval"):
        mark = tmp_path / kind.replace(" ", "_")
        pickle.loads(hostile(kind, mark))
        assert mark.exists(), kind


def test_the_error_names_what_the_pickle_asked_for(tmp_path):
    asked = {"system": hostile("os.system", tmp_path / "ran"), "builtins.eval": hostile("eval", tmp_path / "ran")}
    asked["getattr"] = b"cbuiltins\ngetattr\n(cos\nsystem\nS'__call__'\ntR."
    for name, blob in asked.items():
        with pytest.raises(DataError, match=name):
            load_pickle(blob)


def test_a_pickle_cannot_change_the_makers_for_the_next_one():
    # BUILD with slot state sets attributes on what lies on the stack: here on the maker itself.
    blob = b"\x80\x02c_codecs\nencode\nN}X\x05\x00\x00\x00_makeK\x01s\x86b."
    assert [op.name for op, _, _ in pickletools.genops(blob)][-2] == "BUILD"
    with pytest.raises(DataError, match="instruction to change"):
        load_pickle(blob)
    assert load_pickle(pickle.dumps(b"abc", protocol=2)) == b"abc"


def test_a_dtype_with_forged_fields_is_refused():
    # Fields of objects under flags that deny it would make numpy read the file's bytes as pointers.
    forged = b"\x80\x02cnumpy\ndtype\nX\x02\x00\x00\x00V8K\x00K\x01\x87R."
    with pytest.raises(DataError, match="V8"):
        load_pickle(forged)
    structured = np.zeros(2, dtype=[("a", "f4"), ("b", "i8")])
    with pytest.raises(DataError, match="numpy array of"):
        load_pickle(pickle.dumps(structured))


def test_a_tensor_reaching_past_its_storage_is_refused():
    class Reaching:
        def __reduce__(self):
            storage = torch.arange(4.0).storage()
            return torch._utils._rebuild_tensor_v2, (storage, 0, (1000,), (1,), False, collections.OrderedDict())

    with warnings.catch_warnings():  # PyTorch says once per process that TypedStorage is deprecated
        warnings.simplefilter("ignore", UserWarning)
        blob = pickle.dumps(Reaching())
    with pytest.raises(DataError):
        load_pickle(blob)


@pytest.mark.parametrize("protocol", range(pickle.HIGHEST_PROTOCOL + 1))
def test_arrays_tensors_and_containers_come_back_as_they_were(protocol):
    shared = np.arange(6, dtype=np.int16).reshape(2, 3)
    value = {
        "f": np.asfortranarray(np.random.default_rng(0).normal(size=(3, 4))),
        "big": np.arange(3, dtype=">i4"),
        "text": np.array(["a", "bc"]),
        "none": np.zeros((0, 5), np.float32),
        "zero_d": np.array(2.5),
        "scalar": np.float32(1.5),
        "int8": torch.tensor([[1, -2], [3, 4]], dtype=torch.int8),
        "view": torch.arange(10.0)[2:8:2],
        "bool": torch.tensor(True),
        "list": [shared, (shared, 1, "x", b"y", None, True, 2.5, 1 + 2j, 10**30)],
        "set": {1, 2},
        "frozen": frozenset("ab"),
        "bytes": b"abc",
        "ordered": collections.OrderedDict(a=1),
    }
    back = load_pickle(pickle.dumps(value, protocol=protocol))
    assert back.keys() == value.keys()
    for key, want in value.items():
        got = back[key]
        assert isinstance(got, type(want)), key
        if isinstance(want, np.ndarray):
            assert got.dtype.newbyteorder("=") == want.dtype.newbyteorder("=")
            np.testing.assert_array_equal(got, want)
        elif isinstance(want, torch.Tensor):
            assert got.dtype == want.dtype
            assert torch.equal(got, want)
        elif key == "list":
            assert got[0] is got[1][0]
            np.testing.assert_array_equal(got[0], shared)
            assert got[1][1:] == want[1][1:]
        else:
            assert got == want
    back["f"][0] = 0  # writable, as any array


def test_a_pickle_of_python_2_is_read_with_bytes_for_text():
    array = (
        b"cnumpy.core.multiarray\n_reconstruct\n(cnumpy\nndarray\n(I0\ntS'b'\ntR(I1\n(I2\ntcnumpy\ndtype\n"
        b"(S'u1'\nI0\nI1\ntR(I3\nS'|'\nNNNI-1\nI-1\nI0\ntbI00\nS'\\x07\\xff'\ntb"
    )
    back = load_pickle(b"(dS'data'\n" + array + b"s.", encoding="bytes")
    np.testing.assert_array_equal(back[b"data"], np.array([7, 255], np.uint8))
    back = load_pickle(b"(dS'data'\n" + array + b"s.", encoding="latin1")
    np.testing.assert_array_equal(back["data"], np.array([7, 255], np.uint8))


def test_lists_that_hold_themselves_and_dicts_with_a_default_are_read():
    loop: list = [1]
    loop.append(loop)
    back = load_pickle(pickle.dumps(loop))
    assert back[1] is back
    graph = collections.defaultdict(list, {0: [1, 2], 1: [0]})
    found = load_pickle(pickle.dumps(graph, protocol=2))
    assert type(found) is dict
    assert found == graph


@pytest.mark.parametrize("cut", [0, 1, 10, 200, -1])
def test_a_truncated_pickle_is_refused(cut, tmp_path):
    blob = pickle.dumps([np.arange(100), torch.arange(5)])[:cut]
    (tmp_path / "cut.pickle").write_bytes(blob)
    with pytest.raises(DataError, match="a damaged or different file"):
        load_pickle(tmp_path / "cut.pickle")


def test_a_program_of_torchscript_is_refused(tmp_path):
    torch.jit.save(torch.jit.script(torch.nn.ReLU()), tmp_path / "a.pt")
    with pytest.raises(DataError, match="TorchScript"):
        read_pt(tmp_path / "a.pt")


def test_a_name_in_place_of_a_value_is_refused():
    with pytest.raises(DataError, match="a name instead of a value"):
        load_pickle(b"cnumpy\nndarray\n.")


SAVED = {"edge": np.arange(12).reshape(6, 2), "edge_neg": np.ones((0, 2), dtype=np.int64)}


@pytest.mark.parametrize("zipped", [True, False])
@pytest.mark.parametrize("tensors", [True, False])
def test_files_of_torch_save_in_both_formats_with_arrays_or_tensors(tmp_path, zipped, tensors):
    value = {key: torch.from_numpy(v) for key, v in SAVED.items()} if tensors else SAVED
    torch.save(value, tmp_path / "a.pt", _use_new_zipfile_serialization=zipped)
    read = read_pt(tmp_path / "a.pt")
    assert set(read) == set(SAVED)
    for key, wanted in SAVED.items():
        np.testing.assert_array_equal(np.asarray(read[key]), wanted)


@pytest.mark.parametrize("zipped", [True, False])
def test_code_in_a_file_of_torch_save_is_not_run(tmp_path, zipped):
    torch.save({"edge": Calls(eval, "1/0")}, tmp_path / "a.pt", _use_new_zipfile_serialization=zipped)
    with pytest.raises(DataError, match="eval"):
        read_pt(tmp_path / "a.pt")


def test_missing_empty_truncated_and_foreign_files_of_torch_save_are_refused(tmp_path):
    path = tmp_path / "a.pt"
    with pytest.raises(DataMissingError):
        read_pt(path)
    path.write_bytes(b"")
    for content in (b"", b"what is this", pickle.dumps({"edge": 1})):
        path.write_bytes(content)
        with pytest.raises(DataError, match=r"torch\.save.*a damaged or different file"):
            read_pt(path)
    for zipped in (True, False):
        torch.save(SAVED, path, _use_new_zipfile_serialization=zipped)
        path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])
        with pytest.raises(DataError):
            read_pt(path)


@pytest.mark.parametrize("module", ["scipy.sparse._csr", "scipy.sparse.csr"])
@pytest.mark.parametrize("protocol", [2, 4])
def test_a_sparse_matrix_comes_as_its_arrays(module, protocol):
    matrix = scipy.sparse.csr_matrix(np.array([[0.0, 2.0], [3.0, 0.0]]))
    written = pickle.dumps([matrix], protocol=protocol)
    if protocol == 2:
        written = written.replace(b"scipy.sparse._csr", module.encode())
    (found,) = load_pickle(written)
    assert found["shape"] == (2, 2)
    assert [found[name].tolist() for name in ("data", "indices", "indptr")] == [[2.0, 3.0], [1, 0], [0, 1, 2]]


@pytest.mark.parametrize(
    "program",
    [
        b"cscipy.sparse.csr\ncsr_matrix\n.",  # the name itself
        b"cscipy.sparse.csr\ncsr_matrix\n}S'__setstate__'\nNsb.",  # to change the class
        b"\x80\x02cscipy.sparse.csr\ncsr_matrix\n)\x81}X\x04\x00\x00\x00dataK\x01sb.",
        b"c__builtin__\nlist\n(S'abc'\ntR.",
    ],
)
def test_a_sparse_matrix_that_is_none_is_refused(program):
    with pytest.raises(DataError):
        load_pickle(program)
    assert "__setstate__" in vars(unpickle._Csr)
