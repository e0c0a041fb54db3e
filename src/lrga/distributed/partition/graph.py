"""One rank's part of a partitioned graph: its nodes, their incoming edges, its halo, and the exchange plan.

Own nodes are numbered from 0. The halo follows: nodes of other ranks that are sources of local edges. The lists of
nodes to send are computed once.

Letters: N nodes and E edges of the whole graph; n nodes, e edges and h halo nodes of this rank; W ranks; D channels.
"""

from dataclasses import dataclass, field, fields, replace
from functools import cached_property
from typing import Any, ClassVar

import torch
import torch.distributed as dist
from torch import Tensor

from lrga.checks import check_choice, check_edge_index
from lrga.distributed.collectives import (
    Group,
    all_reduce_sum,
    exchange,
    gather_ragged,
    gather_rows,
    rank_of,
    reduce_,
    world_size,
)
from lrga.distributed.partition.assignment import Partition
from lrga.errors import ShapeError
from lrga.ops.neighbors.edges import EdgeLayout


@dataclass(frozen=True, eq=False)
class PartitionedLayout(EdgeLayout):
    """The local edges in the form that the layers use: targets are own nodes, sources are own nodes or halo.

    Layers for whole graphs raise an error for it; convert the model with
    :func:`~lrga.distributed.partition_model`.
    """

    is_partitioned: ClassVar[bool] = True
    part: "GraphPart" = field(kw_only=True)

    def with_sources(self, x: Tensor) -> Tensor:
        """Features ``[n, …]`` of own nodes, followed by those of the halo: ``[n + h, …]``."""
        return self.part.with_halo(x)

    def sum_ranks(self, total: Tensor) -> Tensor:
        """Adds up a sum over own nodes of all ranks."""
        return all_reduce_sum(total, purpose="readout", group=self.part.group)

    @property
    def graph_size(self) -> tuple[int, int]:
        """N and E."""
        return self.part.num_nodes, self.part.num_edges

    def to(self, device: torch.device | str, *, non_blocking: bool = False) -> "PartitionedLayout":
        """The layout on another device."""
        return self.part.to(device).edges


