"""Tensors in files: as they were written, or refused by name."""

import os

import pytest
import torch
from safetensors.torch import save_file

from lrga.errors import CheckpointError, ChecksumError, DataError, DataMissingError
from lrga.io.limits import ENVIRONMENT_VARIABLE
from lrga.io.safetensors import from_bytes, load_data, load_tensors, save_data, save_tensors, to_bytes

WHOLE = torch.arange(12.0).reshape(3, 4)
TENSORS = {"whole": WHOLE, "view": WHOLE[1:], "turned": WHOLE.T, "none": torch.empty(0, 2, dtype=torch.int32)}
KIND = {"key": "lrga", "version": 1, "what": "a set"}


def assert_same(found):
    assert found.keys() == TENSORS.keys()
    for name, tensor in TENSORS.items():
        torch.testing.assert_close(found[name], tensor, rtol=0, atol=0)


def test_tensors_that_share_memory_are_written_and_read(tmp_path):
    save_tensors(tmp_path / "a", TENSORS)
    assert_same(load_tensors(tmp_path / "a", remedy="none"))
    assert_same(from_bytes(to_bytes(TENSORS)))
    assert (tmp_path / "a").read_bytes() == to_bytes(TENSORS)


def test_json_values_are_kept_beside_the_tensors_and_equal_contents_are_equal_bytes(tmp_path):
    for name in ("a", "b"):
        save_data(tmp_path / name, TENSORS, {"format": 1, "meta": ["ä", None]}, key="lrga")
    with load_data(tmp_path / "a", **KIND) as (tensors, header):
        assert_same(tensors)
        assert header == {"format": 1, "meta": ["ä", None]}
    assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes()


def test_a_missing_damaged_or_foreign_file_is_named(tmp_path):
    path = tmp_path / "a"
    with pytest.raises(DataMissingError, match=str(path)):
        load_data(path, **KIND).__enter__()
    with pytest.raises(CheckpointError, match=f"{path}.*To fix: train"):
        load_tensors(path, remedy="train")
    save_data(path, TENSORS, {"format": 2}, key="lrga")
    with pytest.raises(DataError, match="format 2"):
        load_data(path, **KIND).__enter__()
    path.write_bytes(path.read_bytes()[:-1])
    with pytest.raises(ChecksumError, match=str(path)):
        load_data(path, **KIND).__enter__()
    with pytest.raises(CheckpointError, match=f"{path}.*To fix: train"):
        load_tensors(path, remedy="train")
    with pytest.raises(ValueError):
        from_bytes(path.read_bytes())
    for metadata in (None, {"lrga": "{"}, {"lrga": "[]"}, {"format": "pt"}):
        save_file({"weight": WHOLE.clone()}, path, metadata=metadata)
        with pytest.raises(DataError, match=f"a set in {path}"):
            load_data(path, **KIND).__enter__()


def test_a_file_larger_than_the_memory_limit_is_refused(tmp_path, monkeypatch):
    save_tensors(tmp_path / "a", {"large": torch.zeros(1000)})
    monkeypatch.setenv(ENVIRONMENT_VARIABLE, "1000")
    with pytest.raises(CheckpointError, match="to fit into memory"):
        load_tensors(tmp_path / "a", remedy="none")


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no named pipes on this system")
def test_a_pipe_is_refused_at_once(tmp_path):
    os.mkfifo(tmp_path / "a")
    with pytest.raises(CheckpointError, match="a pipe"):
        load_tensors(tmp_path / "a", remedy="none")


def test_a_place_that_cannot_be_written_is_told_of(tmp_path):
    (tmp_path / "file").touch()
    with pytest.raises(CheckpointError, match="to write"):
        save_tensors(tmp_path / "file" / "a", TENSORS)
    with pytest.raises(DataError, match="--data-root"):
        save_data(tmp_path / "file" / "a", TENSORS, {"format": 1}, key="lrga")
