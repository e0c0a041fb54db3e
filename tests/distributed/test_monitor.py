import os
import signal
import subprocess
import sys
import threading
import time
from datetime import timedelta

import pytest
import torch.distributed as dist

from lrga.distributed.monitor import INTERVAL, LINGER, PATIENCE, Monitor, lost_error
from lrga.errors import RankLostError


@pytest.mark.parametrize(
    ("how", "message", "world"),
    [
        ("killed", "rank 1 (process {pid} on", 3),
        ("error", "failed: NonFiniteError: expected a number, got none", 2),
        ("hangs 1", "without a heartbeat for", 2),
    ],
)
def test_a_rank_that_stops_ends_the_others_within_a_minute_by_a_message_that_names_it(launch, how, message, world):
    processes = launch.start("joined.py", world, how)
    try:
        others = [rank for rank in range(world) if rank != 1]
        ends = {rank: processes[rank].communicate(timeout=60) for rank in others}
    finally:
        launch.end(processes)
    for rank in others:
        assert processes[rank].returncode == 1, ends[rank]
        assert f"expected all {world} ranks to keep running, got rank 1" in ends[rank][1]
        assert message.format(pid=processes[1].pid) in ends[rank][1]


@pytest.mark.parametrize("how", ["dies building", "fails building", "hangs 0"])
def test_a_rank_0_that_stops_is_named_by_those_that_wait_for_it(launch, how):
    processes = launch.start("joined.py", 3, how)
    try:
        ends = [process.communicate(timeout=60) for process in processes[1:]]
    finally:
        launch.end(processes)
    for process, (_, errors) in zip(processes[1:], ends, strict=True):
        assert process.returncode == 1, errors
        assert f"expected all 3 ranks to keep running, got rank 0 (process {processes[0].pid}" in errors


def test_a_silent_rank_is_named_within_half_a_minute():
    assert PATIENCE + LINGER + 2 * INTERVAL < 30


def test_the_error_says_how_to_go_on():
    with pytest.raises(RankLostError, match="--max-restarts"):
        raise lost_error(3, "rank 1 gone")


HOST = """
import sys, torch.distributed as dist
store = dist.TCPStore("127.0.0.1", 0, is_master=True, wait_for_workers=False)
print(store.port, flush=True)
sys.stdin.read()
"""


def test_a_rank_leaves_only_when_its_thread_is_back_from_a_slow_store():
    command = [sys.executable, "-c", HOST]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as host:
        going_on = threading.Timer(4.0, os.kill, (host.pid, signal.SIGCONT))
        try:
            port = int(host.stdout.readline())
            other = dist.TCPStore("127.0.0.1", port, is_master=False, timeout=timedelta(seconds=10))
            for key in ("who/1", "alive/1"):
                dist.PrefixStore("lrga/0", other).set(key, "1")
            before = set(threading.enumerate())
            with Monitor(0, 2, host="127.0.0.1", port=port):
                (thread,) = (one for one in set(threading.enumerate()) - before if one.name == "lrga-monitor")
                os.kill(host.pid, signal.SIGSTOP)
                going_on.start()
                time.sleep(1.2)  # the thread has asked by now and waits
            assert not thread.is_alive()
        finally:
            going_on.cancel()
            host.kill()