@dataclass(frozen=True, eq=False)
class GraphPart:
    """One rank's part of a partitioned graph, returned by :func:`partition_graph`.

    Attributes:
        partition: Which rank owns which node.
        rank: Rank of this process.
        group: Process group.
        layout: The local edges, sorted by target: from the ``n + h`` own and halo nodes to the own nodes.
        nodes: Numbers of the own nodes in the whole graph, ``[n]``.
        halo: Positions of the halo nodes in the order of the partition, ``[h]``, sorted by owner.
        edge_ids: Indices of the local edges among those passed to :func:`partition_graph`, in the order of ``layout``,
            ``[e]``.
        in_degree: In-degree of own nodes, ``[n]``.
        out_degree: Out-degree of own nodes, over all ranks, ``[n]``.
        send_index: Own nodes that other ranks need, by rank.
        send: Number of nodes sent to each rank.
        receive: Number of nodes received from each rank.
        num_edges: E.
        num_given: Number of edges passed to :func:`partition_graph` on this rank.
        exchanges: Whether any rank has a halo.
    """

    partition: Partition
    rank: int
    group: Group
    layout: EdgeLayout
    nodes: Tensor
    halo: Tensor
    edge_ids: Tensor
    in_degree: Tensor
    out_degree: Tensor
    send_index: Tensor
    send: tuple[int, ...]
    receive: tuple[int, ...]
    num_edges: int
    num_given: int
    exchanges: bool

    @property
    def num_nodes(self) -> int:
        """N, the number of nodes of the whole graph."""
        return self.partition.num_nodes

    @property
    def num_own(self) -> int:
        """n, the number of own nodes."""
        return self.nodes.size(0)

    @property
    def num_halo(self) -> int:
        """h, the number of halo nodes."""
        return self.halo.size(0)

    @property
    def device(self) -> torch.device:
        """The device of the tensors."""
        return self.nodes.device

    @cached_property
    def edges(self) -> PartitionedLayout:
        """The local edges; pass them to a converted model instead of ``edge_index``."""
        given = {f.name: getattr(self.layout, f.name) for f in fields(self.layout)}
        return PartitionedLayout(**given, part=self)

    def take_nodes(self, values: Tensor) -> Tensor:
        """Selects the rows of own nodes from values ``[N, …]`` of the whole graph."""
        return self._take(values, self.nodes, self.num_nodes, "nodes of the whole graph")

    def take_edges(self, values: Tensor) -> Tensor:
        """Selects the rows of local edges from values for the edges that were passed to :func:`partition_graph`."""
        return self._take(values, self.edge_ids, self.num_given, "edges that this rank passed to partition_graph")

    def _take(self, values: Tensor, chosen: Tensor, rows: int, what: str) -> Tensor:
        if values.size(0) != rows:
            remedy = "pass the values of the whole graph; this rank's rows are selected"
            raise ShapeError(f"one row for each of the {rows} {what}", f"{values.size(0)} rows", remedy)
        return values.index_select(0, chosen.to(values.device)).to(self.device)

    def with_halo(self, x: Tensor) -> Tensor:
        """Features ``[n, D]`` followed by those of the halo, ``[n + h, D]``: the exchange before message passing."""
        if x.size(0) != self.num_own:
            raise ShapeError(f"{self.num_own} rows, one for each own node", f"{x.size(0)}", "pass own nodes only")
        if not self.exchanges:
            return x
        sent = x.index_select(0, self.send_index)
        return torch.cat([x, exchange(sent, self.send, self.receive, "halo", self.group)])

    def gather_nodes(self, values: Tensor) -> Tensor:
        """Gathers values ``[n, …]`` of own nodes to ``[N, …]`` of all nodes, on every rank; not differentiable."""
        together = gather_ragged(values.detach(), "output", self.group)
        place = self.partition.place
        return together if place is None else together.index_select(0, place.to(values.device))

    def to(self, device: torch.device | str) -> "GraphPart":
        """This part with its tensors on ``device``."""
        if torch.empty(0, device=device).device == self.device:
            return self
        moved: dict[str, Any] = {f.name: getattr(self, f.name) for f in fields(self)}
        moved |= {name: value.to(device) for name, value in moved.items() if isinstance(value, Tensor | EdgeLayout)}
        return GraphPart(**moved)

    def __repr__(self) -> str:
        return (
            f"GraphPart(rank {self.rank} of {self.partition.parts}: {self.num_own:,} of {self.num_nodes:,} nodes, "
            f"{self.layout.num_edges:,} of {self.num_edges:,} edges, halo of {self.num_halo:,})"
        )


