import sys
from dataclasses import replace
from pathlib import Path

import pytest

from lrga.errors import OptionError
from lrga.experiments.campaign import Campaign
from lrga.experiments.sweeps import sweep_of
from lrga.experiments.table import table_of
from lrga.paper.link_protocols import GRID, LINK_SEEDS, cells_of_table2, table2
from lrga.paper.protocols import cells_of
from lrga.paper.reproduction import reproduction

sys.path.insert(0, str(Path(__file__).parents[1] / "training"))
from link_graphs import communities


def test_table_2_has_all_18_cells_with_their_printed_numbers():
    cells = cells_of("table2")
    assert len(cells) == 18
    assert len({(c.labels["dataset"], c.labels["model"]) for c in cells}) == 18
    assert all(cell.published is not None and cell.published.table == 2 for cell in cells)
    assert all(cell.seeds == LINK_SEEDS and not cell.deviations() for cell in cells)
    best = next(c for c in cells if c.labels == {"dataset": "ogbl-ddi", "model": "LRGA + GCN"})
    assert (best.published.mean, best.published.std) == (0.623, 0.091)


@pytest.mark.parametrize(
    ("filters", "models"),
    [
        ({"dataset": "ddi", "lrga": True}, ["LRGA + GCN"]),
        ({"dataset": "ogbl-ddi", "model": "gcn"}, ["GCN", "LRGA + GCN"]),
        ({"dataset": "ogbl-ddi", "model": "Node2Vec"}, ["Node2Vec"]),
        ({"dataset": "ogbl-ddi", "model": "sage"}, ["GraphSAGE"]),
        ({"dataset": "ogbl-ddi", "model": "gin"}, ["GIN", "LRGA + GIN"]),
        ({"dataset": "ogbl-ddi", "model": "sage", "lrga": True}, ["LRGA + GraphSAGE"]),
    ],
)
def test_filters(filters, models):
    assert [cell.labels["model"] for cell in cells_of_table2(**filters)] == models


@pytest.mark.parametrize("wrong", [{"dataset": "ZINC"}, {"model": "transformer"}, {"model": "mf", "lrga": True}])
def test_what_the_table_lacks_is_refused(wrong):
    with pytest.raises(OptionError):
        cells_of_table2(**wrong)
    with pytest.raises(OptionError, match="budget"):
        cells_of("table2", budget="100K")


def test_changes_of_the_protocol_and_the_metric_are_told():
    cell = table2("ogbl-collab", validation_edges=True, rank=50, skip=False)
    assert cell.deviations() == {"validation_edges": (True, False), "rank": (50, 100), "skip": (False, True)}
    assert cell.published is None  # the number is of another network
    assert table2("ogbl-ddi", lr=0.1).published.mean == 0.623
    assert table2("ogbl-ddi", metric="mrr").published is None
    assert table2("ogbl-ddi", metric="Hits@20").published.mean == 0.623


def test_the_authors_grid_is_six_points():
    study = sweep_of("ogbl-ddi", GRID)
    points = [(c.config.model.rank, c.config.model.hidden) for c in study.cells]
    assert points == [(25, 150), (25, 256), (50, 150), (50, 256), (100, 150), (100, 256)]


def test_a_campaign_leaves_one_record_per_run_and_resumes(tmp_path):
    study = reproduction(
        "table2", dataset="ogbl-ddi", model="gcn", seeds=[1, 2], hidden=8, rank=2, max_epochs=2, device="cpu",
        validation_edges=True,
    )  # fmt: skip
    data = communities()
    outcomes = Campaign(study.cells, tmp_path, data=data).run()
    assert [outcome.status for outcome in outcomes] == ["finished"] * 4
    assert len(list((tmp_path / "records").glob("*.json"))) == 4
    record = outcomes[-1].record
    assert record.test == record.best["test_metric"]
    assert record.config["link"]["validation_edges"] is True
    assert (record.config["model"]["rank"], record.config["link"]["skip"]) == (2, False)
    assert record.published is None  # the paper's network is wider
    again = Campaign(study.cells, tmp_path, data=data).run()
    assert not any(outcome.fresh for outcome in again)
    table = table_of(study.title, study.cells, again)
    assert table.rows[1].spread().mean == pytest.approx(sum(o.record.test for o in again[2:]) / 2)
    notes = " ".join(table.notes)
    assert "validation edges used in the test, predictor hadamard, negatives no_edge" in notes
    assert "not the published" not in notes
    note = "not the published set: nodes 60 (published 4,267)"
    other = [replace(o, record=replace(o.record, data=o.record.data | {"note": note})) for o in again]
    assert table_of(study.title, study.cells, other).notes.count(f"ogbl-ddi: {note}.") == 1
    assert "rank 2 (published 50)" in notes
    assert table.to_json()["rows"][0]["model"] == "GCN"


def test_an_option_goes_to_the_rows_that_read_it_and_one_that_none_reads_is_refused():
    cells = cells_of_table2(dataset="ogbl-ddi", rank=25, walk_epochs=3)
    ranks = {cell.labels["model"]: (cell.config.model.rank, cell.config.link.walk_epochs) for cell in cells}
    assert ranks["LRGA + GCN"] == (25, 2)
    assert ranks["Node2Vec"] == (50, 3)
    with pytest.raises(OptionError, match="rank"):
        cells_of_table2(dataset="ogbl-ddi", model="mf", rank=25)
