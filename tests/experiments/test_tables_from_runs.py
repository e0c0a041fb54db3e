"""Tables from records: means, pooled standard errors, what is missing, marks of generated data."""

import json
import math
from pathlib import Path

import pytest

from lrga.experiments.files import read_study
from lrga.experiments.loading import load_runs, table_of_runs
from lrga.experiments.records import write_record
from lrga.paper.protocols import cells_of, paper_config
from lrga.paper.reproduction import reproduction
from reproduction.ablations import PARTS, ablations
from tests.helpers.records import EPOCH, record_of

RESULTS = Path(__file__).resolve().parents[2] / "reproduction" / "results"


def write(folder, seed, test, *, dataset="CLUSTER", note="a new sample", status="finished", **options):
    config = paper_config(dataset, "gcn", seed=seed, **options)
    more = {"run": f"{dataset}-{seed}-{test}", "status": status, "best": EPOCH | {"test_metric": test + 1}}
    write_record(record_of(config, test=test, note=note, metric="weighted_accuracy", **more), folder)


def record_table(study, folders, **options):
    return table_of_runs(study.title, study.cells, load_runs(folders), **options)


def the_row(folder, **filters):
    return record_table(
        reproduction("table1", dataset="CLUSTER", model="gcn", budget="100K", **filters), [folder]
    ).rows[0]


def test_differences_are_counted_in_pooled_standard_errors(tmp_path):
    assert the_row(tmp_path, lrga=True).standard_errors is None
    write(tmp_path, 41, 68.0)
    one = the_row(tmp_path, lrga=True).standard_errors  # the deviation is the paper's: 0.16 over four seeds
    assert one == pytest.approx((68.0 - 68.44) / (0.16 * math.sqrt(1 + 1 / 4)))
    write(tmp_path, 95, 69.0)
    pooled = math.sqrt((1 * 0.5 + 3 * 0.16**2) / 4)
    assert the_row(tmp_path, lrga=True).standard_errors == pytest.approx(0.06 / (pooled * math.sqrt(1 / 2 + 1 / 4)))


def test_missing_paused_and_finished_cells_are_told_apart(tmp_path):
    write(tmp_path, 41, 68.0)
    write(tmp_path, 41, 50.0, lrga=False, status="time-limited")
    write(tmp_path, 41, 50.0, lrga=False, status="diverged", budget="500K")
    study = reproduction("table1", dataset="CLUSTER", model="gcn")
    table = record_table(study, [tmp_path])
    lines = table.to_markdown().splitlines()
    assert lines[2] == "| CLUSTER | GCN | 100K | paused |  | 53.44 ± 2.02 |  |  |  |"
    assert lines[3] == "| CLUSTER | LRGA + GCN | 100K | 68.00 † | 1 | 68.44 ± 0.16 | -0.44 | -2.5 | 60 |"
    assert lines[4].split(" | ")[3] == "diverged"
    assert lines[5].split(" | ")[3] == "not yet run"
    assert "- 1 of 4 cells have finished runs, 1 runs in all." in lines
    assert any(line.startswith("- † trained on generated data") for line in lines)
    values = json.loads(json.dumps(table.to_json()))
    assert (values["cells"], values["cells_done"]) == (4, 1)
    assert [row["state"] for row in values["rows"]] == ["paused", "done", "diverged", "not yet run"]
    assert values["rows"][1]["generated_data"] is True
    short = record_table(study, [tmp_path], done=True)
    assert (len(short.rows), short.done) == (1, (1, 4))
    assert max(map(len, table.to_text().splitlines())) <= 100


def test_a_table_of_one_pair_from_records_has_its_difference(tmp_path):
    for seed, gain in ((41, 1.0), (95, 1.5)):
        write(tmp_path, seed, 60.0, lrga=False)
        write(tmp_path, seed, 60.0 + gain)
    table = record_table(reproduction("table1", dataset="CLUSTER", model="gcn", budget="100K"), [tmp_path])
    assert table.notes[1].startswith("With LRGA, weighted accuracy (%) changes by +1.25 (95 % CI -1.93 to +4.43, 2")


def test_published_files_have_no_mark(tmp_path):
    write(tmp_path, 41, 68.0, note="")
    assert "†" not in record_table(reproduction("table1", dataset="CLUSTER", model="gcn"), [tmp_path]).to_markdown()


def test_a_note_on_a_split_is_no_mark_of_generated_data():
    study = read_study(RESULTS.parent / "past_the_paper.py", filters={"dataset": "Cora"})
    table = record_table(study, [RESULTS / "past"])
    assert (table.done[0] > 0, "†" in table.to_markdown()) == (True, False)


def test_claims_have_a_table_for_each_part_with_the_best_epoch_and_training(tmp_path):
    write(tmp_path, 41, 75.0, budget="500K", preset="2022")
    tables = [record_table(study, [tmp_path], detailed=True) for study in ablations()]
    assert [table.title for table in tables] == [part.question for part in PARTS.values()]
    heads = tables[0].to_markdown()
    assert "| CLUSTER | LRGA + GCN | 500K | 1 head of rank 30 | 75.00 † | 1 | 76.00 | 60.00 |" in heads
    assert "5 heads of rank 6 | not yet run" in heads
    assert record_table(*ablations("heads"), [tmp_path], detailed=True).to_markdown() == heads
    assert "No cell of 10" not in heads
    empty = record_table(reproduction("rank", preset="2022"), [tmp_path / "records"], done=True)
    assert (empty.done, len(empty.rows)) == ((1, 10), 1)  # rank 30 is the cell of Table 1


def test_every_table_can_be_made_of_nothing(tmp_path):
    for name in ("table1", "table2", "table3", "rank"):
        table = record_table(reproduction(name), [tmp_path])
        assert table.done == (0, len(cells_of(name)))
        assert table.to_markdown().count("not yet run") == len(cells_of(name))
        assert record_table(reproduction(name), [tmp_path], done=True).to_markdown().startswith("No cell of")


def test_seeds_that_are_asked_for_are_the_only_ones(tmp_path):
    for seed, value in ((41, 75.0), (95, 77.0), (7, 70.0)):
        write(tmp_path, seed, value, budget="500K")
    study = reproduction("table1", dataset="CLUSTER", model="gcn", budget="500k", lrga=True, seeds=[41, 95])
    assert "| 74.00 ± 3.61 † | 3 |" in record_table(study, [tmp_path]).to_markdown()
    assert "| 76.00 ± 1.41 † | 2 |" in record_table(study, [tmp_path], seeds=[41, 95]).to_markdown()


def test_a_run_that_diverged_is_said_in_the_short_table_too(tmp_path):
    write(tmp_path, 41, 75.0, budget="500K")
    write(tmp_path, 95, 20.0, budget="500K", status="diverged")
    study = reproduction("table1", dataset="CLUSTER", model="gcn", budget="500k", lrga=True)
    text = record_table(study, [tmp_path], done=True).to_markdown()
    assert "| 75.00 † | 1 |" in text
    assert "seed 95 diverged" in text
    assert "layers of preset" not in text