def partition_graph(
    edge_index: Tensor,
    num_nodes: int,
    *,
    method: str = "blocks",
    partition: Partition | None = None,
    group: Group = None,
    device: torch.device | str = "cpu",
) -> GraphPart:
    """This rank's part of a graph; every rank of the group calls it.

    Args:
        edge_index: ``[2, E]``. Either all edges on every rank, or on each rank at least the incoming edges of its own
            nodes; other edges are ignored.
        num_nodes: N.
        method: ``"blocks"`` of consecutive nodes, or ``"metis"`` (extra ``metis``; needs the whole graph).
        partition: Another partition, instead of ``method``; the same on all ranks.
        group: Process group, by default all ranks. Without a process group, the only part is the whole graph.
        device: Device of the features and of the index lists.

    Example:
        >>> part = partition_graph(torch.tensor([[0, 1, 2], [1, 2, 0]]), num_nodes=3)
        >>> part
        GraphPart(rank 0 of 1: 3 of 3 nodes, 3 of 3 edges, halo of 0)
    """
    check_edge_index(edge_index, num_nodes)
    ranks, rank = world_size(group), rank_of(group)
    check_choice("method", method, ("blocks", "metis"))
    if partition is None:
        metis = method == "metis"
        partition = Partition.metis(edge_index, num_nodes, ranks) if metis else Partition.blocks(num_nodes, ranks)
    if partition.parts != ranks or partition.num_nodes != num_nodes:
        got = f"{partition.parts} parts of {partition.num_nodes} nodes"
        raise ShapeError(f"a partition of {num_nodes} nodes into {ranks} parts", got, "partition this graph")
    if ranks > 1:
        _check_same(partition, group)
    begin, end = partition.starts[rank], partition.starts[rank + 1]
    own = end - begin
    source, target = (partition.places(side.long().cpu()) for side in edge_index)
    local = ((target >= begin) & (target < end)).nonzero().squeeze(1)
    numbers, halo, send_index, send, receive = request_from_owners(source[local], partition, rank, group, "setup")
    edges = torch.stack([numbers, target[local] - begin])
    layout, order = EdgeLayout.from_edge_index(edges, own + halo.numel(), check=False)
    counts = layout.out_degree  # of own nodes and halo, local edges only
    totals = torch.tensor([local.numel(), halo.numel()])
    if ranks > 1:
        comm = _device_of(group)
        returned = exchange(counts[own:].to(comm), receive, send, "setup", group).cpu()
        counts = counts[:own].index_add(0, send_index, returned)
        counts = torch.cat([counts, exchange(counts[send_index].to(comm), send, receive, "setup", group).cpu()])
        totals = reduce_(totals.to(comm), "setup", group).cpu()
    in_ptr, degrees = layout.in_ptr[: own + 1], (layout.in_degree[:own], counts)
    to_own, out_of = (degree.clamp(min=1).double().rsqrt() for degree in degrees)
    layout = replace(layout, num_targets=own, in_ptr=in_ptr, gcn_factors=(to_own, out_of))
    part = GraphPart(
        partition=partition,
        rank=rank,
        group=group,
        layout=layout,
        nodes=partition.nodes(rank),
        halo=halo,
        edge_ids=local.index_select(0, order),
        in_degree=degrees[0],
        out_degree=counts[:own],
        send_index=send_index,
        send=send,
        receive=receive,
        num_edges=int(totals[0]),
        num_given=edge_index.size(1),
        exchanges=bool(totals[1]),
    )
    return part.to(device)


def request_from_owners(
    places: Tensor, partition: Partition, rank: int, group: Group, purpose: str
) -> tuple[Tensor, Tensor, Tensor, tuple[int, ...], tuple[int, ...]]:
    """Requests from other ranks the nodes at ``places`` that they own; every rank must call it.

    Returns:
        The index of each node among own nodes followed by nodes of others; the places of the latter, each once, sorted
        by owner; the own nodes that are sent to others, by rank; the number of nodes sent to each rank; the number
        received from each rank.
    """
    begin, end = partition.starts[rank], partition.starts[rank + 1]
    foreign = (places < begin) | (places >= end)
    requested = places[foreign].unique()  # sorted, so owners come in order
    found = places - begin
    found[foreign] = torch.searchsorted(requested, places[foreign]) + (end - begin)
    receive = torch.bincount(partition.owner_of_places(requested.cpu()), minlength=partition.parts)
    if partition.parts == 1:
        return found, requested, requested, (0,), (0,)
    comm, each = _device_of(group), [1] * partition.parts
    send = exchange(receive.to(comm), each, each, purpose, group).tolist()
    wanted = exchange(requested.to(comm), receive.tolist(), send, purpose, group).to(places.device)
    return found, requested, wanted - begin, tuple(send), tuple(receive.tolist())


def _check_same(partition: Partition, group: Group) -> None:
    """Raises an error if the ranks partition the graph differently, because their exchanges would not match."""
    order = partition.order
    places = 0 if order is None else int((order * torch.arange(1, order.numel() + 1)).sum())  # may overflow
    mark = torch.tensor([*partition.starts, places], device=_device_of(group))
    marks = gather_rows(mark, "setup", group)
    if bool((marks != marks[0]).any()):
        nodes = ", ".join(str(int(row[-2])) for row in marks)
        got = f"different ones; num_nodes by rank: {nodes}"
        raise ShapeError("the same num_nodes and the same partition on all ranks", got, "pass the same graph")


def _device_of(group: Group) -> torch.device:
    """Device of integers for the group's collectives: nccl requires the GPU."""
    if dist.get_backend(group) == "nccl":
        return torch.device("cuda", torch.cuda.current_device())
    return torch.device("cpu")
