import torch

from lrga.distributed.collectives import all_reduce_sum, count_traffic, gather_ragged, rank_of, world_size


def test_sums_and_exchanges_and_their_gradients_are_those_of_all_ranks(ranks):
    for report in ranks:
        for world, found in report["collectives"].items():
            for name in ("all_reduce", "all_reduce gradient", "halo", "halo gradient", "halo twice"):
                assert found[name] < 1e-12, (world, name)


def test_rows_of_all_ranks_come_together_in_order(ranks):
    assert ranks[2]["collectives"]["3"]["ragged"] == [[1.0] * 2] + [[2.0] * 2] * 2
    assert all(found["gathered"] for report in ranks for found in report["collectives"].values())


def test_bytes_are_counted_forward_and_backward(ranks):
    for report in ranks:
        for found in report["collectives"].values():
            assert found["halo bytes"] == found["halo bytes expected"]
            assert found["payload"] == {"sum": 2 * 4 * 8}


def test_without_a_process_group_there_is_one_rank_and_nothing_is_sent():
    x = torch.randn(3, requires_grad=True)
    with count_traffic() as traffic:
        all_reduce_sum(x).sum().backward()
    assert (world_size(), rank_of(), traffic.total) == (1, 0, 0)
    assert torch.equal(x.grad, torch.ones(3))
    assert gather_ragged(x) is x
