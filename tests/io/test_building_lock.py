import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from lrga.errors import DataError
from lrga.io.building_lock import folder_lock


@pytest.mark.skipif(not Path("/proc/self").is_dir(), reason="needs /proc, where no folder can be made")
def test_a_folder_that_cannot_be_made_is_reported_with_a_remedy():
    with pytest.raises(DataError, match=r"No such file or directory.*--data-root"), folder_lock(Path("/proc/x/y")):
        raise AssertionError("the lock is held")


def test_two_threads_do_not_hold_the_lock_at_once(tmp_path):
    holders, most = 0, 0

    def work():
        nonlocal holders, most
        with folder_lock(tmp_path / "set"):
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


def test_the_lock_of_a_killed_process_is_free(tmp_path):
    script = (
        "import sys, time, pathlib\n"
        "from lrga.io.building_lock import folder_lock\n"
        "with folder_lock(pathlib.Path(sys.argv[1])):\n"
        "    print('held', flush=True)\n"
        "    time.sleep(60)\n"
    )
    with subprocess.Popen([sys.executable, "-c", script, str(tmp_path)], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "held\n"
        process.kill()
        process.wait()
        with folder_lock(tmp_path):
            assert (tmp_path / ".lock").exists()
