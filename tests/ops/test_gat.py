import math

import pytest
import torch
from torch.autograd import gradcheck

from lrga.errors import ShapeError
from lrga.ops.gat.definition import attention_sum, node_scores
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
def test_sums_equal_loops_over_the_edges_and_have_right_gradients(edge_index, layout):
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
    assert gradcheck(lambda x, s, t: attention_sum(x, s, t, edges, negative_slope=0.2), inputs())


def test_dropped_weights_leave_the_mean_where_it_was(edge_index):
    x, s, t = (i.detach() for i in inputs())
    exact = attention_sum(x, s, t, edge_index, negative_slope=0.2)
    draws = torch.stack([attention_sum(x, s, t, edge_index, negative_slope=0.2, dropout=0.5) for _ in range(300)])
    assert not torch.equal(draws[0], draws[1])
    torch.testing.assert_close(draws.mean(0), exact, rtol=0.2, atol=0.2)


def test_scores_of_another_shape_are_refused(edge_index):
    x, s, t = inputs()
    with pytest.raises(ShapeError, match=r"by_target of shape \[N, H\]"):
        attention_sum(x, s, t[:, :1], edge_index, negative_slope=0.2)


def vectors(dtype=torch.float64):
    return [torch.randn(*shape, dtype=dtype, requires_grad=True) for shape in ((N, H, D), (H, D), (H, D))]


@pytest.mark.parametrize(("nodes", "heads", "depth"), [(7, 3, 4), (1, 1, 1), (0, 1, 5), (7, 4, 1)])
def test_terms_are_the_scalar_products_of_each_head(nodes, heads, depth):
    x, a, b = (torch.randn(*shape, dtype=torch.float64) for shape in ((nodes, heads, depth), *[(heads, depth)] * 2))
    for term, vector in zip(node_scores(x, a, b), (a, b), strict=True):
        assert term.shape == (nodes, heads)
        torch.testing.assert_close(term, (x * vector).sum(-1), rtol=1e-14, atol=1e-14)


def test_gradients_of_the_terms_are_right():
    assert gradcheck(node_scores, vectors())


def test_autocast_leaves_the_terms_in_the_precision_of_the_vectors():
    x, a, b = vectors(torch.float32)
    half = x.detach().bfloat16().requires_grad_()
    with torch.autocast("cpu", torch.bfloat16):
        s, t = node_scores(half, a, b)
    assert s.dtype == t.dtype == torch.float32
    torch.testing.assert_close(s, (half.float() * a).sum(-1))
    (s.sum() + t.square().sum()).backward()
    assert half.grad.dtype == torch.bfloat16
    assert a.grad.dtype == torch.float32


def test_vectors_of_another_shape_are_refused():
    x, a, b = vectors()
    with pytest.raises(ShapeError, match=r"att_target of shape \[H, D\]"):
        node_scores(x, a, b[:, :1])
    with pytest.raises(ShapeError, match=r"x of shape \[N, H, D\]"):
        node_scores(x.flatten(1), a, b)
