"""JSON documents: readable by others, refused where they are broken."""

from pathlib import Path

import pytest

from lrga.errors import CheckpointError
from lrga.io.documents import read_json, sealed, to_json_bytes, unsealed, write_json


def test_a_document_is_replaced_whole_and_readable_by_others(tmp_path):
    path = tmp_path / "below" / "a.json"
    write_json(path, {"a": 1})
    write_json(path, {"a": 2})
    assert read_json(path) == {"a": 2}
    assert list(path.parent.iterdir()) == [path]
    write_json(tmp_path / "a.json", {"name": "Süß"})
    assert (tmp_path / "a.json").read_text(encoding="utf-8") == '{\n  "name": "Süß"\n}\n'
    with pytest.raises(ValueError):
        to_json_bytes({"loss": float("nan")})


@pytest.mark.parametrize("text", ["{", '{"loss": NaN}', "[" * 100_000])
def test_a_missing_or_broken_file_is_named(tmp_path, text):
    with pytest.raises(CheckpointError, match="no such file"):
        read_json(tmp_path / "none.json")
    (tmp_path / "bad.json").write_text(text)
    with pytest.raises(CheckpointError, match=r"bad\.json"):
        read_json(tmp_path / "bad.json")


def test_a_sealed_document_that_was_changed_is_refused():
    document = sealed({"epoch": 3})
    assert unsealed(document, Path("state.json")) == {"epoch": 3}
    assert unsealed({"epoch": 3}, Path("state.json")) == {"epoch": 3}  # as older versions wrote it
    with pytest.raises(CheckpointError, match="checksum"):
        unsealed({**document, "epoch": 4}, Path("state.json"))
