"""One process at a time."""

import os
import subprocess
import sys
import threading

import pytest

from lrga.errors import CheckpointError
from lrga.io.folder_lock import FolderLock


def test_a_folder_in_use_is_refused_naming_the_process(tmp_path):
    with FolderLock(tmp_path), pytest.raises(CheckpointError, match=str(os.getpid())):
        FolderLock(tmp_path).__enter__()


def test_a_folder_is_free_again_afterwards(tmp_path):
    with FolderLock(tmp_path):
        assert (tmp_path / ".lock").exists()
    with FolderLock(tmp_path):
        assert (tmp_path / ".lock").read_text() == str(os.getpid())


HOLD = """
import fcntl, os, sys
file = open(sys.argv[1], "a+")
fcntl.flock(file, fcntl.LOCK_EX)
file.write(str(os.getpid()))
file.flush()
print("held", flush=True)
sys.stdin.read()
"""


def test_the_lock_of_a_killed_process_is_gone_with_it(tmp_path):
    command = [sys.executable, "-c", HOLD, str(tmp_path / ".lock")]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout.readline() == "held\n"
        with pytest.raises(CheckpointError, match=str(process.pid)):
            FolderLock(tmp_path).__enter__()
        process.kill()
        process.wait()
    with FolderLock(tmp_path):
        assert (tmp_path / ".lock").read_text() == str(os.getpid())


def test_a_folder_that_is_not_there_is_told_of(tmp_path):
    with pytest.raises(CheckpointError, match="No such file"):
        FolderLock(tmp_path / "none").__enter__()


def test_a_lock_that_is_held_for_a_moment_is_waited_for(tmp_path):
    held = FolderLock(tmp_path)
    held.__enter__()
    timer = threading.Timer(0.2, lambda: held.__exit__(None, None, None))
    timer.start()
    with FolderLock(tmp_path):
        assert (tmp_path / ".lock").read_text() == str(os.getpid())
    timer.join()


def fail_in(folder, name=None):
    with FolderLock(folder):
        if name is not None:
            (folder / name).touch()
        raise RuntimeError


def test_a_block_that_fails_before_anything_is_written_leaves_no_folder(tmp_path):
    folder = tmp_path / "run"
    folder.mkdir()
    with pytest.raises(RuntimeError):
        fail_in(folder)
    assert not folder.exists()
    folder.mkdir()
    with pytest.raises(RuntimeError):
        fail_in(folder, "config.json")
    assert sorted(os.listdir(folder)) == [".lock", "config.json"]
