"""How the commands print."""

import sys

from lrga.cli.tables import facts_table, stdout


def test_facts_are_printed_side_by_side_without_markup(capsys):
    stdout().print(facts_table({"[a]": "[bold]1", "b": "2"}))
    lines = [line.split() for line in capsys.readouterr().out.splitlines()]
    assert lines == [["[a]", "[bold]1"], ["b", "2"]]


def test_a_pipe_has_a_hundred_columns():
    assert not sys.stdout.isatty()
    assert stdout().width == 100
