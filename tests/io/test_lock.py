"""One process at a time in a folder."""

import os
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from lrga.errors import CheckpointError, DataError, FolderInUseError
from lrga.io.lock import FolderLock
from lrga.io.progress import silent


def holder(folder):
    return (folder / ".lock").read_text().split(" on ")[0]


@pytest.mark.parametrize("wait", [None, silent])
def test_a_second_lock_of_the_same_thread_is_refused_naming_the_process(tmp_path, wait):
    with FolderLock(tmp_path), pytest.raises(FolderInUseError, match=f"in use by process {os.getpid()} on "):
        FolderLock(tmp_path, wait=wait).__enter__()


def test_a_folder_is_free_again_afterwards(tmp_path):
    with FolderLock(tmp_path):
        assert (tmp_path / ".lock").exists()
    with FolderLock(tmp_path):
        assert holder(tmp_path) == str(os.getpid())


HOLD = """
import sys
from pathlib import Path
from lrga.io.lock import FolderLock
with FolderLock(Path(sys.argv[1])):
    print("held", flush=True)
    sys.stdin.read()
"""

HOLD_AS_BEFORE = """
import fcntl, os, sys
file = open(sys.argv[1] + "/.lock", "a+")
fcntl.flock(file, fcntl.LOCK_EX)
file.write(str(os.getpid()))
file.flush()
print("held", flush=True)
sys.stdin.read()
"""


def start_holder(folder, script=HOLD):
    command = [sys.executable, "-c", script, str(folder)]
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert process.stdout.readline() == "held\n"
    return process


@pytest.mark.parametrize("script", [HOLD, HOLD_AS_BEFORE], ids=["this version", "version 0.1"])
def test_the_lock_of_a_killed_process_is_gone_with_it(tmp_path, script):
    if script is HOLD_AS_BEFORE:
        pytest.importorskip("fcntl", reason="locks of POSIX systems")
    with start_holder(tmp_path, script) as process:
        for _ in range(2):  # a refusal leaves the name of the holder where it is
            with pytest.raises(FolderInUseError, match=f"in use by process {process.pid}\\b"):
                FolderLock(tmp_path).__enter__()
        process.kill()
        process.wait()
    with FolderLock(tmp_path):
        assert holder(tmp_path) == str(os.getpid())


def test_who_waits_is_told_for_whom_and_goes_on_when_it_is_killed(tmp_path):
    told = []
    with start_holder(tmp_path) as process:

        def tell(label, done, total):
            told.append(label)
            process.kill()

        with FolderLock(tmp_path, wait=tell):
            assert holder(tmp_path) == str(os.getpid())
    assert told[0].startswith(f"waiting for process {process.pid} on ")
    assert str(tmp_path) in told[0]


def test_a_run_folder_that_is_not_there_is_told_of(tmp_path):
    with pytest.raises(CheckpointError, match="No such file"):
        FolderLock(tmp_path / "none").__enter__()
    assert not (tmp_path / "none").exists()


@pytest.mark.skipif(not Path("/proc/self").is_dir(), reason="needs /proc, where no folder can be made")
def test_a_folder_that_cannot_be_made_is_reported_with_a_remedy():
    with pytest.raises(DataError, match=r"No such file or directory.*--data-root"):
        FolderLock(Path("/proc/x/y"), wait=silent).__enter__()


@pytest.mark.parametrize("kind", ["link", "folder", "pipe"])
@pytest.mark.parametrize("wait", [None, silent])
def test_a_lock_that_is_no_plain_file_is_refused(tmp_path, kind, wait):
    path, other = tmp_path / ".lock", tmp_path / "other"
    other.write_text("content")
    if kind == "link":
        path.symlink_to(other)
    elif kind == "folder":
        path.mkdir()
    elif hasattr(os, "mkfifo"):
        os.mkfifo(path)
    else:
        pytest.skip("no named pipes on this system")
    with pytest.raises(CheckpointError, match="a regular file"):
        FolderLock(tmp_path, wait=wait).__enter__()
    assert other.read_text() == "content"


def test_a_lock_that_is_held_for_a_moment_is_waited_for(tmp_path):
    held = FolderLock(tmp_path)
    held.__enter__()
    timer = threading.Timer(0.2, lambda: held.__exit__(None, None, None))
    timer.start()
    with FolderLock(tmp_path):
        assert holder(tmp_path) == str(os.getpid())
    timer.join()


def test_two_threads_do_not_hold_the_lock_at_once(tmp_path):
    holders, most = 0, 0

    def work():
        nonlocal holders, most
        with FolderLock(tmp_path / "set", wait=silent):
            holders += 1
            most = max(most, holders)
            time.sleep(0.02)
            holders -= 1

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert most == 1


def fail_in(folder, name=None):
    with FolderLock(folder):
        if name is not None:
            (folder / name).touch()
        raise RuntimeError


@pytest.mark.skipif(os.name != "posix", reason="other systems do not delete a file that is open")
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
