r"""Random walks over a graph, all walks of a batch in parallel.

A uniform step chooses a neighbour with equal probability. A biased step (Node2Vec) from v, coming from t, chooses x
with probability proportional to 1/p if x = t, 1 if t and x are neighbours, 1/q otherwise. Biased steps are exact, by
rejection sampling: a neighbour is proposed uniformly and accepted with its weight over the largest weight. If both
possible weights (1 and 1/q) give the same decision, the edge between t and x is not looked up. Walks that are still
rejected after some rounds (because one neighbour is much likelier than the others) are sampled from the weights of all
neighbours.

Letters: N nodes, E edges, W walks, L steps.
"""

import math

import torch
from torch import Tensor

from lrga.checks import check_count
from lrga.errors import OptionError, ShapeError
from lrga.ops.neighbors.edges import EdgeLayout

ROUNDS = 32  # rounds of proposals before all neighbours are weighted
ENTRIES = 1 << 22  # neighbours weighted at a time
EXTREME = 1e30  # weights and their ratios stay far inside float32


class Walker:
    """Walks along the edges of a graph, from source to target.

    Args:
        layout: The edges. A walk that reaches a node without outgoing edges stays there.
        p: Node2Vec's return parameter.
        q: Node2Vec's in-out parameter; p = q = 1 gives uniform walks (DeepWalk).

    Example:
        >>> layout, _ = EdgeLayout.from_edge_index(torch.tensor([[0, 1, 1, 2], [1, 0, 2, 1]]), 3)
        >>> Walker(layout).walk(torch.tensor([0, 2]), 3, generator=torch.Generator().manual_seed(0))[:, :2].tolist()
        [[0, 1], [2, 1]]
    """

    def __init__(self, layout: EdgeLayout, *, p: float = 1.0, q: float = 1.0) -> None:
        for name, value in (("p", p), ("q", q)):
            if not 1 / EXTREME <= value <= EXTREME:
                raise OptionError(f"{name} from {1 / EXTREME:g} to {EXTREME:g}", repr(value), "pass for example 1.0")
        self.num_nodes, self.p, self.q = layout.num_nodes, float(p), float(q)
        # 32 bits halve the memory traffic of random access
        small = layout.num_edges < 2**31 and layout.num_nodes < 2**31
        self.dtype = torch.int32 if small else torch.int64
        by_source = layout.transposed.source.to(self.dtype)  # the targets, in the order of the sources
        self.first = layout.out_ptr[:-1].to(self.dtype)
        self.degree = layout.out_degree.to(self.dtype)
        # a node without edges gets itself as neighbour, stored after the real neighbours
        lone = torch.nonzero(self.degree == 0).squeeze(1).to(self.dtype)
        self.neighbours = torch.cat([by_source, lone])
        if lone.numel():
            at = torch.arange(layout.num_edges, layout.num_edges + lone.numel(), device=lone.device)
            self.first = self.first.index_copy(0, lone.long(), at.to(self.dtype))
            self.degree = self.degree.index_fill(0, lone.long(), 1)
        self.biased = (self.p, self.q) != (1.0, 1.0)
        if self.biased:  # sorted keys of all edges, to test whether an edge exists
            last = layout.source.new_tensor([torch.iinfo(torch.int64).max])
            self._keys = torch.cat([(layout.source * layout.num_nodes + layout.target).unique(), last])

    def walk(self, start: Tensor, length: int, *, generator: torch.Generator) -> Tensor:
        """Walks of ``length`` steps from ``start`` ``[W]``: nodes ``[W, L + 1]`` int64.

        Args:
            start: First node of each walk.
            length: L.
            generator: Source of the random numbers, on the device of the graph.
        """
        check_count("length", length)
        if start.numel() and not 0 <= int(start.min()) <= int(start.max()) < self.num_nodes:
            got = f"nodes from {int(start.min())} to {int(start.max())}"
            raise ShapeError(f"nodes from 0 to {self.num_nodes - 1}", got, "start at nodes of the graph")
        nodes = torch.empty(length + 1, start.numel(), dtype=self.dtype, device=start.device)
        nodes[0] = start
        for step in range(1, length + 1):
            if step > 1 and self.biased:
                nodes[step] = self._biased(nodes[step - 2], nodes[step - 1], generator)
            else:
                nodes[step] = self._uniform(nodes[step - 1], generator)
        return nodes.t().long()

    def _has_edges(self, source: Tensor, target: Tensor) -> Tensor:
        """Whether there are edges from ``source`` ``[W]`` to ``target`` ``[W]``."""
        wanted = source.long() * self.num_nodes + target
        return self._keys.index_select(0, torch.searchsorted(self._keys, wanted)) == wanted

    def _uniform(self, at: Tensor, generator: torch.Generator) -> Tensor:
        degree = self.degree.index_select(0, at)
        chance = torch.rand(at.size(0), generator=generator, device=at.device, dtype=torch.float64)
        place = (chance * degree).to(self.dtype)  # chance < 1 in 53 bits: below the degree
        return self.neighbours.index_select(0, self.first.index_select(0, at) + place)

    def _biased(self, before: Tensor, at: Tensor, generator: torch.Generator) -> Tensor:
        back, away = 1.0 / self.p, 1.0 / self.q
        highest = max(back, 1.0, away)
        result = torch.empty_like(at)
        left = torch.arange(at.size(0), device=at.device)  # walks without an accepted step
        for _ in range(ROUNDS):
            here, origin = at.index_select(0, left), before.index_select(0, left)
            proposed = self._uniform(here, generator)
            chance = torch.rand(here.size(0), generator=generator, device=at.device) * highest
            returns = proposed == origin
            accepted = torch.where(returns, chance < back, chance < min(1.0, away))
            open_ = ~returns & (chance >= min(1.0, away)) & (chance < max(1.0, away))
            asked = torch.nonzero(open_).squeeze(1)
            if asked.numel():
                near = self._has_edges(origin.index_select(0, asked), proposed.index_select(0, asked))
                accepted.index_copy_(0, asked, near if away < 1.0 else ~near)
            result.index_copy_(0, left, proposed)  # rejected steps are overwritten later
            left = left.index_select(0, torch.nonzero(~accepted).squeeze(1))
            if left.numel() == 0:
                return result
        exact = self._weighed(before.index_select(0, left), at.index_select(0, left), generator)
        return result.index_copy_(0, left, exact)

    def _weighed(self, before: Tensor, at: Tensor, generator: torch.Generator) -> Tensor:
        """A biased step from the weights of all neighbours: the first of exponential clocks with these rates.

        Computed in logarithms, for weights of very different size, and in groups of walks, to limit memory.
        """
        degree = self.degree.index_select(0, at).long()
        result = torch.empty_like(at)
        widest = max(1, int(degree.max()))
        for rows in torch.arange(at.size(0), device=at.device).split(max(1, ENTRIES // widest)):
            count = degree.index_select(0, rows)
            end = count.cumsum(0)
            walk = torch.repeat_interleave(rows, count)
            place = torch.arange(walk.numel(), device=at.device) - torch.repeat_interleave(end - count, count)
            here, origin = at.index_select(0, walk), before.index_select(0, walk)
            target = self.neighbours.index_select(0, self.first.index_select(0, here) + place)
            near = self._has_edges(origin, target)
            rate = torch.where(near, 0.0, -math.log(self.q)).double().masked_fill(target == origin, -math.log(self.p))
            clock = torch.empty_like(rate).exponential_(generator=generator).log() - rate
            order = clock.argsort()
            order = order[walk.index_select(0, order).argsort(stable=True)]  # walk by walk, the first clock first
            result.index_copy_(0, rows, target.index_select(0, order.index_select(0, end - count)))
        return result
