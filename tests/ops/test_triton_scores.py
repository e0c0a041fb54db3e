"""GAT's terms of the scores by Triton's kernels: in its interpreter here, on a GPU with `pytest -m gpu`."""

import pytest

pytest.importorskip("triton")

import torch

from lrga.errors import UnsupportedError
from lrga.ops.gat import gpu as gat_gpu
from lrga.ops.gat.definition import node_scores_reference
from lrga.ops.gat.gpu import node_scores, scores_op

TOLERANCE = {torch.float32: 3e-5, torch.bfloat16: 3e-2, torch.float16: 5e-3}

pytestmark = [
    pytest.mark.usefixtures("poisoned"),
    # Said of the reference on a GPU while memory is poisoned; it is not what is tested.
    pytest.mark.filterwarnings("ignore:.*does not have a deterministic implementation"),
]


def check(nodes, heads, depth, *, dtype=torch.float32, att_dtype=None, device="cpu"):
    """Values and all gradients equal those of the reference in float64."""
    shapes, dtypes = ((nodes, heads, depth), (heads, depth), (heads, depth)), (dtype, *[att_dtype or dtype] * 2)
    given = [torch.randn(*shape).to(device, kind) for shape, kind in zip(shapes, dtypes, strict=True)]
    mine, theirs = [t.requires_grad_() for t in given], [t.detach().double().requires_grad_() for t in given]
    out, expected = node_scores(*mine), node_scores_reference(*theirs)
    upstream = [torch.randn_like(o) for o in out]
    got = torch.autograd.grad(out, mine, upstream)
    wanted = torch.autograd.grad(expected, theirs, [u.double() for u in upstream])
    assert all(o.dtype == torch.promote_types(dtype, att_dtype or dtype) for o in out)
    assert [g.dtype for g in got] == list(dtypes)
    for a, b in zip((*out, *got), (*expected, *wanted), strict=True):
        size = max(1.0, float(b.detach().abs().max())) if b.numel() else 1.0
        torch.testing.assert_close(a.double(), b, rtol=TOLERANCE[dtype], atol=TOLERANCE[dtype] * size)


@pytest.mark.parametrize(("heads", "depth"), [(1, 1), (2, 7), (3, 20), (8, 3), (1, 33)])
@pytest.mark.parametrize("nodes", [0, 1, 70])
def test_terms_and_gradients_are_those_of_the_reference(nodes, heads, depth):
    check(nodes, heads, depth)


def test_nodes_are_divided_into_parts_and_heads_into_groups(monkeypatch):
    monkeypatch.setattr(gat_gpu, "MAX_PARTS", 3)
    check(300, 5, 260)
    check(300, 2, 17)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_half_precision_equals_the_reference(dtype):
    check(40, 2, 5, dtype=dtype)
    check(40, 2, 5, dtype=dtype, att_dtype=torch.float32)  # as autocast has it


def test_one_of_the_terms_may_be_all_that_is_used():
    x, a, b = (torch.randn(*shape, requires_grad=True) for shape in ((9, 2, 3), (2, 3), (2, 3)))
    ours, theirs = (torch.autograd.grad(f(x, a, b)[1].sum(), (x, b)) for f in (node_scores, node_scores_reference))
    torch.testing.assert_close(ours, theirs)


def test_rows_that_lie_apart_are_read_rightly():
    x, a, b = torch.randn(9, 2, 6)[:, :, ::2], torch.randn(3, 2).t(), torch.randn(2, 3)
    torch.testing.assert_close(node_scores(x, a, b), node_scores_reference(x, a, b))


@pytest.mark.gpu
@pytest.mark.parametrize("dtype", TOLERANCE)
@pytest.mark.parametrize(("heads", "depth"), [(1, 1), (8, 22), (8, 19), (12, 16), (1, 100), (2, 600), (1, 3_000)])
@pytest.mark.parametrize("nodes", [0, 1, 7_600])
def test_a_gpu_equals_the_reference(nodes, heads, depth, dtype):
    check(nodes, heads, depth, dtype=dtype, device="cuda")


def test_a_second_derivative_is_refused():
    x, a, b = (torch.randn(*shape, requires_grad=True) for shape in ((9, 2, 3), (2, 3), (2, 3)))
    (grad,) = torch.autograd.grad(node_scores(x, a, b)[0].square().sum(), x, create_graph=True)
    with pytest.raises(UnsupportedError, match="node_scores_gradient"):
        grad.sum().backward()


def test_the_operator_passes_the_checks_of_pytorch():
    torch.library.opcheck(
        scores_op.custom_op, tuple(torch.randn(*s, requires_grad=True) for s in ((9, 2, 3), (2, 3), (2, 3)))
    )  # fmt: skip
