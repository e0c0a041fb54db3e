import pickle

import numpy as np
import pytest
import torch

from lrga.errors import ChecksumError, DataError, DataMissingError
from lrga.io.pt_file import read_pt

VALUE = {"edge": np.arange(12).reshape(6, 2), "edge_neg": np.ones((0, 2), dtype=np.int64)}


@pytest.mark.parametrize("zipped", [True, False])
@pytest.mark.parametrize("tensors", [True, False])
def test_both_formats_with_arrays_or_tensors(tmp_path, zipped, tensors):
    value = {key: torch.from_numpy(v) for key, v in VALUE.items()} if tensors else VALUE
    torch.save(value, tmp_path / "a.pt", _use_new_zipfile_serialization=zipped)
    read = read_pt(tmp_path / "a.pt")
    assert set(read) == set(VALUE)
    for key, wanted in VALUE.items():
        np.testing.assert_array_equal(np.asarray(read[key]), wanted)


class Malice:
    def __reduce__(self):
        return eval, ("1/0",)


@pytest.mark.parametrize("zipped", [True, False])
def test_code_in_a_file_is_not_run(tmp_path, zipped):
    torch.save({"edge": Malice()}, tmp_path / "a.pt", _use_new_zipfile_serialization=zipped)
    with pytest.raises(DataError, match="eval"):
        read_pt(tmp_path / "a.pt")


def test_missing_empty_truncated_and_foreign_files(tmp_path):
    path = tmp_path / "a.pt"
    with pytest.raises(DataMissingError):
        read_pt(path)
    path.write_bytes(b"")
    with pytest.raises(ChecksumError, match="empty"):
        read_pt(path)
    path.write_bytes(b"what is this")
    with pytest.raises(DataError, match="torch.save"):
        read_pt(path)
    path.write_bytes(pickle.dumps({"edge": 1}))
    with pytest.raises(DataError, match="another kind of pickle"):
        read_pt(path)
    for zipped in (True, False):
        torch.save(VALUE, path, _use_new_zipfile_serialization=zipped)
        path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])
        with pytest.raises((DataError, ChecksumError)):
            read_pt(path)
