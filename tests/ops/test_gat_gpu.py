"""GAT by Triton's kernels against the reference: in its interpreter here, on a GPU with `pytest -m gpu`."""

import pytest

pytest.importorskip("triton")

import numpy
import torch

from lrga.ops.gat import gpu as gat_gpu
from lrga.ops.gat.definition import attention_sum, attention_sum_reference, node_scores_reference
from lrga.ops.gat.gpu import node_scores
from lrga.ops.neighbors import reduce
from tests.helpers.kernels import POISONED, edges, padded, same

TOLERANCE = {torch.float32: 3e-5, torch.bfloat16: 5e-2, torch.float16: 8e-3}
TERM_TOLERANCE = {torch.float32: 3e-5, torch.bfloat16: 3e-2, torch.float16: 5e-3}

pytestmark = POISONED


@pytest.fixture(autouse=True)
def kernels_are_chosen(monkeypatch):
    """On a CPU too, where Triton's interpreter runs them."""
    monkeypatch.setattr("lrga.ops.gat.definition.runs_on_gpu", lambda *tensors: True)


def check(layout, heads, depth, *, dtype=torch.float32, score_dtype=None, device="cpu", scale=1.0, slope=0.2):
    """Values and all gradients equal those of the reference in float64."""
    layout = layout.to(device)
    n = layout.num_nodes
    given = [torch.randn(n, heads, depth).to(dtype)]
    given += [(torch.randn(n, heads) * scale).to(score_dtype or dtype) for _ in range(2)]
    given = [t.to(device).requires_grad_() for t in given]
    assert attention_sum(*given, layout, negative_slope=slope).dtype == torch.promote_types(dtype, score_dtype or dtype)
    same(
        lambda *inputs: attention_sum(*inputs, layout, negative_slope=slope),
        lambda *inputs: attention_sum_reference(*inputs, layout, negative_slope=slope),
        given,
        TOLERANCE[dtype],
    )


@pytest.mark.parametrize(("heads", "depth"), [(1, 1), (3, 20)])
def test_sums_and_gradients_are_those_of_the_reference(heads, depth):
    check(edges(6, 40), heads, depth)


@pytest.mark.parametrize(("heads", "depth", "group"), [(8, 3, 2), (5, 2, 4), (2, 9, 1)])
def test_heads_that_do_not_fit_together_are_divided_into_groups(monkeypatch, heads, depth, group):
    whole = gat_gpu._sizes(heads, depth)["GROUP"]
    monkeypatch.setattr(gat_gpu, "MAX_WIDTH", group * 2 ** (depth - 1).bit_length())
    assert gat_gpu._sizes(heads, depth)["GROUP"] == group < whole
    check(edges(6, 40), heads, depth)


@pytest.mark.parametrize("numbers", [1, 512])
def test_a_node_may_have_fewer_or_many_more_edges_than_are_walked_at_once(monkeypatch, numbers):
    monkeypatch.setattr(gat_gpu, "NUMBERS", numbers)
    monkeypatch.setattr(gat_gpu, "MAX_WIDTH", 32)
    check(edges(6, 40), 3, 5)


def test_scores_that_are_no_numbers_spoil_the_sums_that_the_definition_says():
    layout = edges(12, 70)
    x, s, t = torch.randn(12, 2, 3), torch.randn(12, 2), torch.randn(12, 2)
    s[2, 0], s[3, 1], s[4, 1] = -torch.inf, torch.nan, torch.inf
    t[5, 0] = -torch.inf
    with numpy.errstate(all="ignore"):  # Triton's interpreter, of differences of infinities
        out = attention_sum(x, s, t, layout, negative_slope=0.2)
    expected = attention_sum_reference(x.double(), s.double(), t.double(), layout, negative_slope=0.2)
    assert 0 < expected.isnan().sum() < expected.numel() // 2
    torch.testing.assert_close(out.double(), expected, rtol=1e-5, atol=1e-5, equal_nan=True)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_half_precision_equals_the_reference(dtype):
    check(edges(9, 40), 2, 5, dtype=dtype)
    check(edges(9, 40), 2, 5, dtype=dtype, score_dtype=torch.float32)  # as autocast has it


def test_large_scores_neither_overflow_nor_vanish():
    check(edges(9, 40), 2, 4, scale=300.0)


