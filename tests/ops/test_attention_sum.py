import math

import pytest
import torch
from torch.autograd import gradcheck

from lrga.errors import ShapeError
from lrga.ops.gat.definition import attention_sum
from lrga.ops.neighbors.edges import EdgeLayout

N, E, H, D = 7, 25, 2, 3


@pytest.fixture
def edge_index():
    """Repeated edges and self-loops among them; the last two nodes have no edge."""
    return torch.randint(0, N - 2, (2, E))


def inputs(scale=1.0):
    shapes = ((N, H, D), (N, H), (N, H))
    return [(torch.randn(*s, dtype=torch.float64) * scale).requires_grad_() for s in shapes]


@pytest.mark.parametrize("layout", [False, True])
def test_sums_equal_loops_over_the_edges(edge_index, layout):
    edges = EdgeLayout.from_edge_index(edge_index, N)[0] if layout else edge_index
    x, s, t = (i.detach() for i in inputs(3.0))
    out = attention_sum(x, s, t, edges, negative_slope=0.2)
    for i in range(N):
        for h in range(H):
            into = [j for j, k in edge_index.t().tolist() if k == i]
            scores = [float(s[j, h] + t[i, h]) for j in into]
            weights = [math.exp(r if r > 0 else 0.2 * r) for r in scores]
            expected = sum((w * x[j, h] for w, j in zip(weights, into, strict=True)), torch.zeros(D).double())
            torch.testing.assert_close(out[i, h], expected / (sum(weights) or 1.0), rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("layout", [False, True])
def test_gradients_are_right(edge_index, layout):
    edges = EdgeLayout.from_edge_index(edge_index, N)[0] if layout else edge_index
    assert gradcheck(lambda x, s, t: attention_sum(x, s, t, edges, negative_slope=0.2), inputs())


def test_dropped_weights_leave_the_mean_where_it_was(edge_index):
    x, s, t = (i.detach() for i in inputs())
    exact = attention_sum(x, s, t, edge_index, negative_slope=0.2)
    draws = torch.stack([attention_sum(x, s, t, edge_index, negative_slope=0.2, dropout=0.5) for _ in range(800)])
    assert not torch.equal(draws[0], draws[1])
    torch.testing.assert_close(draws.mean(0), exact, rtol=0.2, atol=0.2)


def test_scores_of_another_shape_are_refused(edge_index):
    x, s, t = inputs()
    with pytest.raises(ShapeError, match=r"by_target of shape \[N, H\]"):
        attention_sum(x, s, t[:, :1], edge_index, negative_slope=0.2)
