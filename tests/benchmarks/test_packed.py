"""The benchmark of the packed operator: padded twins compute the same, and wrong values are never timed."""

import json

import packed
import pytest
import torch

import lrga


@pytest.fixture(autouse=True)
def small(monkeypatch):
    monkeypatch.setattr(packed, "CASES", {"ragged": [48, 16, 96], "skewed": [160, 16]})
    monkeypatch.setattr(packed, "HEADS", 2)
    monkeypatch.setattr(packed, "WIDTH", 4)


def test_the_padded_form_computes_the_same_and_every_method_gives_a_row_for_each():
    given, offsets, batch = packed.inputs([3, 1, 6], "cpu", torch.float32)
    expected = packed.ours(*given, offsets, batch)
    torch.testing.assert_close(packed.padded(*given, offsets, batch), expected, rtol=1e-4, atol=1e-5)
    for method in packed.METHODS.values():
        assert method(*given, offsets, batch).shape == expected.shape


def test_every_method_is_measured_on_every_case_or_says_why_not(monkeypatch, tmp_path, capsys):
    monkeypatch.setattr(packed, "MAX_SCORES", 300)  # the skewed case has 2 × 2 × 10²
    packed.main(["--repeats", "1", "--out", str(tmp_path / "packed.json"), "--json"])
    record = json.loads((tmp_path / "packed.json").read_text())
    assert json.loads(capsys.readouterr().out) == record
    assert len(record["rows"]) == 2 * len(packed.METHODS)
    assert [row["method"] for row in record["rows"] if "skipped" in row] == ["SDPA, padded"]
    assert all(row["both_ms"] > 0 for row in record["rows"] if "skipped" not in row)
    assert max(row["error"] for row in record["rows"] if "error" in row) < 1e-4
    packed.show(record)
    assert "time / ours" in capsys.readouterr().out


def test_wrong_values_are_not_timed(monkeypatch):
    monkeypatch.setattr(packed, "ours", lambda u, v, z, o, b: 1.01 * lrga.low_rank_attention(u, v, z, cu_seqlens=o))
    with pytest.raises(SystemExit, match="from the definition; no timing"):
        packed.check("ragged", "cpu", torch.float32)
