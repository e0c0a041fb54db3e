import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from lrga.ops.attention.reference import NORMALIZATIONS, attention_factors, dense_attention, segmented_attention
from lrga.ops.attention.segments import Segments

IMPLEMENTATIONS = [dense_attention, segmented_attention]


def factors(num_nodes, heads=2, rank=3, width=4, *, signed=False, dtype=torch.float64):
    draw = torch.randn if signed else torch.rand
    return tuple(draw(num_nodes, heads, k, dtype=dtype) for k in (rank, rank, width))


def formula_in_numpy(u, v, z, eps=1e-6):
    """(1/η) U (Vᵀ Z) of one graph, written from the paper's equations 2 and 3."""
    n = u.shape[0]
    ones = np.ones((n, 1))
    eta = ((ones.T @ u) @ (v.T @ ones)).item() / n
    return u @ (v.T @ z) / (eta + eps)


@pytest.mark.parametrize("implementation", IMPLEMENTATIONS)
def test_one_graph_equals_the_formula_in_numpy(implementation):
    u, v, z = factors(17, heads=1)
    expected = formula_in_numpy(u[:, 0].numpy(), v[:, 0].numpy(), z[:, 0].numpy())
    ours = implementation(u, v, z, Segments.from_batch(None, 17))
    np.testing.assert_allclose(ours[:, 0].numpy(), expected, rtol=1e-12)


@settings(deadline=None, max_examples=40)
@given(
    sizes=st.lists(st.integers(0, 30), min_size=1, max_size=6),
    shuffled=st.booleans(),
    normalize=st.sampled_from(NORMALIZATIONS),
    signed=st.booleans(),
)
def test_the_linear_form_equals_the_definition(sizes, shuffled, normalize, signed):
    batch = torch.repeat_interleave(torch.arange(len(sizes)), torch.tensor(sizes))
    batch = batch[torch.randperm(len(batch))] if shuffled else batch
    segments = Segments.from_batch(batch, len(batch), len(sizes))
    u, v, z = factors(len(batch), signed=signed)
    # eps large enough that signed row sums near zero do not amplify rounding
    dense = dense_attention(u, v, z, segments, normalize, 1e-2)
    torch.testing.assert_close(segmented_attention(u, v, z, segments, normalize, 1e-2), dense, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("normalize", NORMALIZATIONS)
@pytest.mark.parametrize("implementation", IMPLEMENTATIONS)
def test_first_and_second_derivatives_are_right(implementation, normalize):
    segments = Segments.from_batch(torch.tensor([1, 0, 1, 3, 1, 0]), 6, 5)
    inputs = tuple(t.requires_grad_() for t in factors(6, heads=1, rank=2, width=2))
    assert torch.autograd.gradcheck(lambda u, v, z: implementation(u, v, z, segments, normalize), inputs)
    assert torch.autograd.gradgradcheck(lambda u, v, z: implementation(u, v, z, segments, normalize), inputs)


@pytest.mark.parametrize("normalize", ["graph", "row"])
def test_factors_multiply_to_the_matrix_that_is_applied(normalize):
    batch = torch.tensor([0, 1, 0, 1, 1])
    segments = Segments.from_batch(batch, 5)
    u, v, z = factors(5)
    scaled, same_v = attention_factors(u, v, segments, normalize)
    assert same_v is v
    attended = segmented_attention(u, v, z, segments, normalize)
    for graph in (0, 1):
        nodes = batch == graph
        matrix = torch.einsum("ihk,jhk->hij", scaled[nodes], v[nodes])
        torch.testing.assert_close(torch.einsum("hij,jhz->ihz", matrix, z[nodes]), attended[nodes])
        if normalize == "row":
            torch.testing.assert_close(matrix.sum(-1), torch.ones(2, int(nodes.sum()), dtype=torch.float64))


@pytest.mark.parametrize("implementation", IMPLEMENTATIONS)
def test_a_negative_divisor_moves_away_from_zero(implementation):
    u, v, z = torch.ones(2, 1, 1), -torch.ones(2, 1, 1), torch.ones(2, 1, 1)
    out = implementation(u, v, z, Segments.from_batch(None, 2), "graph", 0.5)
    torch.testing.assert_close(out, torch.full((2, 1, 1), -2 / (-2 - 0.5)))  # η = (2 · -2) / 2


@pytest.mark.parametrize("dead", ["u", "v"])
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.float16, torch.bfloat16])
def test_eta_of_zero_gives_zeros_and_finite_gradients(dead, dtype):
    u, v, z = (torch.rand(6, 1, 3).to(dtype) for _ in range(3))
    (u if dead == "u" else v).zero_()
    inputs = [t.requires_grad_() for t in (u, v, z)]
    out = segmented_attention(*inputs, Segments.from_batch(torch.tensor([0, 0, 2, 2, 2, 3]), 6, 5))
    assert torch.equal(out, torch.zeros_like(out))
    out.sum().backward()
    assert all(t.grad.isfinite().all() for t in inputs)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
