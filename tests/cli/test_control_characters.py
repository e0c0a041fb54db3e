"""Names from files and folders cannot steer the terminal: control characters are written out."""

import json
import os
import sys
from pathlib import Path

import pytest

from lrga.errors import OptionError, visible
from tests.helpers.processes import Command

CLEAR = "\x1b[2J\x9b31m\x07"
NAME = f"evil{CLEAR}run"
SMALL = ["CLUSTER", "--sizes", "8,2,2", "--hidden", "8", "--layers", "1", "--batch-size", "4", "--device", "cpu"]


@pytest.fixture
def lrga(tmp_path, entry_point, monkeypatch):
    """Runs the command; what it prints would not steer a terminal."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("LRGA_DATA", str(tmp_path / "data"))

    def run(*arguments):
        done = entry_point(*arguments)
        assert not set(CLEAR) & set(done.stdout + done.stderr) - set("[2J31m"), done.stdout + done.stderr
        return done

    return run


def test_a_run_folder_with_such_a_name(tmp_path, lrga):
    done = lrga("train", *SMALL, "--epochs", "1", "--run-name", NAME)
    assert done.returncode == 0
    assert "evil\\x1b[2J" in done.stdout
    assert "evil\\x1b[2J" in done.stderr  # of the progress
    folder = tmp_path / "runs" / NAME
    for command in (
        ["train", "--resume", folder],
        ["report", folder, "-o", f"{NAME}.html"],
        ["plot", "curves", folder, "-o", f"{NAME}.png"],
        ["predict", folder, "CLUSTER/test", "-o", f"{NAME}.csv"],
    ):
        assert lrga(*command).returncode == 0
    (folder / "result.json").write_text("null")
    assert "Error:" in lrga("train", "--resume", folder).stderr


@pytest.mark.skipif(sys.platform != "linux", reason="file names of any bytes")
def test_a_name_that_is_not_utf_8(tmp_path, lrga):
    own = tmp_path / os.fsdecode(b"own\xff")
    own.mkdir()
    (own / "nodes.csv").write_text("node,x,y\n" + "".join(f"{n},{n / 4},{n % 2}\n" for n in range(20)))
    (own / "edges.csv").write_text("source,target\n" + "".join(f"{n},{n + 1}\n{n + 1},{n}\n" for n in range(19)))
    command = ["train", own.name, "--hidden", "8", "--layers", "1", "--epochs", "1", "--run-name", own.name]
    with Command(*command) as process:  # its stdout refuses what is not UTF-8, as that of a terminal
        printed, said = process.communicate(timeout=120)
        assert process.returncode == 0, said
    assert "own\\udcff" in printed
    folder = tmp_path / "runs" / own.name
    for command in (
        ["train", "--resume", folder, "--epochs", "2"],
        ["report", folder, "-o", f"{own.name}.html"],
        ["predict", folder, own.name, "-o", f"{own.name}.csv"],
    ):
        done = lrga(*command)
        assert done.returncode == 0, done.stderr


def test_a_record_with_such_a_name(tmp_path, lrga):
    records = Path(__file__).resolve().parents[2] / "reproduction" / "results" / "table1"
    record = json.loads(min(records.glob("*.json")).read_text(encoding="utf-8"))
    record |= {"run": NAME, "status": "failed", "reason": NAME}
    (tmp_path / "records").mkdir()
    (tmp_path / "records" / "a.json").write_text(json.dumps(record))
    for command in (["report", "records"], ["reproduce", "table", "table1", "records"]):
        lrga(*command)


def test_own_data_with_such_names(tmp_path, lrga):
    nodes = "".join(f"{n},{n / 4},{CLEAR}{'ab'[n % 2]}\n" for n in range(20))
    (tmp_path / "nodes.csv").write_text(f"node,x{CLEAR},y\n" + nodes, encoding="utf-8")
    (tmp_path / "edges.csv").write_text("source,target\n0,1\n1,0\n")
    assert "x\\x1b[2J" in lrga("train", ".", "--dry-run").stderr


def test_graph_files_with_such_names(tmp_path, lrga):
    (tmp_path / f"{NAME}.txt").write_text("a b\n")
    assert "evil\\x1b[2J" in lrga("wl", f"{NAME}.txt", f"{NAME}.txt").stdout


def test_errors_write_them_out():
    assert str(OptionError(NAME, "b", "c")) == "expected evil\\x1b[2J\\x9b31m\\x07run, got b. To fix: c."
    assert visible("a\tb\nc ä ± 漢") == "a\tb\nc ä ± 漢"
