"""Parts of the kernels that the whole, tested in test_gated_gpu.py, shows only together."""

import pytest
import torch

from lrga.ops._triton import HAS_TRITON
from lrga.ops.neighbors.edges import EdgeLayout

pytestmark = pytest.mark.skipif(not HAS_TRITON, reason="Triton is not installed")
DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
D = 5


@pytest.mark.parametrize("programs", [1, 2, 7, 12])
def test_sums_over_the_edges_that_leave_a_node(programs):
    from lrga.ops.gated.kernels import backward_by_source

    layout = EdgeLayout.from_edge_index(torch.randint(0, 6, (2, 60)), 7)[0].to(DEVICE)
    grad, e_hat = (torch.randn(60, D, device=DEVICE) for _ in range(2))
    grad_total = torch.randn(7, D, device=DEVICE)
    of_gated, of_source = (torch.full((8, D), torch.nan, device=DEVICE) for _ in range(2))
    backward_by_source[(1, programs)](
        grad, e_hat, grad_total, layout.out_target, layout.out_order, layout.out_ptr, of_gated, of_source, 7,
        -(-7 // programs), D=D, FAST=False, BLOCK_E=4, BLOCK_D=16,
    )  # fmt: skip
    zeros = torch.zeros(7, D, device=DEVICE)
    torch.testing.assert_close(of_source[:7], zeros.index_add(0, layout.source, grad))
    wanted = zeros.index_add(0, layout.source, e_hat.sigmoid() * grad_total[layout.target])
    torch.testing.assert_close(of_gated[:7], wanted)
    assert of_gated[7].isnan().all()
    assert of_source[7].isnan().all()


@pytest.mark.parametrize("outlier", [1.0, 1e4])
def test_statistics_do_not_depend_on_which_row_they_are_counted_from(outlier):
    from lrga.ops.gated.kernels import forward_by_target

    layout = EdgeLayout.from_edge_index(torch.randint(0, 6, (2, 90)), 6)[0].to(DEVICE)
    e_hat = torch.randn(90, D, device=DEVICE) + 50
    e_hat[0] += outlier  # the row that the first program counts from
    nodes = torch.randn(6, D, device=DEVICE)
    mean, below = (torch.full((6, D), torch.nan, device=DEVICE) for _ in range(2))
    counts, parts = torch.full((2,), torch.nan, device=DEVICE), torch.full((2, 2, D), torch.nan, device=DEVICE)
    forward_by_target[(1, 2)](
        e_hat, nodes, nodes, nodes, e_hat, layout.source, layout.in_ptr, e_hat, mean, below, counts, parts, 6, 3,
        D, D, D, D=D, JOIN=False, STATISTICS=True, SCALED=False, FAST=False, BLOCK_E=4, BLOCK_D=16,
    )  # fmt: skip
    for place, (first, end) in enumerate(
        zip(layout.in_ptr[[0, 3]].tolist(), layout.in_ptr[[3, 6]].tolist(), strict=True)
    ):
        rows = e_hat[first:end].double()
        assert counts[place] == end - first
        torch.testing.assert_close(parts[0, place].double(), rows.mean(0), rtol=1e-5, atol=0)
        squares = (rows - rows.mean(0)).square().sum(0)
        torch.testing.assert_close(parts[1, place].double(), squares, rtol=1e-4, atol=0)
