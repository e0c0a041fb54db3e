import pytest

from lrga.distributed.monitor import lost_error
from lrga.errors import RankLostError


@pytest.mark.parametrize(
    ("how", "message"),
    [
        ("killed", "rank 1 (process {pid} on"),
        ("error", "failed: NonFiniteError: expected a number, got none"),
        ("hangs", "given no sign of life"),
    ],
)
def test_a_rank_that_stops_ends_the_others_within_a_minute_by_a_message_that_names_it(launch, how, message):
    processes = launch.start("joined.py", 3, how)
    try:
        ends = {rank: processes[rank].communicate(timeout=60) for rank in (0, 2)}
    finally:
        launch.end(processes)
    for rank in (0, 2):
        assert processes[rank].returncode == 1, ends[rank]
        assert "expected all 3 ranks to go on, got rank 1" in ends[rank][1]
        assert message.format(pid=processes[1].pid) in ends[rank][1]


def test_the_error_says_how_to_go_on():
    with pytest.raises(RankLostError, match="--max-restarts"):
        raise lost_error(3, "rank 1 gone")
