"""Temporary files: several writers of one file, and what a killed one left."""

import os
import threading

from lrga.io.files import atomic_path
from lrga.training.predict import write_table
from lrga.training.runs.folder import RunFolder


def left_over(folder):
    return [path for path in folder.iterdir() if path.name.endswith(".tmp")]


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
