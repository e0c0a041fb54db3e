"""Below a table stands what keeps its numbers from being comparable."""

from dataclasses import replace
from pathlib import Path

from lrga.bench.gathering import gather_records, rows_of
from lrga.bench.notes import notes_of
from lrga.bench.protocols import table1
from lrga.bench.reproduction import reproduction
from lrga.bench.runner import Outcome
from lrga.data.datasets.spec import spec_of

RESULTS = Path(__file__).resolve().parents[2] / "results"


def pending(cell):
    return [Outcome(name=f"r{c.run.seed}", config=c, status="pending") for c in cell.runs()]


def test_a_regenerated_set_is_said_to_be_a_fresh_draw():
    notes = notes_of([table1("PATTERN"), table1("CLUSTER"), table1("CLUSTER", lrga=False), table1("ZINC")], [])
    fresh = [note for note in notes if "fresh draw" in note]
    assert fresh == [f"{name}: {spec_of(name).note}" for name in ("PATTERN", "CLUSTER")]


def test_graphs_that_were_rebuilt_are_told_by_their_checksum():
    cell = reproduction("table1", dataset="ZINC", model="gat", lrga=False, budget="100k").cells[0]
    (row,) = rows_of([cell], gather_records([RESULTS / "table1"]))
    assert any("ZINC: validation and test are the published graphs" in note for note in notes_of([cell], row.outcomes))
    others = [
        replace(outcome, record=replace(outcome.record, data=outcome.record.data | {"sha256": "0" * 64}))
        for outcome in row.outcomes
        if outcome.record is not None
    ]
    assert others
    assert not any("published graphs" in note for note in notes_of([cell], others))


def test_preset_reading_and_norm_statistics_are_named():
    plain = notes_of([table1("ZINC", lrga=False, preset="2020")], [])[0]
    assert "preset 2020" in plain
    assert "reading" not in plain
    assert "BatchNorm" not in plain
    mixed = notes_of([table1("ZINC", reading="A"), table1("ZINC", recalibrate_norm=20)], [])[0]
    assert "LRGA in reading A, B" in mixed
    assert "over 0, 20 batches" in mixed


def test_changes_of_the_protocol_are_listed_once():
    changes = {"max_epochs": 2, "data_options": {"sizes": (1500, 250, 250)}}
    notes = notes_of([table1("CLUSTER", lrga=lrga, **changes) for lrga in (False, True)], [])
    assert "Not the paper's protocol: data sizes 1,500/250/250; max_epochs 2 (paper 1000)." in notes
    assert not any("Not the paper" in note for note in notes_of([table1("CLUSTER")], []))


def test_what_is_not_done_is_said_and_how_to_go_on():
    cell = table1("ZINC", seeds=[1, 2, 3])
    first, second, third = pending(cell)
    notes = notes_of([cell], [replace(first, status="finished"), second, replace(third, status="busy")])
    assert "1 of 3 runs are done, 1 not begun; the same command continues." in notes
    assert any("seed 3: another process trains it" in note for note in notes)


def test_a_run_that_was_stopped_before_it_had_a_record_is_not_called_unbegun():
    cell = table1("ZINC", seeds=[1, 2, 3])
    first, second, third = pending(cell)
    notes = notes_of([cell], [replace(first, begun=True), second, third])
    assert "0 of 3 runs are done, 2 not begun; the same command continues." in notes
    assert any("seed 1: stopped on its way; the same command continues it" in note for note in notes)
    assert not any("not begun" in note or "stopped" in note for note in notes_of([cell], [first, second, third]))
