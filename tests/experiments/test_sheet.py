"""On a narrow terminal a table moves columns above its rows; it cuts and breaks nothing."""

from io import StringIO

import pytest
from rich.console import Console

from lrga.experiments.sheet import Sheet, columns_above, value_text

ROWS = [
    ("CLUSTER", "GCN", "100K", "53.44 ± 2.02", "101,655"),
    ("CLUSTER", "LRGA + GCN", "100K", "68.44 ± 0.16", "91,131"),
    ("ZINC", "GCN", "100K", "0.459 ± 0.006", ""),
]


def lines_at(width, rows=ROWS):
    headings = ("data set", "model", "budget", "ours", "params")
    table = Sheet(title="A title", columns=tuple((heading, False) for heading in headings), rows=tuple(rows))
    file = StringIO()
    Console(file=file, width=width, color_system=None).print(table)
    return [line.rstrip() for line in file.getvalue().splitlines()]


def test_a_table_that_fits_is_printed_as_it_is():
    assert lines_at(80)[1].split() == ["data", "set", "model", "budget", "ours", "params"]
    assert lines_at(80)[3] == "CLUSTER   GCN         100K    53.44 ± 2.02   101,655"
    assert len(lines_at(80)) == 3 + len(ROWS)


def test_what_changes_least_goes_above_first():
    lines = lines_at(45)
    assert lines[1].split() == ["data", "set", "model", "ours", "params"]
    assert lines[3] == "budget: 100K"
    assert len(lines) == 4 + len(ROWS)


def test_a_line_is_said_again_when_it_changes_and_the_columns_stay_aligned():
    lines = lines_at(36)
    assert [line for line in lines if line.startswith("data set")] == [
        "data set: CLUSTER, budget: 100K",
        "data set: ZINC, budget: 100K",
    ]
    assert lines[1].index("ours") == lines[4].index("53.44") == lines[-1].index("0.459")


@pytest.mark.parametrize("width", [14, 20, 30, 40, 60, 80])
def test_every_entry_is_whole_at_any_width(width):
    lines = lines_at(width)
    assert max(map(len, lines)) <= width
    words = " ".join(lines).replace(",  ", ", ")
    for row in ROWS:
        for entry in row:
            assert entry in words


def test_entries_are_text_dashes_where_empty_and_folded_whole_and_one_column_always_stays():
    rows = [("ZINC", "GCN", "100K", "0.459", ""), ("TSP", "GAT", "500K", "0.671", "")]
    assert lines_at(30, rows)[3] == "params: –"
    assert any("my[bold]graphs" in line for line in lines_at(80, [("my[bold]graphs", "GCN", "100K", "1", "2")]))
    assert "".join(lines_at(30, [("x" * 70, "GCN", "100K", "1", "2")])).count("x") == 70
    assert columns_above([50], [["a"]], 10) == []
    assert columns_above([50, 60], [["a"], ["b"]], 10) == [0]


def test_results_stay_beside_their_row_while_another_column_can_go():
    entries = [["GCN", "GAT"], ["16.67", "16.67"], ["1.5", "2.5"]]
    assert columns_above([5, 5, 5], entries, 12) == [1]
    assert columns_above([5, 5, 5], entries, 12, late=[1]) == [0]
    assert columns_above([5, 5, 5], entries, 5, late=[1]) == [0, 2]


def test_values_are_shown_as_typed():
    shown = [value_text(v) for v in (None, True, 1e-4, 30, "B", {"sizes": 3})]
    assert shown == ["none", "true", "0.0001", "30", "B", "sizes=3"]


def test_labels_become_columns_and_numbers_stand_right():
    sheet = Sheet.of("A title", [{"rank": 0, "dataset": "ZINC"}, {"rank": 30, "dropout": 0.5}], ["n"], [["1"], ["2"]])
    assert sheet.columns == (("κ", True), ("data set", False), ("dropout", False), ("n", True))
    assert sheet.rows == (("0", "ZINC", "", "1"), ("30", "", "0.5", "2"))


def test_long_notes_and_cells_are_folded_at_100_columns():
    sheet = Sheet.of("A title", [{"name": "x" * 150}], [], [[]], notes=("word " * 60,))
    text = sheet.to_text()
    assert max(map(len, text.splitlines())) <= 100
    assert (text.count("x"), text.count("word")) == (150, 60)
    assert "\x1b" not in text


def test_markup_of_every_form_is_escaped():
    sheet = Sheet(title="", columns=(("a", False),), rows=(("50 % | <b> & _x_",),), notes=("a | b",))
    assert "| 50 % \\| &lt;b> & _x_ |" in sheet.to_markdown()
    assert "50 \\% \\textbar{} \\textless{}b\\textgreater{} \\& \\_x\\_" in sheet.to_latex()


def test_a_wide_column_and_those_right_of_it_are_printed_below_their_row():
    sheet = Sheet(
        title="A title",
        columns=(("cell", False), ("n", True), ("reason", False), ("closest", False)),
        rows=(("GCN", "1", "word " * 12 + "end", "none"), ("GAT", "2", "text " * 12 + "end", "x" * 20)),
    )
    file = StringIO()
    Console(file=file, width=60).print(sheet)
    lines = [line.strip() for line in file.getvalue().splitlines()]
    assert lines[1].split() == ["cell", "n", "closest"]
    assert lines[3].split() == ["GCN", "1", "none"]
    assert lines[4].startswith("reason: word word")
    assert lines[5].endswith("end")
    assert lines[6].split() == ["GAT", "2", "x" * 20]


def test_a_wide_value_that_all_rows_share_is_printed_once():
    lines = lines_at(60, [("/long/path" * 8, "GCN", "100K", "1", "2"), ("/long/path" * 8, "GAT", "100K", "3", "4")])
    assert "".join(lines).count("/long/path" * 3) == 2  # folded once
    assert lines[-2].startswith("GCN")
