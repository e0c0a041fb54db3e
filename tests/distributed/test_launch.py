import pytest

from lrga.distributed.launch import attempt, choose_backend, is_leader, joined, launched
from lrga.errors import OptionError


def test_a_process_of_its_own_is_the_leader_of_nobody(monkeypatch):
    for name in ("RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT"):
        monkeypatch.delenv(name, raising=False)
    assert not launched()
    assert is_leader()
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
    with pytest.raises(OptionError, match="GPU of its own"), joined("cuda:1"):
        pytest.fail("joined with a device that all ranks would share")


def test_without_torchrun_the_error_says_what_to_start(monkeypatch):
    for name in ("RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT"):
        monkeypatch.delenv(name, raising=False)
    with pytest.raises(OptionError, match="torchrun"), joined("cpu"):
        pytest.fail("nobody was joined")


@pytest.mark.parametrize("how", ["well", "builds"])
def test_ranks_join_and_leave_and_wait_for_data_that_rank_0_builds(launch, how):
    processes = launch.start("joined.py", 2, how)
    try:
        ends = [process.communicate(timeout=60) for process in processes]
    finally:
        launch.end(processes)
    assert [process.returncode for process in processes] == [0, 0], ends
    assert [out for out, _ in ends] == ["joined\n"] * 2
