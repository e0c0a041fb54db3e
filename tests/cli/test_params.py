import json

import pytest

from lrga.errors import OptionError
from tests.helpers.commands import lrga

KEYS = ["dataset", "model", "budget", "lrga", "hidden", "layers", "rank", "parameters", "printed"]


def test_json_lists_objects_with_the_agreed_keys_and_filters_reach_the_table():
    result = lrga("params", "--json", "--dataset", "zinc")
    rows = json.loads(result.stdout)
    assert len(rows) == 12
    assert all(list(row) == KEYS for row in rows)
    row = next(r for r in rows if r["model"] == "GatedGCN" and r["lrga"] and r["budget"] == "500K")
    assert row == dict(zip(KEYS, ["ZINC", "GatedGCN", "500K", True, 60, 12, 30, 446_311, "446K"], strict=True))
    result = lrga("params", "--model", "gat", "--budget", "100k", "--no-lrga", "--json")
    rows = json.loads(result.stdout)
    assert {(r["model"], r["budget"], r["lrga"]) for r in rows} == {("GAT", "100K", False)}
    assert len(rows) == 6


def test_table_fits_a_terminal_and_names_every_model(monkeypatch):
    monkeypatch.setenv("COLUMNS", "100")
    result = lrga("params")
    lines = result.stdout.splitlines()
    assert max(map(len, lines)) <= 100
    assert "…" not in result.stdout
    assert any("LRGA + GatedGCN" in line and "437,635" in line and "438K" in line for line in lines)
    assert any("147,661,825" in line for line in lines)


def test_an_unknown_data_set_is_an_error_with_the_choices():
    with pytest.raises(OptionError, match="ogbl-ddi"):
        lrga("params", "--dataset", "cora")
