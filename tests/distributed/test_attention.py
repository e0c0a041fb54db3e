import pytest
import torch

import lrga
from lrga.distributed.partition.attention import PartitionedAttention
from lrga.errors import UnsupportedError


def test_attention_over_divided_nodes_is_that_over_all(ranks):
    """Values, gradients and factors; all normalisations, options, several heads, custom maps, more ranks than nodes."""
    for report in ranks:
        for case, difference in report["attention"]["differences"].items():
            assert difference < 1e-9, case


def test_traffic_is_a_matrix_and_two_vectors_for_each_head_whatever_the_number_of_nodes(ranks):
    for case, payload in ranks[2]["attention"]["payloads"].items():
        heads, nodes = map(int, case.split())
        assert payload == 2 * heads * (4 * 4 + 2 * 4) * 8, (heads, nodes)  # forward and backward, float64


def test_a_batch_of_graphs_is_refused_and_rank_zero_has_no_columns():
    attention = PartitionedAttention.of(lrga.LowRankGlobalAttention(3, rank=2), 4)
    with pytest.raises(UnsupportedError, match="one graph partitioned"):
        attention(torch.zeros(4, 3), torch.tensor([0, 0, 1, 1]))
    assert PartitionedAttention.of(lrga.LowRankGlobalAttention(3, rank=0), 4)(torch.zeros(4, 3)).shape == (4, 0)


def test_one_rank_attends_as_the_whole_module_does_under_autocast_too():
    torch.manual_seed(0)
    whole = lrga.LowRankGlobalAttention(8, rank=3, heads=2)
    x, expected = torch.randn(30, 8), None
    expected = whole(x)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        rough = whole(x)
    ours = PartitionedAttention.of(whole, 30)
    assert torch.allclose(ours(x), expected, atol=1e-6)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        out = ours(x)
    assert torch.allclose(out.float(), rough.float(), atol=2e-2)
