"""The few sizes that batches are padded to, so that a rare large batch does not slow down the others.

The size depends only on the batch, so a resumed run makes the same choices.

Letters: B graphs in a batch, S batches.
"""

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from lrga.data.packed.padded import Capacity, PaddedGraphs

QUANTILES = (0.4, 0.8, 1.0)  # fractions of the batches that fit into each size
NODES, EDGES = 64, 256  # sizes are multiples of these
MERGE_RATIO = 1.05  # sizes closer than this are merged, because each captured size takes time and memory
MIN_SPARE_NODES = 32  # padding edges are spread over these nodes
_SIMULATED = 2000  # number of simulated batches


@dataclass(frozen=True)
class Work:
    """A batch to run: its graphs, its capacity, and the number of predictions that count."""

    graphs: Tensor  # [B] on the device
    capacity: Capacity
    valid: int


class Batches:
    """The batches of a set, with the capacity of each.

    Args:
        padded: The set.
        batch_size: B.
        level: Level of the predictions.
        shuffled: Whether the order of graphs is random, so that capacities come from simulated orders, or that of the
            set.

    Example:
        >>> from torch_geometric.data import Data
        >>> from lrga.data.packed.graphs import PackedGraphs
        >>> data = [Data(x=torch.ones(n, 1), edge_index=torch.zeros(2, n).long()) for n in range(1, 6)]
        >>> batches = Batches(PackedGraphs.from_data_list(data).padded, 2, "node")
        >>> [(work.graphs.tolist(), work.capacity, work.valid) for work in batches.of(torch.arange(5))][-1]
        ([4, 5], Capacity(nodes=64, edges=256), 5)
    """

    def __init__(self, padded: PaddedGraphs, batch_size: int, level: str, *, shuffled: bool = True) -> None:
        self.padded, self.batch_size = padded, batch_size
        graphs = padded.graphs
        columns = (graphs.nodes_per_graph, graphs.edges_per_graph, padded.valid_per_graph(level)[:-1])
        self._sizes = torch.nn.functional.pad(torch.stack(columns, dim=1), (0, 0, 0, 1)).numpy()  # [G + 1, 3]
        orders: Iterable[np.ndarray] = [np.arange(len(graphs))]
        if shuffled:
            source = np.random.default_rng(0)
            epochs = min(64, -(-_SIMULATED * batch_size // len(graphs)))
            orders = [source.permutation(len(graphs)) for _ in range(epochs)]
        totals = np.concatenate([self._sizes[self._rows(order)].sum(1) for order in orders])
        sizes = np.ceil(np.quantile(totals[:, :2], QUANTILES, axis=0)).astype(int).tolist()
        self.capacities = sorted({self._distinct(_up(n + MIN_SPARE_NODES, NODES), _up(e, EDGES)) for n, e in sizes})
        smallest, largest = self.capacities[0], self.capacities[-1]
        if largest.nodes <= MERGE_RATIO * smallest.nodes and largest.edges <= MERGE_RATIO * smallest.edges:
            self.capacities = [largest]
        self._steps = (_up(largest.nodes // 16, NODES), _up(largest.edges // 16, EDGES))

    def of(self, order: Tensor) -> list[Work]:
        """The batches of the graphs ``order`` (on the CPU); the last one is filled up with empty graphs."""
        rows = self._rows(order.numpy())
        on_device = torch.from_numpy(rows).to(self.padded.device, non_blocking=True)
        totals = self._sizes[rows].sum(1).tolist()  # [S, 3]: nodes, edges and valid predictions of each batch
        return [
            Work(graphs, self.choose(nodes, edges), valid)
            for graphs, (nodes, edges, valid) in zip(on_device.unbind(0), totals, strict=True)
        ]

    def choose(self, nodes: int, edges: int) -> Capacity:
        """The smallest capacity that fits; if none of the usual ones does, a separate one."""
        for capacity in self.capacities:
            if capacity.holds(nodes, edges):
                return capacity
        return self._distinct(_up(nodes + 1, self._steps[0]), _up(edges, self._steps[1]))

    def _rows(self, order: np.ndarray) -> np.ndarray:
        count = -(-order.size // self.batch_size)
        rows = np.full(count * self.batch_size, self.padded.empty_graph, dtype=np.int64)
        rows[: order.size] = order
        return rows.reshape(count, self.batch_size)

    def _distinct(self, nodes: int, edges: int) -> Capacity:
        """Makes the numbers of nodes, edges and graphs distinct, so that the number of rows identifies the level."""
        while nodes == self.batch_size + 1:
            nodes += NODES
        while edges in (nodes, self.batch_size + 1):
            edges += EDGES
        return Capacity(nodes, edges)


def _up(value: int, step: int) -> int:
    """``value`` rounded up to a multiple of ``step``, at least one."""
    return max(-(-value // step), 1) * step
