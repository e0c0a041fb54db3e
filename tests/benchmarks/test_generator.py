"""The benchmark of the generator measures nothing wrong, and the page says what its record says."""

import json
import re
from pathlib import Path

import generator
import pytest
import torch

ROOT = Path(__file__).resolve().parents[2]


def test_a_graph_is_counted_and_timed(capsys):
    generator.child(generator.OURS, 3000, 20)
    row = json.loads(capsys.readouterr().out)
    assert row["edges"] == 60_000
    assert row["peak_bytes"] > 50e6


@pytest.mark.slow
def test_each_graph_is_made_by_a_process_of_its_own():
    row = generator.measure(generator.OURS, 3000, 20, 1)
    assert row["edges"] == 60_000
    assert row["seconds"] >= 0
    assert row["peak_bytes"] > 50e6


def test_a_wrong_graph_is_not_timed(monkeypatch):
    generator.check(nodes=500)
    loops = torch.arange(500 * 20) % 500
    monkeypatch.setitem(generator.MAKERS, generator.OURS, lambda nodes, per_node: torch.stack([loops, loops]))
    with pytest.raises(SystemExit, match="loops"):
        generator.check(nodes=500)


def test_the_page_says_what_the_record_says():
    record = json.loads((ROOT / "reproduction" / "results" / "speed" / "generator-cpu.json").read_text())
    ours, plain = record["rows"]
    assert (ours["nodes"], record["settings"]["edges_per_node"]) == (10_000_000, 20)
    assert ours["edges"] == 200_000_000
    assert ours["reached"]
    assert ours["seconds"] < 120
    assert ours["peak_bytes"] < 8e9
    page = " ".join((ROOT / "docs" / "results" / "scale.md").read_text().split())
    found = re.search(r"\| `synthetic_edges` \| (\d+) \| ([\d.]+) \|.*?`torch.unique` \| (\d+) \| ([\d.]+) \|", page)
    said = [float(number) for number in found.groups()]
    expected = [ours["seconds"], ours["peak_bytes"] / 1e9, plain["seconds"], plain["peak_bytes"] / 1e9]
    assert said == [round(expected[0]), round(expected[1], 1), round(expected[2]), round(expected[3], 1)]
