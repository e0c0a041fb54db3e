"""Maxima by Triton's kernels against the reference: in its interpreter here, on a GPU with `pytest -m gpu`."""

import pytest

pytest.importorskip("triton")

import torch

from lrga.errors import UnsupportedError
from lrga.ops.neighbors.edges import EdgeLayout
from lrga.ops.neighbors.gpu import max_sources, max_sources_op
from lrga.ops.neighbors.reduce import max_sources_reference

DTYPES = [torch.float32, torch.bfloat16, torch.float16]

pytestmark = [
    pytest.mark.usefixtures("poisoned"),
    # Said of the reference on a GPU while memory is poisoned; it is not what is tested.
    pytest.mark.filterwarnings("ignore:.*does not have a deterministic implementation"),
]


def edges(num_nodes, num_edges):
    """Repeated edges and self-loops; the last nodes have none."""
    return EdgeLayout.from_edge_index(torch.randint(0, max(num_nodes - 2, 1), (2, num_edges)), num_nodes)[0]


def check(layout, width, dtype=torch.float32, device="cpu", values=None):
    """Values are equal to the bit, gradients to rounding, ties among them."""
    if values is None:  # few different values: many ties
        values = torch.randint(-3, 2, (layout.num_nodes, width)) * 0.5
    layout = layout.to(device)
    x = values.to(device, dtype).requires_grad_()
    wide = x.detach().double().requires_grad_()
    out, expected = max_sources(x, layout), max_sources_reference(wide, layout)
    assert torch.equal(out.double(), expected)
    upstream = torch.randn(x.shape, device=device, dtype=torch.float64).to(dtype)
    (grad,) = torch.autograd.grad(out, x, upstream)
    (wanted,) = torch.autograd.grad(expected, wide, upstream.double())
    tolerance = {torch.float32: 1e-5, torch.bfloat16: 3e-2, torch.float16: 4e-3}[dtype]
    torch.testing.assert_close(grad.double(), wanted, rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("width", [1, 7, 33])
@pytest.mark.parametrize("dtype", DTYPES)
def test_maxima_and_shared_gradients_are_those_of_the_reference(width, dtype):
    check(edges(11, 60), width, dtype)


@pytest.mark.parametrize("size", [(0, 0), (3, 0), (1, 4)])
def test_graphs_without_nodes_or_edges_have_zero_maxima(size):
    check(edges(*size), 3)


def test_the_largest_of_infinite_values_is_found():
    values = torch.tensor([[-torch.inf, torch.inf], [0.5, 1.0], [2.0, torch.inf]])
    check(EdgeLayout.from_edge_index(torch.tensor([[0, 1, 2, 1], [2, 2, 1, 1]]), 3)[0], 2, values=values)


def test_a_number_that_is_none_is_the_largest():
    layout, _ = EdgeLayout.from_edge_index(torch.tensor([[0, 1, 2], [2, 2, 0]]), 3)
    out = max_sources(torch.tensor([[1.0], [torch.nan], [3.0]]), layout)
    assert out[2].isnan()
    assert out[0] == 3


@pytest.mark.gpu
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("width", [1, 7, 60, 100, 172, 257])
@pytest.mark.parametrize("size", [(1, 5), (5, 0), (300, 20_000), (7_600, 200_000)])
def test_a_gpu_equals_the_reference(size, width, dtype):
    layout = edges(*size)
    check(layout, width, dtype, "cuda")
    check(layout, width, dtype, "cuda", torch.randn(layout.num_nodes, width))


def test_a_second_derivative_is_refused():
    x = torch.randn(8, 2, requires_grad=True)
    (grad,) = torch.autograd.grad(max_sources(x, edges(8, 20)).square().sum(), x, create_graph=True)
    with pytest.raises(UnsupportedError, match="max_gradient"):
        grad.sum().backward()


def test_the_operator_passes_the_checks_of_pytorch():
    layout = edges(8, 30)
    x = torch.randn(8, 2, requires_grad=True)
    torch.library.opcheck(
        max_sources_op.custom_op, (x, layout.source, layout.in_ptr, layout.out_target, layout.out_ptr)
    )
