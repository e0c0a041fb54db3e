import math

import pytest
import torch

from lrga.ops.gated.definition import gated_edges, gated_edges_reference
from lrga.ops.neighbors.edges import EdgeLayout
from lrga.ops.norm.definition import BatchNormState

N, E, D = 6, 14, 3


def inputs(in_channels=D):
    torch.manual_seed(1)
    edge_attr, weight, bias = torch.randn(E, in_channels), torch.randn(D, in_channels), torch.randn(D)
    return [t.double() for t in (edge_attr, weight, bias, torch.randn(N, D), torch.randn(N, D), torch.randn(N, D))]


def test_reference_equals_loops_over_edges():
    edge_attr, weight, bias, gated, from_source, from_target = tensors = inputs()
    edge_index = torch.randint(0, N - 1, (2, E))
    mean, new = gated_edges_reference(*tensors, edge_index, norm=None)
    for d in range(D):
        above, below = [0.0] * N, [0.0] * N
        for e, (j, i) in enumerate(edge_index.t().tolist()):
            gate = float(edge_attr[e] @ weight[d] + bias[d] + from_source[j, d] + from_target[i, d])
            sigma = 1 / (1 + math.exp(-gate))
            above[i] += sigma * float(gated[j, d])
            below[i] += sigma
            assert math.isclose(float(new[e, d]), float(edge_attr[e, d]) + max(gate, 0.0), abs_tol=1e-12)
        for i in range(N):
            assert math.isclose(float(mean[i, d]), above[i] / (below[i] + 1e-6), abs_tol=1e-12)


def test_layout_and_plain_edges_agree():
    edge_index = torch.randint(0, N - 1, (2, E))
    layout, order = EdgeLayout.from_edge_index(edge_index, N)
    tensors = inputs()
    results = []
    for edges, permutation in ((edge_index, torch.arange(E)), (layout, order)):
        norm = BatchNormState(torch.rand(D).double(), torch.rand(D).double(), *fresh_statistics(), None, 0.1, 1e-5)
        torch.manual_seed(5)
        norm.weight.copy_(torch.rand(D))
        norm.bias.copy_(torch.rand(D))
        mean, new = gated_edges(tensors[0][permutation], *tensors[1:], edges, norm=norm)
        given = torch.empty_like(new).index_copy(0, permutation, new)
        results.append((mean, given, norm.mean, norm.var))
    for a, b in zip(*results, strict=True):
        torch.testing.assert_close(a, b, rtol=1e-12, atol=1e-12)


def test_any_function_serves_as_the_normalisation():
    layout, _ = EdgeLayout.from_edge_index(torch.randint(0, N, (2, E)), N)
    tensors = inputs()
    _, plain = gated_edges(*tensors, layout, norm=None, residual=False)
    _, doubled = gated_edges(*tensors, layout, norm=lambda e: 2 * e, residual=False)
    torch.testing.assert_close(doubled, 2 * plain)


def fresh_statistics():
    return torch.zeros(D).double(), torch.ones(D).double()


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_means_of_half_precision_do_not_overflow(dtype):
    edges = torch.stack([torch.arange(1, 2001), torch.zeros(2000, dtype=torch.int64)])
    gated = torch.full((2001, 2), 100.0, dtype=dtype)
    zeros = torch.zeros(2001, 2, dtype=dtype)
    weight, edge_attr = torch.zeros(2, 2, dtype=dtype), torch.zeros(2000, 2, dtype=dtype)
    layout, _ = EdgeLayout.from_edge_index(edges, 2001)
    for form in (edges, layout):
        mean, _ = gated_edges(edge_attr, weight, weight[0], gated, zeros, zeros, form, norm=None)
        assert mean.dtype == dtype
        assert torch.equal(mean[0], torch.full((2,), 100.0, dtype=dtype))
