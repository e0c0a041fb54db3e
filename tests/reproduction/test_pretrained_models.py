"""The networks under pretrained/: each loads by name, belongs to a record, and predicts as well as the record says."""

import json
from pathlib import Path

import pytest
import torch

import lrga
from lrga.tasks.metrics import f1_positive
from reproduction.keep_weights import MAX_BYTES, PRETRAINED, RECORDS, main

NAMES = sorted(folder.name for folder in PRETRAINED.iterdir())
SHARED_TSP = Path(__file__).resolve().parents[3] / "shared" / "data" / "tsp"


@pytest.mark.parametrize("name", NAMES)
def test_every_network_belongs_to_a_record(name):
    config = json.loads((PRETRAINED / name / "config.json").read_text(encoding="utf-8"))
    kept = config["record"]
    record = json.loads((RECORDS / f"{kept['run']}.json").read_text(encoding="utf-8"))
    assert (record["status"], record["last"]["test_metric"]) == ("finished", kept["test"])
    model = lrga.load_pretrained(name)
    assert sum(p.numel() for p in model.parameters()) == record["model"]["parameters"]
    assert sum(file.stat().st_size for file in (PRETRAINED / name).iterdir()) <= MAX_BYTES


def test_all_of_them_are_small_enough_for_the_repository():
    assert sum(file.stat().st_size for file in PRETRAINED.rglob("*") if file.is_file()) <= 20_000_000


@pytest.mark.skipif(not SHARED_TSP.is_dir(), reason="the prepared tours are not there")
def test_tours_are_predicted_as_well_as_the_record_says(tmp_path):
    graphs = lrga.data.load("TSP", tmp_path, source=SHARED_TSP, sizes=[1, 1, 40])["test"]
    model = lrga.load_pretrained("tsp-lrga-gatedgcn-100k")
    batch = graphs.batch(slice(None))
    with torch.no_grad():
        scores = model(batch.x, batch.edge_index, edge_attr=batch.edge_attr, batch=batch.batch)
    assert float(f1_positive(scores, batch.y)) == pytest.approx(0.8106, abs=0.02)  # of 40 graphs of 1,000


def test_a_run_without_a_record_is_refused(tmp_path):
    with pytest.raises(SystemExit, match="land it first"):
        main([str(tmp_path)])
