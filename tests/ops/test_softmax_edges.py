"""Softmax over the edges of each node in a padded batch, whose last edges no node sums on a GPU."""

import pytest

pytest.importorskip("triton")

import torch

from lrga.ops.gat.definition import attention_sum_reference
from lrga.ops.neighbors import reduce
from tests.helpers.kernels import edges, padded


def test_padding_leaves_no_trace_in_values_and_gradients(monkeypatch):
    monkeypatch.setattr(reduce, "runs_on_gpu", lambda *tensors: True)  # the kernels, in Triton's interpreter
    layout = edges(9, 40)
    x, source, target = torch.randn(9, 2, 5), torch.randn(9, 2), torch.randn(9, 2)
    upstream = torch.randn(9, 2, 5)
    found = []
    for nodes, more in ((0, 0), (3, 7)):
        wide = padded(layout, nodes, more) if more else layout
        given = [torch.cat([t, torch.ones(nodes, *t.shape[1:])]).requires_grad_() for t in (x, source, target)]
        out = attention_sum_reference(*given, wide, negative_slope=0.2)[:9]
        gradients = torch.autograd.grad(out, given, upstream)
        assert all(bool((g[9:] == 0).all()) for g in gradients)  # of what is only padding
        found.append([out, *(g[:9] for g in gradients)])
    for a, b in zip(*found, strict=True):
        torch.testing.assert_close(a, b)
