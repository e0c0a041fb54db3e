"""What tests of kernels share: graphs, and the comparison with the definition in float64."""

import pytest
import torch
from torch import Tensor

from lrga.ops.neighbors.edges import EdgeLayout

POISONED = [
    pytest.mark.usefixtures("poisoned"),
    # Said of the reference on a GPU while memory is poisoned; it is not what is tested.
    pytest.mark.filterwarnings("ignore:.*does not have a deterministic implementation"),
]


def edges(
    num_nodes: int, num_edges: int, device: str = "cpu", *, hub_in: bool = True, hub_out: bool = True
) -> EdgeLayout:
    """Repeated edges and self-loops; the last nodes have none; one node has many edges in, one many out."""
    edge_index = torch.randint(0, max(num_nodes - 2, 1), (2, num_edges))
    if hub_in:
        edge_index[1, : num_edges // 3] = 1 % max(num_nodes, 1)
    if hub_out:
        edge_index[0, num_edges // 3 : num_edges // 2] = 2 % max(num_nodes, 1)
    return EdgeLayout.from_edge_index(edge_index, num_nodes)[0].to(device)


def padded(layout: EdgeLayout, nodes: int, num_edges: int, *, counted: bool = False) -> EdgeLayout:
    """The layout filled up with further nodes and edges that none of them sums; ``counted`` says which are real."""
    device, more, last = layout.device, layout.num_edges + num_edges, layout.num_nodes + nodes - 1
    fill = torch.full((num_edges,), last, device=device)
    real = layout.in_ptr[-1].expand(nodes)
    return EdgeLayout(
        torch.cat([layout.source, fill]),
        torch.cat([layout.target, fill]),
        last + 1,
        torch.cat([layout.in_ptr, real]),
        torch.cat([layout.out_order, torch.arange(layout.num_edges, more, device=device)]),
        torch.cat([layout.out_ptr, real]),
        valid_edges=torch.tensor(layout.num_edges, device=device) if counted else None,
    )


def same(fast, plain, inputs: list[Tensor], tolerance: float) -> None:
    """Values and the gradient of each input of ``fast`` equal those of ``plain`` in float64."""
    mine = [t.detach().clone().requires_grad_(t.requires_grad) for t in inputs]
    theirs = [t.detach().double().requires_grad_(t.requires_grad) for t in inputs]
    out, expected = ((found,) if isinstance(found, Tensor) else found for found in (fast(*mine), plain(*theirs)))
    upstream = [torch.randn_like(o) for o in out]
    got = torch.autograd.grad(out, [t for t in mine if t.requires_grad], upstream)
    wanted = torch.autograd.grad(expected, [t for t in theirs if t.requires_grad], [u.double() for u in upstream])
    assert [g.dtype for g in got] == [t.dtype for t in mine if t.requires_grad]
    for a, b in zip((*out, *got), (*expected, *wanted), strict=True):
        assert a.shape == b.shape
        size = max(1.0, float(b.detach().abs().max())) if b.numel() else 1.0
        torch.testing.assert_close(a.double(), b, rtol=tolerance, atol=tolerance * size)


def distance(ours: Tensor, exact: Tensor) -> float:
    """In the Euclidean norm, as a part of ``exact``'s; NaN is refused."""
    assert not ours.isnan().any()
    return float((ours.detach().double() - exact.detach()).norm() / exact.detach().norm().clamp(min=1e-3))
