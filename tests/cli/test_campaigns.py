"""What the commands that run campaigns share."""

import json
from pathlib import Path

import pytest

from lrga.bench.comparison import comparison
from lrga.cli.campaigns import carry_out, data_options, show, training_options
from lrga.errors import OptionError

TINY = {"hidden": 8, "layers": 1, "max_epochs": 1, "batch_size": 4, "device": "cpu"}


@pytest.fixture
def study(tmp_path):
    return comparison("CLUSTER", root=str(tmp_path / "data"), data_options={"sizes": (8, 4, 4)}, **TINY)


def test_options_left_out_are_left_to_the_protocol():
    found = training_options(
        settings=["lr=0.1"], data_root=Path("there"), source=None, max_epochs=3, preset=None
    )  # fmt: skip
    assert found == {"max_epochs": 3, "root": "there", "lr": 0.1}
    assert data_options(sizes="3,2,1", seed=None)["sizes"] == (3, 2, 1)
    assert data_options(sizes=None, seed=5, split="0.8,0.1,0.1")["split"] == (0.8, 0.1, 0.1)
    with pytest.raises(OptionError, match="lr once"):
        training_options(settings=["lr=0.1"], data_root=None, source=None, lr=0.2)


def test_json_is_all_of_stdout(study, tmp_path, capsys):
    carry_out(study, tmp_path, time_limit=None, retry=False, dry_run=False, quiet=False, as_json=True)
    printed = capsys.readouterr()
    assert json.loads(printed.out)["complete"]
    assert "[2/2] LRGA + GCN" in printed.err


def test_tables_are_printed_with_their_notes(study, tmp_path, capsys):
    show(study.plan(tmp_path), as_json=False)
    printed = capsys.readouterr().out
    assert "2 runs: 2 pending." in printed
    assert max(map(len, printed.splitlines())) <= 100
