"""The attentions that ours is compared with compute what they are said to."""

import pytest
import torch

from lrga.nn.attention import LowRankGlobalAttention
from lrga.speed.peers import Authors, Padded, Softmax, performer, sgformer

X = torch.randn(9, 8, generator=torch.Generator().manual_seed(0))
BATCH = torch.tensor([0, 0, 1, 1, 1, 1, 2, 2, 2])


def test_padded_form_and_the_authors_arithmetic_are_ours():
    ours, padded = LowRankGlobalAttention(8, 3), Padded(8, 3)
    padded.load_state_dict(ours.state_dict())
    torch.testing.assert_close(padded(X, BATCH), ours(X, BATCH))
    ours, authors = LowRankGlobalAttention(8, 3), Authors(8, 3)
    authors.load_state_dict(ours.state_dict())
    torch.testing.assert_close(authors(X), ours(X))


@pytest.mark.parametrize("module", [performer(8, 2, 4), sgformer(8, 4), Softmax(8, 2)])
def test_every_other_attention_gives_a_row_for_each_node(module):
    assert module(X, BATCH).size(0) == 9


def test_softmax_attention_does_not_see_other_graphs():
    module = Softmax(8, 2).eval()
    torch.testing.assert_close(module(X, BATCH)[:2], module(X[:2], BATCH[:2]))
