"""Neighbour sampling: subgraphs around seed nodes, for training on a graph that is too large for one step.

Letters: N nodes of the graph; S seeds and M nodes of a sample; F nodes of a hop; k the fanout of a hop.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from lrga.data.packed.batch import PackedBatch
from lrga.data.packed.graphs import Column, PackedGraphs
from lrga.data.packed.segments import Selection, pointer, take
from lrga.errors import DataError, DTypeError, OptionError


class NeighborSampler:
    """Samples subgraphs: seed nodes, some of their in-neighbours, some in-neighbours of those, and so on.

    Each node is expanded once, in the hop after the one in which it was found: ``min(k, degree)`` of its incoming edges
    are drawn uniformly without replacement. The nodes of the last hop are not expanded.

    GCN divides by degrees. The :attr:`~PackedBatch.edges` of a sample contain factors that make its sum over the drawn
    edges an unbiased estimate of the sum over all edges of the graph.

    Args:
        graph: One graph, on any device; samples are drawn there.
        fanouts: k for each hop, -1 for all edges. A network of L layers uses L hops.

    Example:
        >>> from torch_geometric.data import Data
        >>> star = torch.tensor([[1, 2, 3, 4, 0], [0, 0, 0, 0, 4]])
        >>> graph = PackedGraphs.from_data_list([Data(x=torch.eye(5), edge_index=star)])
        >>> batch = NeighborSampler(graph, [3, -1]).sample(torch.tensor([0]), torch.Generator().manual_seed(0))
        >>> batch.num_seeds, batch.attribute("n_id")[0].item(), batch.edge_index[1].tolist()[:3]
        (1, 0, [0, 0, 0])
    """

    def __init__(self, graph: PackedGraphs, fanouts: Sequence[int]) -> None:
        if not isinstance(graph, PackedGraphs):
            remedy = "convert it with PackedGraphs.from_data_list([data])"
            raise DTypeError("a graph as lrga.data.PackedGraphs", type(graph).__name__, remedy)
        if len(graph) != 1:
            raise DataError("one graph to sample neighbours from", f"{len(graph)} graphs", "train on whole graphs")
        self.graph, self.fanouts = graph, check_fanouts(fanouts)
        self._in_ptr = pointer(graph.in_degree)
        self._place = torch.full((graph.num_nodes,), -1, device=graph.device)  # [N] row of a node in the sample

    def sample(self, seeds: Tensor, generator: torch.Generator | None = None) -> PackedBatch:
        """Samples a subgraph around ``seeds``, distinct node numbers ``[S]``; reproducible with a generator.

        Args:
            seeds: The seeds; their rows come first, in this order.
            generator: Generator on the device of the graph; PyTorch's default generator by default.

        Returns:
            One graph of M nodes with the sampled edges; ``num_seeds`` is S and ``attribute("n_id")`` holds the numbers
            of the nodes in the whole graph.
        """
        graph, place = self.graph, self._place
        nodes = found = self._checked(seeds)
        place[nodes] = torch.arange(nodes.numel(), device=graph.device)
        rows, degrees = [], []
        for fanout in self.fanouts:
            drawn, counts = self._draw(found, fanout, generator)
            source = take(graph.source, drawn).long()
            found = torch.unique(source[place[source] < 0])
            place[found] = torch.arange(nodes.numel(), nodes.numel() + found.numel(), device=graph.device)
            nodes = torch.cat([nodes, found])
            rows.append(drawn)
            degrees.append(counts)
        edges = torch.cat(rows)
        source = place[take(graph.source, edges).long()]
        place[nodes] = -1
        degree = torch.cat([*degrees, torch.zeros_like(found)])  # consecutive hops: sorted by target
        return self._batch(nodes, edges, source, degree, seeds.numel())

    def _checked(self, seeds: Tensor) -> Tensor:
        if seeds.is_floating_point() or seeds.dtype == torch.bool:
            raise DTypeError("seeds as node numbers", str(seeds.dtype), "convert a mask with mask.nonzero().squeeze(1)")
        nodes, count = seeds.to(self.graph.device).long(), self.graph.num_nodes
        low, high = (int(value) for value in torch.aminmax(nodes)) if nodes.numel() else (-1, -1)
        if low < 0 or high >= count or torch.unique(nodes).numel() < nodes.numel():
            expected = f"distinct seed nodes between 0 and {count - 1}"
            got = f"{nodes.numel()} seeds from {low} to {high}" if nodes.numel() else "no seeds"
            raise DataError(expected, got, "pass each seed once")
        return nodes

    def _draw(self, nodes: Tensor, fanout: int, generator: torch.Generator | None) -> tuple[Tensor, Tensor]:
        """Draws incoming edges of ``nodes`` ``[F]``, ordered by node, and returns the number of edges of each node."""
        begin = self._in_ptr[nodes]
        degree = self._in_ptr[nodes + 1] - begin
        if fanout < 0:
            return torch.as_tensor(Selection(self._in_ptr, nodes).rows).long(), degree
        # Floyd's algorithm: add a random number up to `last` to the subset, or `last` itself if it is already in it.
        chosen = torch.arange(fanout, device=nodes.device).repeat(nodes.numel(), 1)  # [F, k]
        is_subset = degree > fanout
        for column in range(fanout):
            last = degree - fanout + column
            number = torch.rand(nodes.numel(), dtype=torch.float64, device=nodes.device, generator=generator)
            number = (number * (last + 1)).long()
            again = (chosen[:, :column] == number.unsqueeze(1)).any(1)
            chosen[:, column] = torch.where(is_subset, torch.where(again, last, number), column)
        return (begin.unsqueeze(1) + chosen)[chosen < degree.unsqueeze(1)], degree.clamp(max=fanout)

    def _batch(self, nodes: Tensor, edges: Tensor, source: Tensor, degree: Tensor, seeds: int) -> PackedBatch:
        graph, rows = self.graph, {"node": nodes, "edge": edges}
        given = {name: column for name, column in graph.columns.items() if column.level in rows}
        columns = {name: replace(c, values=take(c.values, rows[c.level])) for name, c in given.items()}
        sampled = PackedGraphs(
            node_ptr=torch.tensor([0, nodes.numel()], device=graph.device),
            edge_ptr=torch.tensor([0, edges.numel()], device=graph.device),
            source=source,
            in_degree=degree,
            columns=columns | {"n_id": Column("node", nodes, torch.int64)},
            y_level=graph.y_level,
        )
        batch = sampled.batch(slice(0, 1))
        whole_in, whole_out = (take(d, nodes).double().clamp(min=1) for d in (graph.in_degree, graph.transposed[1]))
        factors = whole_in.sqrt() / degree.clamp(min=1), whole_out.rsqrt()
        return replace(batch, num_seeds=seeds, _layout=replace(batch.edges, gcn_factors=factors))


def from_neighbor_batch(data: Any) -> PackedBatch:
    """Converts a batch of PyG's ``NeighborLoader`` for training: loss and metric use only its seeds, the first rows.

    Args:
        data: A ``Data`` with ``x``, ``edge_index``, ``y`` of nodes and ``batch_size``, the number of seeds.

    Example:
        >>> from torch_geometric.data import Data
        >>> edges = torch.tensor([[1, 2], [0, 0]])
        >>> data = Data(x=torch.eye(3), edge_index=edges, y=torch.tensor([0, 1, 1]), n_id=torch.arange(3), batch_size=1)
        >>> from_neighbor_batch(data).num_seeds
        1
    """
    from torch_geometric.data import Data

    if not isinstance(data, Data):
        raise DTypeError("a batch of PyG's NeighborLoader", type(data).__name__, "pass a torch_geometric.data.Data")
    seeds = data.get("batch_size")
    if not isinstance(seeds, int) or not 1 <= seeds <= data.num_nodes:
        expected = f"batch_size, the number of seeds, from 1 to {data.num_nodes}"
        raise DataError(expected, repr(seeds), "pass a batch of a NeighborLoader")
    names = ("x", "edge_index", "edge_attr", "y", "node_encoding", "edge_encoding")
    known = {key: data[key] for key in names if key in data}
    packed = PackedGraphs.from_data_list([Data(**known, num_nodes=data.num_nodes).cpu()], y_level="node")
    return replace(packed.batch(slice(0, 1)), num_seeds=seeds).to(data.edge_index.device)


def check_fanouts(fanouts: Any) -> list[int]:
    """Checks ``fanouts``: one or more integers, each at least 1, or -1."""
    good = isinstance(fanouts, Sequence) and not isinstance(fanouts, str) and len(fanouts) > 0
    if not good or not all(type(k) is int and (k > 0 or k == -1) for k in fanouts):
        remedy = "pass for example [10, 5]; -1 uses all neighbours"
        raise OptionError("fanouts, an integer above 0 or -1 for each hop", repr(fanouts), remedy)
    return list(fanouts)
