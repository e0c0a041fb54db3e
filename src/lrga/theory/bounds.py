"""Random features (propositions 1 and 2), with the bounds of the appendix.

Proposition 1, appendix: the number of random features for (1/d) R Rᵀ ≈ I, by Hoeffding's inequality.

R is ``[n, d]`` with independent entries of mean 0 and variance 1, bounded by M/2 in absolute value. The paper bounds

    P(|(1/d) Σ_l R_il R_jl − I_ij| ≥ t) ≤ 2 exp(−2 d t² / M⁴)

and, for all entries together, n² times this. A product of two entries is in [−M²/4, M²/4], an interval of length M²/2,
not M². Hoeffding's inequality therefore gives the exponent −8 d t² / M⁴: the paper's bound is correct, but its exponent
is a factor of four too small. Functions here return the paper's bound. With ``sharp=True`` they return the sharper one,
which also counts (i, j) and (j, i) once and uses ‖·‖_F ≤ n max|·| instead of n².

Proposition 1: one message-passing layer and a DeepSets network compute graph functions, here the number of triangles.

The layer computes [x_i, r_i, (AR)_i] for every node. The DeepSets network ρ(Σ_i φ(·)) sees only the set of nodes. With

    φ(x_i, r_i, (AR)_i) = (AR)_i r_iᵀ,    S = Σ_i φ = (AR)ᵀ R = Rᵀ A R  (for undirected graphs),    ρ(S) = tr(S³) / 6

it computes tr((Rᵀ A R)³)/6 = tr((A R Rᵀ)³)/6 ≈ tr(A³)/6, the number of triangles. Here R has entries of variance 1/d.

Proposition 2: networks with random features are permutation equivariant in expectation.

For a graph with adjacency A and a permutation P, GNN(P[X, R], P A Pᵀ) = P GNN([X, R], A), and P R has the same
distribution as R. So the expectations over R of RGNN(P A Pᵀ) and P RGNN(A) are equal, and averages over s independent
draws differ by O(s^(-1/2)). Features that are drawn once and fixed (node identifiers) do not have this property: their
gap does not shrink.
"""

import math

import torch
from torch import Tensor, nn
from torch_geometric.nn import GraphConv, Sequential

from lrga.checks import check_choice
from lrga.errors import OptionError
from lrga.nn.random_features import DISTRIBUTIONS, RandomFeatures
from lrga.theory.labelled import GraphLike, LabelledGraph, as_graph

# Twice the largest absolute value, for variance 1.
RANGES = {"rademacher": 2.0, "uniform": 2 * math.sqrt(3)}
_CHUNK = 2**24  # random numbers drawn at once


def entry_bound(channels: int, deviation: float, width: float, *, sharp: bool = False) -> float:
    """Bound on the probability that one entry of (1/d) R Rᵀ deviates by ``deviation`` or more.

    Args:
        channels: d.
        deviation: t.
        width: M, twice the largest absolute value of an entry of R.
        sharp: Whether to use the exponent of Hoeffding's inequality instead of the paper's.
    """
    _check_positive(channels=channels, deviation=deviation)
    _check_width(width)
    factor = 8 if sharp else 2
    return 2 * math.exp(-factor * channels * deviation**2 / width**4)


def matrix_bound(num_nodes: int, channels: int, deviation: float, width: float, *, sharp: bool = False) -> float:
    """Bound on the probability that any entry deviates by ``deviation`` or more (union bound).

    Example:
        >>> round(matrix_bound(6, 200, 0.5, width=2.0), 3), matrix_bound(6, 200, 0.5, width=2.0, sharp=True) < 1e-9
        (0.139, True)
    """
    _check_positive(num_nodes=num_nodes)
    entries = num_nodes * (num_nodes + 1) / 2 if sharp else num_nodes**2
    return entries * entry_bound(channels, deviation, width, sharp=sharp)


def channels_for(
    num_nodes: int, xi: float, delta: float, width: float, *, adjacency_norm: float | None = None, sharp: bool = False
) -> int:
    """The d for which ‖(1/d) A R Rᵀ − A‖_F < ξ with probability 1 − δ.

    The paper sets t = ξ / (n² ‖A‖_F) and requires 2 n² exp(−2 d t² / M⁴) < δ, so
    d = (M⁴ / 2) n⁴ ‖A‖_F² / ξ² · log(2 n² / δ), where ‖A‖_F ≤ n.

    Args:
        num_nodes: n.
        xi: ξ, the bound on the error.
        delta: δ, the probability of failure.
        width: M.
        adjacency_norm: ‖A‖_F; n by default.
        sharp: Whether to use t = ξ / (n ‖A‖_F) and the sharp bound, which need fewer channels by a factor above n².

    Example:
        >>> channels_for(4, 1.0, 0.1, width=2.0), channels_for(4, 1.0, 0.1, width=2.0, sharp=True)
        (189017, 2713)
    """
    _check_positive(num_nodes=num_nodes, xi=xi, delta=delta)
    _check_width(width)
    norm = float(num_nodes) if adjacency_norm is None else adjacency_norm
    _check_positive(adjacency_norm=norm)
    if sharp:
        deviation = xi / (num_nodes * norm)
        return math.ceil(width**4 / (8 * deviation**2) * math.log(num_nodes * (num_nodes + 1) / delta))
    deviation = xi / (num_nodes**2 * norm)
    return math.ceil(width**4 / (2 * deviation**2) * math.log(2 * num_nodes**2 / delta))


