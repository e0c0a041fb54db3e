import pytest
import torch
from torch.autograd import gradcheck

from lrga.errors import ShapeError
from lrga.ops.gat.definition import node_scores

N, H, D = 7, 3, 4


def inputs(dtype=torch.float64):
    return [torch.randn(*shape, dtype=dtype, requires_grad=True) for shape in ((N, H, D), (H, D), (H, D))]


@pytest.mark.parametrize(("heads", "depth"), [(3, 4), (1, 1), (1, 5), (4, 1)])
@pytest.mark.parametrize("nodes", [0, 1, 7])
def test_terms_are_the_scalar_products_of_each_head(nodes, heads, depth):
    x, a, b = (torch.randn(*shape, dtype=torch.float64) for shape in ((nodes, heads, depth), *[(heads, depth)] * 2))
    for term, vector in zip(node_scores(x, a, b), (a, b), strict=True):
        assert term.shape == (nodes, heads)
        torch.testing.assert_close(term, (x * vector).sum(-1), rtol=1e-14, atol=1e-14)


def test_gradients_are_right():
    assert gradcheck(node_scores, inputs())


def test_autocast_leaves_the_terms_in_the_precision_of_the_vectors():
    x, a, b = inputs(torch.float32)
    half = x.detach().bfloat16().requires_grad_()
    with torch.autocast("cpu", torch.bfloat16):
        s, t = node_scores(half, a, b)
    assert s.dtype == t.dtype == torch.float32
    torch.testing.assert_close(s, (half.float() * a).sum(-1))
    (s.sum() + t.square().sum()).backward()
    assert half.grad.dtype == torch.bfloat16
    assert a.grad.dtype == torch.float32


def test_vectors_of_another_shape_are_refused():
    x, a, b = inputs()
    with pytest.raises(ShapeError, match=r"att_target of shape \[H, D\]"):
        node_scores(x, a, b[:, :1])
    with pytest.raises(ShapeError, match=r"x of shape \[N, H, D\]"):
        node_scores(x.flatten(1), a, b)
