"""The pipeline of ogbl-ppa on files of its layout, small."""

import json

import ogb_pipeline
import pytest

from tests.helpers.commands import lrga


def in_this_process(*words):
    return {"seconds": 0.5, "peak_bytes": 2 * 10**8, "gpu_peak_bytes": None, "stdout": lrga(*words).stdout}


def test_from_files_to_new_links(tmp_path, monkeypatch):
    monkeypatch.setattr(ogb_pipeline, "command", in_this_process)
    out = tmp_path / "record.json"
    small = ["--nodes", "300", "--edges", "900", "--batch-size", "500", "--recompute-layers"]
    ogb_pipeline.main([*small, "--device", "cpu", "--out", str(out)])
    record = json.loads(out.read_text(encoding="utf-8"))
    known = record["settings"]
    assert (known["nodes"], known["directed_edges"], known["epochs"]) == (300, 1800, 1)
    assert (known["--batch-size"], known["--recompute-layers"]) == (500, True)
    assert 0 <= known["test_metric"] <= 1
    assert len(record["rows"]) == 4
    assert record["rows"][0]["peak_bytes"] > 1e8
    assert all(row["seconds"] > 0 for row in record["rows"])


def test_a_command_that_fails_is_named_with_its_message():
    with pytest.raises(SystemExit, match=r"(?s)lrga nothing ended with 2:.*No such command"):
        ogb_pipeline.command("nothing")
