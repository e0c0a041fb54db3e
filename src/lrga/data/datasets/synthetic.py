r"""Large random graphs with two properties that make real graphs hard: power-law degrees and communities.

Every node has a weight drawn from a power law and belongs to a community of consecutive nodes. Both ends of an
undirected edge are drawn with probability proportional to the weights, within one community except for a fraction
``mixing`` of the edges (a degree-corrected stochastic block model). Repeated edges and loops are drawn again.

Letters: N nodes, P undirected edges, E = 2 P directed edges, C communities, D features.
"""

import math
from typing import Any

import torch
from torch import Tensor
from torch_geometric.data import Data

from lrga.checks import check_count, check_fraction
from lrga.errors import DTypeError, OptionError

ROUNDS = 30  # most rounds of drawing repeated edges again
SPARE = 1.05  # oversampling, because some edges repeat
BLOCK = 1 << 22  # pairs drawn at a time: about 100 MB


def synthetic_edges(
    num_nodes: int,
    edges_per_node: float = 20,
    *,
    communities: int | None = None,
    exponent: float = 2.5,
    mixing: float = 0.2,
    seed: int = 0,
    device: str | torch.device = "cpu",
) -> Tensor:
    """Edges ``[2, E]`` int64 of a random graph, in both directions, without loops or repeats.

    Args:
        num_nodes: N; ten million nodes take about 5 GB of memory and, on two cores, less than a minute.
        edges_per_node: E / N, counting directed edges.
        communities: Number of blocks of consecutive nodes, by default one per 1,000 nodes.
        exponent: Exponent of the power law of the degrees, above 2.
        mixing: Fraction of the edges that ignore communities.
        seed: The same seed gives the same graph on the same type of device.
        device: Device on which the graph is generated.

    Example:
        >>> edge_index = synthetic_edges(1000, 20, communities=10)
        >>> edge_index.shape
        torch.Size([2, 20000])
    """
    check_count("num_nodes", num_nodes)
    check_fraction("mixing", mixing)
    communities = max(num_nodes // 1000, 1) if communities is None else communities
    check_count("communities", communities, minimum=1)
    check_count("seed", seed)
    if not isinstance(edges_per_node, int | float):
        got = f"{edges_per_node!r} ({type(edges_per_node).__name__})"
        raise DTypeError("edges_per_node to be a number", got, "pass for example 20")
    if not exponent > 2 or not math.isfinite(exponent):
        raise OptionError("an exponent above 2, for a finite mean degree", repr(exponent), "pass for example 2.5")
    if not edges_per_node >= 0 or edges_per_node > max(num_nodes - 1, 0):
        expected = f"at least 0 and at most {max(num_nodes - 1, 0)} edges per node for {num_nodes} nodes"
        raise OptionError(expected, repr(edges_per_node), "use fewer edges or more nodes")
    wanted = int(num_nodes * edges_per_node) // 2
    generator = torch.Generator(device).manual_seed(seed)
    stubs = _Stubs(num_nodes, wanted, communities, exponent, mixing, generator)
    keys, worth = torch.empty(0, dtype=torch.int64, device=device), 1.0
    for _ in range(ROUNDS):
        found = keys.numel()
        if found >= wanted:
            break
        # worth: new edges per drawn pair; it decreases as pairs between hubs run out.
        drawn = int((wanted - found) * SPARE / max(worth, 0.05)) + 64
        keys = torch.cat([keys, stubs.draw(drawn, generator)]).unique()
        worth = (keys.numel() - found) / drawn
    surplus = keys.numel() - wanted
    if surplus < 0:
        got = f"{2 * keys.numel():,} after {ROUNDS} rounds: communities of {num_nodes // communities} nodes are full"
        raise OptionError(f"{2 * wanted:,} different edges", got, "use fewer edges or fewer communities")
    keep = torch.ones(keys.numel(), dtype=torch.bool, device=device)
    keep[torch.randperm(keys.numel(), generator=generator, device=device)[:surplus]] = False
    keys = keys[keep]
    edge_index = torch.empty(2, 2 * wanted, dtype=torch.int64, device=device)
    torch.div(keys, max(num_nodes, 1), rounding_mode="floor", out=edge_index[0, :wanted])
    torch.remainder(keys, max(num_nodes, 1), out=edge_index[1, :wanted])
    del keys
    edge_index[0, wanted:], edge_index[1, wanted:] = edge_index[1, :wanted], edge_index[0, :wanted]
    return edge_index


def synthetic_graph(
    num_nodes: int,
    edges_per_node: float = 20,
    *,
    features: int = 16,
    classes: int = 4,
    noise: float = 2.0,
    **options: Any,
) -> Data:
    """A random graph with node features, classes given by the communities, and a split of the nodes.

    Its attributes are ``edge_index`` ``[2, E]``, both directions of every edge; ``x`` ``[N, D]``, noise around the
    centre of the node's class; ``y`` and ``community`` ``[N]``; ``train_mask``, ``val_mask`` and ``test_mask``
    ``[N]``, with 80, 10 and 10% of the nodes.

    Args:
        num_nodes: N.
        edges_per_node: E / N.
        features: D.
        classes: Number of classes, assigned to the communities in turn.
        noise: Standard deviation of the features around the centre of their class. Above 1, a node's own features
            are not enough to predict its class, but the mean over its neighbours is.
        **options: Options of :func:`synthetic_edges`.

    Example:
        >>> graph = synthetic_graph(500, 10, communities=5)
        >>> graph.x.shape, graph.num_edges, int(graph.train_mask.sum())
        (torch.Size([500, 16]), 5000, 400)
    """
    check_count("features", features, minimum=1)
    check_count("classes", classes, minimum=1)
    if not 0 <= noise < math.inf:
        raise OptionError("noise of at least 0, a standard deviation", repr(noise), "pass for example 2.0")
    edge_index = synthetic_edges(num_nodes, edges_per_node, **options)
    device = edge_index.device
    count = options.get("communities") or max(num_nodes // 1000, 1)
    community = _communities(num_nodes, count, device)
    y = community % classes
    generator = torch.Generator(device).manual_seed(options.get("seed", 0) + 1)
    centres = torch.randn(classes, features, generator=generator, device=device)
    x = torch.randn(num_nodes, features, generator=generator, device=device).mul_(noise).add_(centres[y])
    draw = torch.randperm(num_nodes, generator=generator, device=device)
    train, val = num_nodes * 8 // 10, num_nodes * 9 // 10
    masks = {"train_mask": draw < train, "val_mask": (draw >= train) & (draw < val), "test_mask": draw >= val}
    return Data(edge_index=edge_index, x=x, y=y, community=community, **masks)


class _Stubs:
    """The stubs of edges: node i occurs in proportion to its weight; stubs of a community are consecutive."""

    def __init__(
        self, num_nodes: int, pairs: int, communities: int, exponent: float, mixing: float, generator: torch.Generator
    ) -> None:
        device = generator.device
        self.num_nodes, self.mixing = num_nodes, mixing
        # Pareto by inversion, truncated so that no hub is joined to a large part of all nodes.
        uniform = torch.rand(num_nodes, generator=generator, device=device).clamp_(min=1e-12)
        weight = uniform.pow_(-1 / (exponent - 1)).clamp_(max=max(num_nodes, 1) ** 0.5)
        total = float(weight.sum(dtype=torch.float64)) if num_nodes else 1.0
        copies = torch.floor(weight * (max(pairs, 1) / total)).to(torch.int64).clamp_(min=1)
        self.owner = torch.repeat_interleave(
            torch.arange(num_nodes, dtype=torch.int32, device=device), copies, output_size=int(copies.sum())
        )
        community = _communities(num_nodes, communities, device)
        inside = torch.zeros(communities, dtype=torch.int64, device=device).index_add_(0, community, copies)
        self.first = inside.cumsum(0) - inside
        self.inside, self.community = inside, community.to(torch.int32)

    def draw(self, pairs: int, generator: torch.Generator) -> Tensor:
        """Keys ``low * N + high`` of random pairs, in any order, with repeats; loops are dropped."""
        return torch.cat([self._draw_block(min(BLOCK, pairs - n), generator) for n in range(0, pairs, BLOCK)])

    def _draw_block(self, pairs: int, generator: torch.Generator) -> Tensor:
        device, stubs = generator.device, self.owner.numel()
        if stubs == 0:
            return torch.empty(0, dtype=torch.int64, device=device)
        one = self.owner[torch.randint(stubs, (pairs,), generator=generator, device=device)].long()
        community = self.community[one].long()
        # float64: there are more stubs than float32 can distinguish.
        place = torch.rand(pairs, generator=generator, device=device, dtype=torch.float64)
        far = torch.rand(pairs, generator=generator, device=device) < self.mixing
        near = self.first[community] + (place * self.inside[community]).long()
        other = self.owner[torch.where(far, (place * stubs).long(), near)].long()
        low, high = torch.minimum(one, other), torch.maximum(one, other)
        return (low * self.num_nodes + high)[low != high]


def _communities(num_nodes: int, communities: int, device: torch.device) -> Tensor:
    """Blocks of consecutive nodes, ``[N]``."""
    return torch.div(torch.arange(num_nodes, device=device) * communities, max(num_nodes, 1), rounding_mode="floor")
