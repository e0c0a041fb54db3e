"""Tables of text stay within 100 columns and show values as one would type them."""

from lrga.bench.display import label_columns, plain_text, slim_table, value_text


def test_values_are_shown_as_typed():
    shown = [value_text(v) for v in (None, True, 1e-4, 30, "B", {"sizes": 3})]
    assert shown == ["none", "true", "0.0001", "30", "B", "sizes=3"]


def test_labels_become_columns_and_missing_ones_are_none():
    table = slim_table("A title")
    rows = label_columns(table, [{"rank": 0, "dataset": "ZINC"}, {"rank": 30, "dropout": 0.5}])
    assert [column.header for column in table.columns] == ["κ", "data set", "dropout"]
    assert rows == [["0", "ZINC", "none"], ["30", "none", "0.5"]]
    assert table.columns[0].justify == "right"


def test_long_notes_and_cells_are_folded_at_100_columns():
    table = slim_table("A title")
    for row in label_columns(table, [{"name": "x" * 150}]):
        table.add_row(*row)
    text = plain_text(table, ["word " * 60])
    assert max(map(len, text.splitlines())) <= 100
    assert text.count("x") == 150
    assert text.count("word") == 60
    assert "\x1b" not in text
