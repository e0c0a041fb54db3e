"""The kernel of the map of edges itself; what it computes is tested in test_edge_map.py."""

import pytest
import torch

from lrga.ops._triton import HAS_TRITON

pytestmark = pytest.mark.skipif(not HAS_TRITON, reason="Triton is not installed")
DEVICE = "cuda" if torch.cuda.is_available() else "cpu"


@pytest.mark.parametrize("programs", [1, 3, 9])
@pytest.mark.parametrize("forward", [True, False])
def test_every_row_is_written_by_one_program_and_nothing_behind_the_end(programs, forward):
    import triton.language as tl

    from lrga.ops.gated.kernels import map_edges

    edges, width = 75, 20
    x = torch.randn(edges, width, device=DEVICE)
    out = torch.full((edges + 16, width), torch.nan, device=DEVICE)
    in_ptr = torch.tensor([0, 70], device=DEVICE)
    zeros, node = torch.zeros(1, width, device=DEVICE), torch.zeros(edges, dtype=torch.int64, device=DEVICE)
    map_edges[(programs,)](
        x, torch.eye(width, device=DEVICE), zeros, zeros, zeros, node, node, x, in_ptr, out, 1, edges, width, width,
        INNER=width, OUTER=width, STRIDE_I=1, STRIDE_O=width, FORWARD=forward, ADDED=False, STAGES=2,
        COMPUTE=tl.float32, PRECISION="tf32x3", BM=16, I0=16, I1=16, O0=32, O1=0,
    )  # fmt: skip
    torch.testing.assert_close(out[:70], x[:70])
    assert not out[70:edges].any()
    assert out[edges:].isnan().all()
