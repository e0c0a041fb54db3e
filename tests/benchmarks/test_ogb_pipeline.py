"""The pipeline of ogbl-ppa on files of its layout, small."""

import json

import ogb_pipeline
import pytest


def test_from_files_to_new_links(tmp_path):
    out = tmp_path / "record.json"
    small = ["--nodes", "300", "--edges", "900", "--batch-size", "500", "--recompute-layers"]
    ogb_pipeline.main([*small, "--device", "cpu", "--out", str(out)])
    record = json.loads(out.read_text(encoding="utf-8"))
    assert (record["nodes"], record["directed_edges"]) == (300, 1800)
    assert record["changes"] == {"batch_size": 500, "recompute_layers": True}
    assert record["train"]["epochs"] == 1
    assert 0 <= record["train"]["test_metric"] <= 1
    assert record["train"]["peak_bytes"] > 1e8
    assert record["train"]["gpu_peak_bytes"] is None or record["train"]["gpu_peak_bytes"] >= 0
    assert all(record[stage]["seconds"] > 0 for stage in ("train", "score_pairs", "new_links"))


def test_a_command_that_fails_is_named_with_its_message():
    with pytest.raises(SystemExit, match="lrga predict nowhere ended with 1"):
        ogb_pipeline.command("predict", "nowhere")
