"""Several processes make the runs of a campaign, each run once, and end with the records of one process."""

import multiprocessing
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from lrga.errors import DataMissingError, DTypeError, OptionError
from lrga.experiments.campaign import Campaign
from lrga.experiments.records import read_records
from lrga.experiments.workers import run_side_by_side
from lrga.paper.protocols import table1
from lrga.training.runs.run import PAUSED
from tests.helpers.processes import CONTEXT

NUMBERS = ("train_loss", "train_metric", "val_loss", "val_metric", "test_loss", "test_metric", "lr")


def children(number):
    """Processes of a campaign's own, where the system tells them."""
    known = Path(f"/proc/{number}/task/{number}/children")
    found = known.read_text().split() if known.is_file() else []
    return [int(child) for child in found if b"spawn_main" in Path(f"/proc/{child}/cmdline").read_bytes()]


def numbers(folder):
    return {record.run: [record.last[key] for key in NUMBERS] for record in read_records(folder) if record.last}


@pytest.mark.parametrize("processes", [0, -1, True, 2.5])
def test_a_number_of_processes_that_is_none_is_refused(processes, tiny, tmp_path):
    with pytest.raises((OptionError, DTypeError), match="processes"):
        run_side_by_side([table1("CLUSTER", seeds=[41], **tiny)], tmp_path, processes=processes)


def test_what_is_wrong_for_all_is_said_before_anything_starts(tiny, tmp_path):
    cell = table1("ZINC", seeds=[41], **tiny | {"source": str(tmp_path / "nothing"), "root": str(tmp_path)})
    with pytest.raises(DataMissingError):
        run_side_by_side([cell], tmp_path / "runs", processes=2)


def stop_a_command(tiny, folder):
    """Starts the campaign as a command and signals it, and its processes, once a run has begun."""
    command = ["reproduce", "run", "table1", "--dataset", "CLUSTER", "--model", "gcn", "--budget", "100k"]
    command += ["--seeds", "41,95", "--epochs", "30", "--batch-size", "4", "--device", "cpu", "--sizes", "8,4,4"]
    command += ["--set", "hidden=8", "--set", "layers=1", "--data-root", tiny["root"]]
    command += ["--parallel", "2", "--output", str(folder)]
    process = subprocess.Popen(
        [sys.executable, "-m", "lrga", *command], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    deadline = time.monotonic() + 120
    while not any(path.stat().st_size for path in folder.glob("*/metrics.jsonl")) and time.monotonic() < deadline:
        time.sleep(0.02)
    for number in [process.pid, *children(process.pid)]:  # as SLURM does, whose srun signals all processes of a step
        os.kill(number, signal.SIGUSR1)
    table, said = process.communicate(timeout=120)
    assert process.returncode == PAUSED, said
    assert "LRGA + GCN" in table
    assert "Stopped after checkpoints. Run the same command to resume." in said
    assert "Traceback" not in said


@pytest.mark.parametrize("signalled", [False, pytest.param(True, marks=pytest.mark.slow)])
def test_side_by_side_slots_and_a_signal_end_with_the_records_of_an_undisturbed_campaign(
    tiny, tmp_path, capfd, monkeypatch, signalled
):
    """Two processes in a slot that is over at once, perhaps a command that a batch system stops, then the rest."""
    tiny |= {"max_epochs": 30}
    broken = table1("CLUSTER", "gat", seeds=[41], **tiny | {"heads": 3, "layers": 2, "max_epochs": 1})
    cells = [broken, *(table1("CLUSTER", lrga=lrga, seeds=[41, 95], **tiny) for lrga in (False, True))]
    Campaign(cells[1:], tmp_path / "one").run()
    folder = tmp_path / "many"
    run_side_by_side(cells, folder, processes=2, time_limit=1e-6)
    assert not read_records(folder)
    if signalled:
        stop_a_command(tiny, folder)
    else:
        monkeypatch.setattr(multiprocessing, "get_context", lambda method: CONTEXT)  # started faster
    run_side_by_side(cells, folder, processes=2)
    records = read_records(folder)
    assert {record.status for record in records} == {"finished", "failed"}
    assert len(list((folder / "records").glob("*gat*"))) <= 2  # not again and again
    assert numbers(folder) == numbers(tmp_path / "one")
    assert "skipped" not in capfd.readouterr().err


@pytest.mark.slow
def test_processes_end_with_their_parent(tiny, tmp_path):
    if not hasattr(os, "setpgrp"):
        pytest.skip("process groups are POSIX's")
    tiny |= {"max_epochs": 100_000}
    code = (
        "from lrga.paper.protocols import table1\nfrom lrga.experiments.workers import run_side_by_side\n"
        "if __name__ == '__main__':\n"
        f"    run_side_by_side([table1('CLUSTER', seeds=[41], **{tiny!r})], {str(tmp_path)!r}, processes=1)\n"
    )
    (tmp_path / "script.py").write_text(code)
    process = subprocess.Popen([sys.executable, str(tmp_path / "script.py")], stderr=subprocess.DEVNULL)
    deadline = time.monotonic() + 60
    while not (lines := list(tmp_path.glob("*/metrics.jsonl"))) and time.monotonic() < deadline:
        time.sleep(0.05)
    process.kill()
    process.wait()
    cell = table1("CLUSTER", seeds=[41], **tiny)
    while Campaign([cell], tmp_path)._in_use(lines[0].parent.name) and time.monotonic() < deadline:
        time.sleep(0.1)
    assert not Campaign([cell], tmp_path)._in_use(lines[0].parent.name)
    assert list(lines[0].parent.glob("checkpoints/*"))
