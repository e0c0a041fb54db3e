import os
import signal
import threading
import time
from datetime import timedelta
from pathlib import Path

import pytest
import torch.distributed as dist

from lrga.distributed.launch.monitor import Monitor
from lrga.distributed.launch.process_group import attempt, choose_backend, is_leader, joined, launched
from lrga.errors import OptionError
from tests.helpers.processes import end, start

JOINED = Path(__file__).with_name("joined.py")
RANKS = {
    "well": 2,
    "builds": 2,
    "killed": 3,
    "error": 2,
    "hangs 1": 2,
    "dies building": 3,
    "fails building": 2,
    "hangs 0": 3,
}


@pytest.fixture(scope="module")
def ends():
    """Process, exit code and both texts of every rank that ends by itself, in each of the cases of ``joined.py``."""
    started = {how: start(JOINED, world, how) for how, world in RANKS.items()}
    try:
        found = {}
        for how, ranks in started.items():
            waited = [rank for number, rank in enumerate(ranks) if how != f"hangs {number}"]
            texts = [rank.communicate(timeout=60) for rank in waited]
            found[how] = [(rank.returncode, *text) for rank, text in zip(waited, texts, strict=True)]
        return found, {how: [rank.pid for rank in ranks] for how, ranks in started.items()}
    finally:
        for ranks in started.values():
            end(ranks)


def test_a_process_of_its_own_is_the_leader_of_nobody_and_is_told_what_to_start(monkeypatch):
    for name in ("RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT"):
        monkeypatch.delenv(name, raising=False)
    assert not launched()
    assert is_leader()
    with pytest.raises(OptionError, match="torchrun"), joined("cpu"):
        pytest.fail("nobody was joined")
    monkeypatch.setenv("WORLD_SIZE", "1")  # torchrun with one process
    assert not launched()


def test_what_torchrun_sets_is_read(monkeypatch):
    variables = {"RANK": "2", "WORLD_SIZE": "4", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "1"}
    for name, value in (variables | {"TORCHELASTIC_RESTART_COUNT": "3"}).items():
        monkeypatch.setenv(name, value)
    assert launched()
    assert not is_leader()
    assert attempt() == 3
    assert choose_backend("cpu") == "gloo"
    with pytest.raises(OptionError, match="its own GPU"), joined("cuda:1"):
        pytest.fail("joined with a device that all ranks would share")


@pytest.mark.parametrize("how", ["well", "builds"])
def test_ranks_join_and_leave_and_wait_for_data_that_rank_0_builds(ends, how):
    assert [(code, out) for code, out, _ in ends[0][how]] == [(0, "joined\n")] * 2, ends[0][how]


@pytest.mark.parametrize(
    ("how", "lost", "message"),
    [
        ("killed", 1, "rank 1 (process {pid} on"),
        ("error", 1, "failed: NonFiniteError: expected a number, got none"),
        ("hangs 1", 1, "without a heartbeat for"),
        ("dies building", 0, "rank 0 (process {pid}"),
        ("fails building", 0, "rank 0 (process {pid}"),
        ("hangs 0", 0, "rank 0 (process {pid}"),
    ],
)
def test_a_rank_that_stops_ends_the_others_within_a_minute_by_a_message_that_names_it(ends, how, lost, message):
    found, pids = ends
    others = found[how] if how.startswith("hangs") else [*found[how][:lost], *found[how][lost + 1 :]]
    assert len(others) == RANKS[how] - 1
    for code, _, errors in others:
        assert code == 1, errors
        assert f"expected all {RANKS[how]} ranks to keep running, got rank {lost}" in errors
        assert "--max-restarts" in errors
        assert message.format(pid=pids[how][lost]) in errors


HOST = """
import os, time, torch.distributed as dist
store = dist.TCPStore("127.0.0.1", int(os.environ["MASTER_PORT"]), is_master=True, wait_for_workers=False)
time.sleep(120)
"""


def test_a_rank_leaves_only_when_its_thread_is_back_from_a_slow_store(tmp_path):
    (tmp_path / "host.py").write_text(HOST)
    (host,) = start(tmp_path / "host.py", 1)
    going_on = threading.Timer(4.0, os.kill, (host.pid, signal.SIGCONT))
    try:
        other = dist.TCPStore("127.0.0.1", host.port, is_master=False, timeout=timedelta(seconds=60))
        for key in ("who/1", "alive/1"):
            dist.PrefixStore("lrga/0", other).set(key, "1")
        before = set(threading.enumerate())
        with Monitor(0, 2, host="127.0.0.1", port=host.port):
            (thread,) = (one for one in set(threading.enumerate()) - before if one.name == "lrga-monitor")
            os.kill(host.pid, signal.SIGSTOP)
            going_on.start()
            time.sleep(1.2)  # the thread has asked by now and waits
        assert not thread.is_alive()
    finally:
        going_on.cancel()
        end([host])