@pytest.mark.parametrize("size", [(0, 0), (3, 0), (1, 4)])
def test_graphs_without_nodes_or_edges_have_zero_sums(size):
    check(edges(*size), 2, 3)


def test_padding_is_attended_to_by_no_node():
    small = edges(9, 40)
    layout = padded(small, 3, 6)
    given = [torch.randn(12, 2, 3), torch.randn(12, 2), torch.randn(12, 2)]
    filled, alone = ([t[:n].clone().requires_grad_() for t in given] for n in (12, 9))
    out = attention_sum(*filled, layout, negative_slope=0.2)
    expected = attention_sum(*alone, small, negative_slope=0.2)
    assert torch.equal(out[:9], expected)
    assert (out[9:] == 0).all()
    for a, b in zip(
        *(torch.autograd.grad(o.square().sum(), i) for o, i in ((out, filled), (expected, alone))), strict=True
    ):
        assert torch.equal(a[:9], b)
        assert (a[9:] == 0).all()


def test_padding_leaves_no_trace_in_the_definition_whose_sums_are_the_kernels(monkeypatch):
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


@pytest.mark.gpu
@pytest.mark.parametrize("dtype", TOLERANCE)
@pytest.mark.parametrize(("heads", "depth"), [(1, 1), (8, 19), (8, 22), (8, 16), (4, 33), (1, 100), (2, 130), (1, 300)])
@pytest.mark.parametrize("size", [(1, 5), (5, 0), (300, 20_000), (7_600, 200_000)])
def test_a_gpu_equals_the_reference(size, heads, depth, dtype):
    check(edges(*size, hub_out=False), heads, depth, dtype=dtype, device="cuda")


@pytest.mark.gpu
@pytest.mark.parametrize(("heads", "depth"), [(3, 5), (12, 22), (20, 7), (3, 600), (1, 3_000)])
def test_a_gpu_equals_the_reference_whatever_the_groups_of_heads(heads, depth):
    check(edges(300, 2_000, hub_out=False), heads, depth, device="cuda")


@pytest.mark.gpu
def test_a_gpu_gives_the_same_bits_again():
    layout = edges(7_600, 200_000, hub_out=False).to("cuda")
    given = [torch.randn(7_600, 8, *shape, device="cuda", requires_grad=True) for shape in ((22,), (), ())]
    results = []
    for _ in range(2):
        out = attention_sum(*given, layout, negative_slope=0.2)
        results.append((out, *torch.autograd.grad(out.square().sum(), given)))
    assert all(torch.equal(a, b) for a, b in zip(*results, strict=True))


def check_terms(nodes, heads, depth, *, dtype=torch.float32, att_dtype=None, device="cpu"):
    """Values and all gradients equal those of the reference in float64."""
    shapes, dtypes = ((nodes, heads, depth), (heads, depth), (heads, depth)), (dtype, *[att_dtype or dtype] * 2)
    given = [torch.randn(*s).to(device, kind).requires_grad_() for s, kind in zip(shapes, dtypes, strict=True)]
    assert all(o.dtype == torch.promote_types(dtype, att_dtype or dtype) for o in node_scores(*given))
    same(node_scores, node_scores_reference, given, TERM_TOLERANCE[dtype])


@pytest.mark.parametrize(("nodes", "heads", "depth"), [(0, 2, 7), (1, 1, 1), (70, 3, 20), (70, 8, 3), (70, 1, 33)])
def test_terms_and_gradients_are_those_of_the_reference(nodes, heads, depth):
    check_terms(nodes, heads, depth)


def test_nodes_are_divided_into_parts_and_heads_into_groups(monkeypatch):
    monkeypatch.setattr(gat_gpu, "MAX_PARTS", 3)
    check_terms(70, 3, 260)
    check_terms(300, 2, 17)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_terms_in_half_precision_equal_the_reference(dtype):
    check_terms(20, 2, 5, dtype=dtype)
    check_terms(20, 2, 5, dtype=dtype, att_dtype=torch.float32)  # as autocast has it


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
def test_a_gpu_gives_the_terms_of_the_reference(nodes, heads, depth, dtype):
    check_terms(nodes, heads, depth, dtype=dtype, device="cuda")
