"""Sentences about the paper's claims have the numbers of the records."""

import json

import pytest

from lrga.bench.answers import NOT_YET, answers
from lrga.bench.claims import claim_cells, plain_counterpart
from lrga.bench.protocols import cells_of
from lrga.bench.records import RunRecord, write_record

EPOCH = {
    "epoch": 2, "lr": 1e-3, "train_loss": 0.5, "train_metric": 90.0, "val_loss": 0.7, "val_metric": 0.8,
    "test_loss": 0.9, "test_metric": 0.45, "seconds": 1.0, "elapsed": 2.0,
}  # fmt: skip


def write(folder, cell, test, train=90.0):
    epoch = EPOCH | {"test_metric": test, "train_metric": train}
    config = cell.runs()[0]
    metric = "mae" if config.data.name == "ZINC" else "weighted_accuracy"
    write_record(
        RunRecord(
            run=f"run-{len(list(folder.rglob('*.json')))}", status="finished", reason="min_lr", data={"name": "x"},
            model={"parameters": 7}, config=config.to_json(), seed=config.run.seed, metric=metric, epochs=2,
            seconds=60.0, last=epoch, best=epoch, curve={}, environment=[], published=None,
            time="2020-06-01T00:00:00+0000",
        ),
        folder,
    )  # fmt: skip


def answer(folder, beginning):
    return next(found for found in answers([folder]) if found.claim.startswith(beginning))


def test_without_records_nothing_is_claimed(tmp_path):
    assert {found.text for found in answers([tmp_path])} == {NOT_YET}
    assert not any(found.complete for found in answers([tmp_path]))
    assert json.dumps([found.to_json() for found in answers([tmp_path])])


def test_pairs_are_counted_whichever_direction_is_better(tmp_path):
    for dataset, plain, with_it in (("ZINC", 0.30, 0.25), ("CLUSTER", 60.0, 70.0), ("PATTERN", 85.0, 84.0)):
        cells = cells_of("table1", dataset=dataset, model="gcn", budget="100K")
        write(tmp_path, cells[0], plain)
        write(tmp_path, cells[1], with_it)
    text = answer(tmp_path, "LRGA improves").text
    assert text.startswith("with LRGA the result is better in 2 of 3 pairs run so far (in 31 of 33 in the paper)")
    assert "better in CLUSTER GCN 100K, ZINC GCN 100K; not in PATTERN GCN 100K" in text


def test_the_gap_between_networks_needs_all_six(tmp_path):
    cells = cells_of("table1", dataset="CLUSTER", budget="100K")
    for number, cell in enumerate(cells[:-1]):
        write(tmp_path, cell, 60.0 + number)
    assert answer(tmp_path, "LRGA narrows").text == NOT_YET
    write(tmp_path, cells[-1], 64.0)
    assert "CLUSTER 100K: 4.00 without, 3.00 with (narrower)" in answer(tmp_path, "LRGA narrows").text


def test_generalisation_is_told_by_the_gap_between_training_and_test(tmp_path):
    write(tmp_path, cells_of("table3", model="gin", lrga=True)[0], 86.0, train=86.5)
    write(tmp_path, plain_counterpart("gin", lrga=True), 85.0, train=89.0)
    text = answer(tmp_path, "Random features").text
    assert "LRGA + GIN test 86.00 against 85.00, train − test +0.50 against +4.00" in text


def test_saturation_is_told_beside_rank_30(tmp_path):
    for cell in cells_of("rank"):
        rank = cell.config.model.rank
        write(tmp_path, cell, 60.0 + min(rank, 30) / 2 + (0.25 if rank == 190 else 0))
    found = answer(tmp_path, "Accuracy saturates")
    assert "60.00 at rank 0, 75.00 at 30, 75.25 at 190; best at 190" in found.text
    assert "From rank 0 to 30 it changes by +15.00, beyond by at most +0.25." in found.text
    assert found.complete


@pytest.mark.parametrize(
    ("beginning", "part", "sentence"),
    [
        ("What re-averaged", "norm", "75.00 (running norm), 76.00 (norm of 20 batches), paper 76.01"),
        ("One head", "heads", "75.00 (1 head of rank 30, paper 76.01), 76.00 (2 heads of rank 15)"),  # of one alone
    ],
)
def test_variants_stand_beside_each_other(beginning, part, sentence, tmp_path):
    cells = claim_cells(part, dataset="CLUSTER", lrga=True)
    write(tmp_path, cells[0], 75.0)
    assert answer(tmp_path, beginning).text == NOT_YET
    write(tmp_path, cells[1], 76.0)
    assert f"CLUSTER LRGA + GCN 500K: {sentence}." in answer(tmp_path, beginning).text


def test_cells_far_from_the_paper_are_listed(tmp_path):
    cells = cells_of("table1", dataset="CLUSTER", model="gcn", budget="100K")
    write(tmp_path, cells[0], 53.0)
    write(tmp_path, cells[1], 60.0)
    text = answer(tmp_path, "Cells of Tables 1 to 3").text
    assert text.startswith("1 of 2 cells run so far: CLUSTER LRGA + GCN 100K (-")


def test_the_same_network_with_and_without_noise_counts_twice(tmp_path):
    plain, noisy = (cells_of(table, model="gcn") for table in ("table1", "table3"))
    write(tmp_path, next(cell for cell in plain if cell.labels["budget"] == "500K"), 90.0)
    write(tmp_path, noisy[0], 90.0)
    text = answer(tmp_path, "Cells of Tables 1 to 3").text
    assert text.startswith("2 of 2 cells run so far: PATTERN GCN 500K (+")
    assert "PATTERN GCN 500K, noise (+" in text
