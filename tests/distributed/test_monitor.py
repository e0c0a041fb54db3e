import pytest

from lrga.distributed.monitor import lost_error
from lrga.errors import RankLostError


@pytest.mark.parametrize(
    ("how", "message", "world"),
    [
        ("killed", "rank 1 (process {pid} on", 3),
        ("error", "failed: NonFiniteError: expected a number, got none", 2),
        ("hangs", "given no sign of life", 2),
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
        assert f"expected all {world} ranks to go on, got rank 1" in ends[rank][1]
        assert message.format(pid=processes[1].pid) in ends[rank][1]


def test_the_error_says_how_to_go_on():
    with pytest.raises(RankLostError, match="--max-restarts"):
        raise lost_error(3, "rank 1 gone")
