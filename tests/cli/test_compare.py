import json

from typer.testing import CliRunner

from lrga.cli.main import app
from lrga.errors import OptionError
from tests.helpers.campaigns import TINY

runner = CliRunner()


def test_both_networks_stand_in_one_table_and_the_second_time_nothing_is_trained(places):
    first = runner.invoke(app, ["compare", "cluster", *TINY, *places])
    assert first.exit_code == 0, first.output
    lines = first.stdout.splitlines()
    assert max(map(len, lines)) <= 100
    assert any(line.startswith("CLUSTER   LRGA + GCN") for line in lines)
    assert "new sample" in " ".join(first.stdout.split())
    again = runner.invoke(app, ["compare", "cluster", *TINY, *places])
    assert again.stdout == first.stdout
    assert again.stderr.count("already finished, skipped") == 2


def test_seeds_are_taken_with_blanks(places):
    result = runner.invoke(app, ["compare", "CLUSTER", "--seeds", "41", "95", "--json", "--quiet", *TINY, *places])
    assert result.exit_code == 0, result.output
    rows = json.loads(result.stdout)["rows"]
    assert [[run["seed"] for run in row["runs"]] for row in rows] == [[41, 95]] * 2
    assert result.stderr == ""


def test_a_dry_run_trains_nothing(places, tmp_path):
    result = runner.invoke(app, ["compare", "ZINC", "--model", "gatedgcn", "--dry-run", "--json", *places])
    assert result.exit_code == 0
    assert [row["parameters"] for row in json.loads(result.stdout)["cells"]] == [105_875, 94_457]
    assert list(tmp_path.iterdir()) == []


def test_a_failed_run_is_in_the_table_and_in_the_exit_code(places):
    bad = ["--model", "gat", "--set", "heads=3", "--set", "layers=2", *[a for a in TINY if a != "layers=1"][:-1]]
    result = runner.invoke(app, ["compare", "CLUSTER", *bad, *places])
    assert result.exit_code == 1
    assert "failed" in result.stdout
    assert "a multiple of heads=3" in result.stdout.replace("\n", " ")


def test_left_over_arguments_and_unknown_options_are_refused(places):
    cases = (
        (["CLUSTER", "ZINC"], "left over"),
        (["ZINC", "--set", "depth=3"], "one of"),
        (["ZINC", "--set", "seed=3"], "seed"),
    )
    for arguments, message in cases:
        result = runner.invoke(app, ["compare", *arguments, *places])
        assert isinstance(result.exception, OptionError)
        assert message in str(result.exception)
