import pytest
import torch
from torch import nn

import lrga
from lrga.errors import DTypeError, OptionError, ShapeError
from lrga.nn.blocks import attend_in_blocks, attention_of_blocks


@pytest.mark.parametrize(
    "options",
    [{}, {"normalize": "row"}, {"normalize": None}, {"normalize": "rms"}, {"qk_norm": True, "gate": True}],
    ids=str,
)
@pytest.mark.parametrize("heads", [1, 3])
@pytest.mark.parametrize(("nodes", "block"), [(0, 4), (1, 4), (100, 7), (100, 100), (100, 1000)])
def test_blocks_give_what_the_whole_gives(options, heads, nodes, block):
    attention = lrga.LowRankGlobalAttention(6, rank=4, heads=heads, dropout=0.5, **options).double().eval()
    x = torch.randn(nodes, 6, dtype=torch.float64)
    assert torch.allclose(attend_in_blocks(attention, x, block=block), attention(x), atol=1e-12)


def test_custom_maps_half_precision_and_given_memory():
    maps = tuple(nn.Linear(6, k) for k in (2, 2, 3, 1))
    attention = lrga.LowRankGlobalAttention(6, rank=1, maps=maps)
    x, out = torch.randn(50, 6), torch.empty(50, 4)
    assert attend_in_blocks(attention, x, block=8, out=out) is out
    assert torch.allclose(out, attention(x), atol=1e-5)
    half = lrga.LowRankGlobalAttention(6, rank=3).bfloat16()
    assert attend_in_blocks(half, x.bfloat16(), block=8).dtype == torch.bfloat16
    assert attend_in_blocks(lrga.LowRankGlobalAttention(6, rank=0), x).shape == (50, 0)


def test_blocks_may_come_from_anywhere_and_need_not_be_equal():
    attention = lrga.LowRankGlobalAttention(6, rank=4)
    parts = [torch.randn(n, 6) for n in (5, 0, 11)]
    result = list(attention_of_blocks(attention, lambda: iter(parts)))
    assert [len(part) for part in result] == [5, 0, 11]
    assert torch.allclose(torch.cat(result), attention(torch.cat(parts)), atol=1e-5)


def test_no_more_than_a_block_is_ever_projected():
    attention = lrga.LowRankGlobalAttention(6, rank=4)
    sizes = []
    attention.project.register_forward_hook(lambda module, args, out: sizes.append(out.size(0)))
    attend_in_blocks(attention, torch.randn(1000, 6), block=64)
    assert max(sizes) == 64


def test_dropout_wrong_shapes_and_blocks_that_do_not_come_a_second_time_are_refused():
    attention = lrga.LowRankGlobalAttention(6, rank=4, dropout=0.5)
    with pytest.raises(OptionError, match="evaluation mode"):
        attend_in_blocks(attention, torch.randn(5, 6))
    with pytest.raises(ShapeError, match="out of shape"):
        attend_in_blocks(attention.eval(), torch.randn(5, 6), out=torch.empty(5, 9))
    with pytest.raises(ShapeError, match="6 columns"):
        attend_in_blocks(attention.eval(), torch.randn(5, 7))
    with pytest.raises(DTypeError, match="the dtype of the parameters"):
        attend_in_blocks(attention.eval(), torch.randn(5, 6, dtype=torch.float64))
    with pytest.raises(ShapeError, match=r"\[N, D\]"):
        attend_in_blocks(attention.eval(), torch.randn(5))
    with pytest.raises(DTypeError, match="got list"):
        attend_in_blocks(attention.eval(), [[1.0] * 6])
    attention, once = lrga.LowRankGlobalAttention(6, rank=4), iter([torch.randn(5, 6)])
    with pytest.raises(ShapeError, match="the same 5 nodes in both passes, got 0 in the second"):
        list(attention_of_blocks(attention, lambda: once))