def observed_deviation(
    num_nodes: int,
    channels: int,
    deviation: float,
    *,
    distribution: str = "rademacher",
    trials: int = 10_000,
    generator: torch.Generator | None = None,
) -> tuple[float, float]:
    """How often (1/d) R Rᵀ deviates by ``deviation`` or more, over many draws of R.

    Returns:
        The frequency for the entry (0, 1), and for any of the entries.
    """
    _check_positive(channels=channels, deviation=deviation, trials=trials)
    if num_nodes < 2:
        raise OptionError("two nodes or more", str(num_nodes), "pass at least 2: the entry (0, 1) is observed")
    check_choice("a bounded distribution", distribution, tuple(RANGES))
    one_entry = any_entry = 0
    step = max(_CHUNK // (num_nodes * channels), 1)
    for start in range(0, trials, step):
        count = min(step, trials - start)
        drawn = DISTRIBUTIONS[distribution](count * num_nodes, channels, generator=generator)  # R / √d
        drawn = drawn.view(count, num_nodes, channels)
        off = (drawn @ drawn.transpose(1, 2) - torch.eye(num_nodes)).abs() >= deviation
        one_entry += int(off[:, 0, 1].sum())
        any_entry += int(off.flatten(1).any(dim=1).sum())
    return one_entry / trials, any_entry / trials


def _check_positive(**values: float) -> None:
    for name, value in values.items():
        if not isinstance(value, int | float) or isinstance(value, bool) or not value > 0:
            raise OptionError(f"{name} above 0", repr(value), "pass a positive number")


def _check_width(width: float) -> None:
    # |x| < M/2 and E x² = 1 imply M ≥ 2.
    if not isinstance(width, int | float) or not width >= 2:
        expected = "width M of 2 or more (entries of variance 1 reach at least ±1)"
        raise OptionError(expected, repr(width), "use 2 for ±1, 3.47 for uniform")


class TriangleDeepSets(nn.Module):
    """DeepSets with constructed weights: a linear layer, squares, a linear layer, the sum over nodes, tr(S³)/6.

    Products are computed from squares, a r = ((a + r)² − (a − r)²) / 4, so φ is a two-layer network.

    Args:
        channels: d.
        num_features: F, the number of columns of X, which are not used.

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
        raise OptionError("a graph with triangles", "none", "use another graph: the error is relative to their number")
    adjacency = torch.from_numpy(graph.adjacency()).to(torch.float64)
    drawn = DISTRIBUTIONS[distribution](trials * graph.num_nodes, channels, generator=generator).to(torch.float64)
    drawn = drawn.view(trials, graph.num_nodes, channels)
    product = adjacency @ (drawn @ drawn.transpose(1, 2))  # [trials, n, n]
    estimate = (product @ product * product.transpose(1, 2)).sum(dim=(1, 2)) / 6
    return float((estimate / exact - 1).square().mean().sqrt())


_COPIES = 256  # copies of the graph in one pass


def equivariance_gap(
    graph: GraphLike, samples: int, *, channels: int = 8, held: bool = False, generator: torch.Generator | None = None
) -> float:
    """Root mean square of RGNN(P G) − P RGNN(G), each averaged over its own draws of random features.

    Args:
        graph: Any graph that :func:`lrga.theory.as_graph` reads.
        samples: Number of draws in each of the two averages.
        channels: Random features per node.
        held: Draw the features once and fix them (node identifiers), for comparison.
        generator: Source of the features, the weights of the network and the permutation.
    """
    graph = as_graph(graph)
    generator = torch.Generator().manual_seed(0) if generator is None else generator
    layers = [GraphConv(channels, 16, aggr="mean"), GraphConv(16, 1, aggr="mean")]
    calls = [call for layer in layers for call in ((layer, "x, edge_index -> x"), nn.Tanh())]  # bounded outputs
    model = Sequential("x, edge_index", calls)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.copy_(torch.randn(parameter.shape, generator=generator))
        network = RandomFeatures(model, channels, mode="replace", resample=not held, generator=generator).eval()
        order = torch.randperm(graph.num_nodes, generator=generator)
        plain = _mean_output(network, graph, 1 if held else samples)
        moved = _mean_output(network, graph.permuted(order.tolist()), 1 if held else samples)
    return float((moved[order] - plain).square().mean().sqrt())  # node i of the graph is node order[i] of the copy


def _mean_output(network: nn.Module, graph: LabelledGraph, samples: int) -> Tensor:
    """Average over draws: many copies of the graph in one batch, each with its own random features."""
    edge_index = torch.stack([torch.from_numpy(graph.source), torch.from_numpy(graph.target)])
    total, left = torch.zeros(graph.num_nodes), samples
    while left:
        copies = min(left, _COPIES)
        shift = graph.num_nodes * torch.arange(copies).repeat_interleave(edge_index.size(1))
        out = network(torch.zeros(copies * graph.num_nodes, 1), edge_index.repeat(1, copies) + shift)
        total += out.view(copies, graph.num_nodes).sum(dim=0)
        left -= copies
    return total / samples
