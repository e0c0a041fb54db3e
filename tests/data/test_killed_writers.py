"""Temporary files of writers that were killed are deleted by the next one; those of others are left alone."""

import os
import subprocess
import sys
import threading

import pytest

from lrga.io.files import atomic_path, write_bytes
from lrga.training.predict import write_table
from lrga.training.runs.folder import RunFolder

pytestmark = pytest.mark.skipif(os.name != "posix", reason="looks for processes as POSIX systems do")

WRITE = """
import os, signal, sys
from pathlib import Path
from lrga.io.files import atomic_path
with atomic_path(Path(sys.argv[1])) as temporary:
    temporary.write_text("half")
    if sys.argv[2] == "killed":
        os.kill(os.getpid(), signal.SIGKILL)
    print("writing", flush=True)
    sys.stdin.read()
    raise SystemExit
"""


def start_writer(path, how):
    command = [sys.executable, "-c", WRITE, str(path), how]
    return subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)


def left_over(folder):
    return [path for path in folder.iterdir() if path.name.endswith(".tmp")]


WRITERS = {
    "write_bytes": lambda path: write_bytes(path, b"whole"),
    "predict": lambda path: write_table(["a"], [["b"]], path),
}


@pytest.mark.parametrize("writer", WRITERS)
def test_what_a_killed_writer_left_is_deleted_by_the_next(tmp_path, writer):
    path = tmp_path / "out [1].csv"
    with start_writer(path, "killed") as killed:
        killed.wait()
    assert len(left_over(tmp_path)) == 1
    WRITERS[writer](tmp_path / "other.csv")
    assert len(left_over(tmp_path)) == 1  # which was for another file
    WRITERS[writer](path)
    assert left_over(tmp_path) == []


def test_what_a_living_writer_writes_is_left_alone(tmp_path):
    path = tmp_path / "out.csv"
    with start_writer(path, "waits") as writer:
        assert writer.stdout.readline() == "writing\n"
        write_bytes(path, b"whole")
        assert [one.read_text() for one in left_over(tmp_path)] == ["half"]
        writer.communicate()
    assert left_over(tmp_path) == []
    assert path.read_bytes() == b"whole"


def test_files_of_the_user_are_left_alone(tmp_path):
    mine = [tmp_path / name for name in ("out.csv.tmp", ".out.csv.tmp", ".out.csv.mine.tmp", ".out.csv.x-1-ab.tmp")]
    for path in mine:
        path.write_text("mine")
    write_bytes(tmp_path / "out.csv", b"whole")
    assert all(path.read_text() == "mine" for path in mine)


def test_a_run_that_goes_on_deletes_what_was_left_on_any_machine(tmp_path):
    (tmp_path / ".result.json.elsewhere-7-00000000.tmp").write_text("half")
    home = RunFolder(tmp_path)
    with home.lock():
        home._clear()
    assert left_over(tmp_path) == []


def test_several_predictions_into_one_file_do_not_fail_each_other(tmp_path):
    path, begun, problems = tmp_path / "out.csv", threading.Barrier(4), []

    def rows(number):
        begun.wait(timeout=30)  # all have opened their file
        yield from ([number] for _ in range(1000))
        begun.wait(timeout=30)

    def predict(number):
        try:
            assert write_table(["n"], rows(number), path) == 1000
        except BaseException as error:
            problems.append(error)

    threads = [threading.Thread(target=predict, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert problems == []
    lines = path.read_text().splitlines()
    assert len(lines) == 1001
    assert len(set(lines[1:])) == 1
    assert os.listdir(tmp_path) == ["out.csv"]


def test_a_long_name_can_be_written(tmp_path):
    path = tmp_path / ("ä" * 120)
    with atomic_path(path) as temporary:
        temporary.write_text("whole")
    assert path.read_text() == "whole"
