"""The paper's experiments run end to end, at a size that fits a test, through the public interface."""

import pytest

import lrga
from lrga.paper.reproduction import reproduction


@pytest.mark.parametrize(
    ("experiment", "filters"),
    [
        ("table1", {"dataset": "cluster", "model": "gatedgcn", "budget": "100k"}),
        ("table3", {"model": "sage", "lrga": True}),
        ("rank", {"rank": 2}),
    ],
)
def test_an_experiment_runs_and_stands_beside_the_paper(experiment, filters, tiny, tmp_path):
    table = lrga.paper.reproduce(experiment, seeds=[41, 95], output=tmp_path, progress=False, **filters, **tiny)
    assert table.complete
    assert all(row.spread().n == 2 for row in table.rows)
    for row in table.to_json()["rows"]:
        if row["published"] is not None:
            assert row["difference"] == row["mean"] - row["published"]["mean"]
    assert any(note.startswith("Not the published protocol") for note in table.notes)
    assert any("new sample" in note for note in table.notes)


def test_without_options_it_is_the_papers_protocol():
    study = reproduction("table1")
    assert not any(cell.deviations() for cell in study.cells)
    assert sum(len(cell.seeds) for cell in study.cells) == 66 * 4


def test_the_rank_ablation_shares_its_run_of_rank_30_with_table_1(tiny, tmp_path):
    lrga.paper.reproduce("rank", rank=30, seeds=[41], output=tmp_path, progress=False, **tiny)
    table = reproduction("table1", dataset="CLUSTER", model="gcn", budget="500k", lrga=True, seeds=[41], **tiny)
    assert table.table(tmp_path).complete