@pytest.mark.parametrize("implementation", IMPLEMENTATIONS)
def test_large_values_in_half_precision_do_not_overflow(implementation, dtype):
    n = 300
    u, v, z = (torch.full((n, 1, 30), 1e4, dtype=dtype).requires_grad_() for _ in range(3))
    out = implementation(u, v, z, Segments.from_batch(torch.arange(n) // 100, n))
    torch.testing.assert_close(out, torch.full_like(out, 1e4), rtol=1e-2, atol=0)
    out.float().mean().backward()
    assert all(t.grad.isfinite().all() for t in (u, v, z))


def test_half_precision_loses_only_its_own_rounding():
    u, v, z = (t.float() for t in factors(2000))
    segments = Segments.from_batch(None, 2000)
    exact = segmented_attention(u, v, z, segments)
    half = segmented_attention(u.bfloat16(), v.bfloat16(), z.bfloat16(), segments)
    assert half.dtype == torch.bfloat16
    torch.testing.assert_close(half.float(), exact, rtol=2e-2, atol=0)  # summing in bfloat16 would stall at 256


def test_without_eps_a_dead_graph_still_gives_zeros():
    u, v, z = torch.zeros(3, 1, 2, requires_grad=True), torch.ones(3, 1, 2), torch.ones(3, 1, 2)
    out = segmented_attention(u, v, z, Segments.from_batch(None, 3), "graph", 0.0)
    out.sum().backward()
    assert torch.equal(out, torch.zeros(3, 1, 2))
    assert u.grad.isfinite().all()


def test_factors_of_half_precision_do_not_underflow():
    u = torch.full((1000, 1, 8), 1e4, dtype=torch.float16)
    scaled, v = attention_factors(u, u, Segments.from_batch(None, 1000))
    torch.testing.assert_close(scaled[0, 0] @ v[0, 0], torch.tensor(1e-3), rtol=1e-3, atol=0)


@pytest.mark.parametrize("value", [float("nan"), float("inf"), -float("inf")])
@pytest.mark.parametrize("normalize", NORMALIZATIONS)
@pytest.mark.parametrize("implementation", IMPLEMENTATIONS)
def test_a_value_that_is_not_finite_stays_in_its_graph(implementation, normalize, value):
    batch = torch.tensor([2, 0, 1, 0, 2, 1, 0])
    segments, clean = Segments.from_batch(batch, 7, 4), batch != 1
    for spoiled in range(3):
        inputs = [t.requires_grad_() for t in factors(7, signed=True)]
        with torch.no_grad():
            inputs[spoiled][5] = value
        alone = [t.detach()[clean].requires_grad_() for t in inputs]
        out = implementation(*inputs, segments, normalize)
        expected = implementation(*alone, Segments.from_batch(batch[clean], 5, 4), normalize)
        torch.testing.assert_close(out[clean], expected)
        assert not out[5].isfinite().all()
        grads = torch.autograd.grad(out.square().sum(), inputs)
        for grad, of_alone in zip(grads, torch.autograd.grad(expected.square().sum(), alone), strict=True):
            torch.testing.assert_close(grad[clean], of_alone)


@pytest.mark.parametrize("normalize", NORMALIZATIONS)
def test_the_definition_is_traced_without_a_look_at_the_values(normalize):
    segments = Segments.from_batch(torch.tensor([1, 0, 1, 3, 1, 0]), 6, 5)
    inputs = [t.requires_grad_() for t in factors(6)]
    with torch.no_grad():
        inputs[0][3] = float("nan")
    traced = torch.compile(dense_attention, fullgraph=True, backend="eager")(*inputs, segments, normalize)
    expected = dense_attention(*inputs, segments, normalize)
    torch.testing.assert_close(traced, expected, equal_nan=True)
    grads, wanted = (torch.autograd.grad(out.square().sum(), inputs) for out in (traced, expected))
    torch.testing.assert_close(grads, wanted, equal_nan=True)


def test_the_definition_of_tensors_without_values_has_their_shape():
    meta = [t.to("meta") for t in factors(6)]
    segments = Segments.from_batch(torch.empty(6, dtype=torch.int64, device="meta"), 6, 3)
    assert dense_attention(*meta, segments).shape == (6, 2, 4)
