import json

import pytest

from lrga.errors import OptionError
from tests.helpers.campaigns import TINY
from tests.helpers.commands import lrga


def test_both_networks_stand_in_one_table_and_the_second_time_nothing_is_trained(places):
    first = lrga("compare", "cluster", *TINY, *places)
    lines = first.stdout.splitlines()
    assert max(map(len, lines)) <= 100
    assert any(line.startswith("CLUSTER   LRGA + GCN") for line in lines)
    assert "new sample" in " ".join(first.stdout.split())
    again = lrga("compare", "cluster", *TINY, *places)
    assert again.stdout == first.stdout
    assert again.stderr.count("already finished, skipped") == 2


def test_seeds_are_taken_with_blanks(places):
    result = lrga("compare", "CLUSTER", "--seeds", "41", "95", "--json", "--quiet", *TINY, *places)
    rows = json.loads(result.stdout)["rows"]
    assert [[run["seed"] for run in row["runs"]] for row in rows] == [[41, 95]] * 2
    assert result.stderr == ""


def test_a_dry_run_trains_nothing(places, tmp_path):
    result = lrga("compare", "ZINC", "--model", "gatedgcn", "--dry-run", "--json", *places)
    assert [row["parameters"] for row in json.loads(result.stdout)["cells"]] == [105_875, 94_457]
    assert list(tmp_path.iterdir()) == []


def test_a_failed_run_is_in_the_table_and_in_the_exit_code(places):
    bad = ["--model", "gat", "--set", "heads=3", "--set", "layers=2", *[a for a in TINY if a != "layers=1"][:-1]]
    result = lrga("compare", "CLUSTER", *bad, *places, code=1)
    assert "failed" in result.stdout
    assert "a multiple of heads=3" in result.stdout.replace("\n", " ")


def test_left_over_arguments_and_unknown_options_are_refused(places):
    cases = (
        (["CLUSTER", "ZINC"], "left over"),
        (["ZINC", "--set", "depth=3"], "one of"),
        (["ZINC", "--set", "seed=3"], "seed"),
    )
    for arguments, message in cases:
        with pytest.raises(OptionError, match=message):
            lrga("compare", *arguments, *places)
