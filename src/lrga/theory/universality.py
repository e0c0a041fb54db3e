"""Proposition 1: one layer of message passing and a DeepSets network compute graph functions, here the triangles.

The layer gives every node [x_i, r_i, (AR)_i]; the DeepSets network, Σ_i φ(·) and then ρ, sees a set of nodes only.
With

    φ(x_i, r_i, (AR)_i) = (AR)_i r_iᵀ,    S = Σ_i φ = (AR)ᵀ R = Rᵀ A R  (for undirected graphs),    ρ(S) = tr(S³) / 6

it computes tr((Rᵀ A R)³)/6 = tr((A R Rᵀ)³)/6 ≈ tr(A³)/6, the number of triangles. Here R has entries of variance 1/d.
"""

import torch
from torch import Tensor, nn

from lrga.errors import OptionError
from lrga.nn.random_features import DISTRIBUTIONS
from lrga.theory.inputs import GraphLike, as_graph


class TriangleDeepSets(nn.Module):
    """DeepSets with constructed weights: a linear layer, squares, a linear layer, the sum over nodes, tr(S³)/6.

    Products are made of squares, a r = ((a + r)² − (a − r)²) / 4, so that φ is a two-layer network.

    Args:
        channels: d.
        num_features: F, columns of X, which triangles do not need.

    Shapes:
        - h: ``[n, F + 2d]``, the columns [X, R, AR]
        - result: a scalar
    """

    def __init__(self, channels: int, num_features: int = 0) -> None:
        super().__init__()
        self.channels, self.num_features = channels, num_features
        one = torch.eye(channels, dtype=torch.float64)
        propagated = one.repeat_interleave(channels, dim=0)  # row p d + q picks (AR)_p
        random = one.repeat(channels, 1)  # and R_q
        unused = torch.zeros(channels**2, num_features, dtype=torch.float64)
        plus, minus = (torch.cat([unused, sign * random, propagated], dim=1) for sign in (1, -1))
        self.weight = nn.Parameter(torch.cat([plus, minus]), requires_grad=False)  # [2 d², F + 2 d]

    def forward(self, h: Tensor) -> Tensor:
        plus, minus = (h @ self.weight.T).square().chunk(2, dim=1)
        total = ((plus - minus) / 4).sum(dim=0).view(self.channels, self.channels)  # (AR)ᵀ R
        return torch.trace(total @ total @ total) / 6


def count_triangles(graph: GraphLike) -> int:
    """tr(A³)/6, exactly.

    Example:
        >>> count_triangles([(0, 1), (1, 2), (2, 0), (2, 3)])
        1
    """
    graph = as_graph(graph)
    if not graph.symmetric or (graph.source == graph.target).any():
        raise OptionError("an undirected graph without self-loops", repr(graph), "pass directed=False to as_graph")
    matrix = graph.adjacency()
    return int((matrix @ matrix * matrix).sum()) // 6


def triangle_error(
    graph: GraphLike,
    channels: int,
    *,
    trials: int = 64,
    distribution: str = "rademacher",
    generator: torch.Generator | None = None,
) -> float:
    """Root mean square of (estimate − triangles) / triangles over draws of R; falls as d^(-1/2).

    The trace is taken over nodes, tr((A R Rᵀ)³), which is the same number as the network's and cheaper for large d.
    """
    graph = as_graph(graph)
    exact = count_triangles(graph)
    if not exact:
        raise OptionError("a graph with triangles", "none", "the error is relative to their number")
    adjacency = torch.from_numpy(graph.adjacency()).to(torch.float64)
    drawn = DISTRIBUTIONS[distribution](trials * graph.num_nodes, channels, generator=generator).to(torch.float64)
    drawn = drawn.view(trials, graph.num_nodes, channels)
    product = adjacency @ (drawn @ drawn.transpose(1, 2))  # [trials, n, n]
    estimate = (product @ product * product.transpose(1, 2)).sum(dim=(1, 2)) / 6
    return float((estimate / exact - 1).square().mean().sqrt())
