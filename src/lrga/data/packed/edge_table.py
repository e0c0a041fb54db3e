"""Edges of large graphs cut out run by run instead of one by one.

On a CPU, gathering single entries costs more than anything else that a batch needs once graphs have thousands of edges.
A sparse matrix with a row for each graph has the same content, and choosing rows of it copies whole runs of memory.
"""

import numpy as np
import torch
from scipy.sparse import csr_matrix
from torch import Tensor

EDGES_OF_A_BATCH, EDGES_OF_A_GRAPH = 1 << 15, 128  # from which on runs are worth the sparse matrix's own cost


class EdgeTable:
    """Source and order of the edges of every graph: entry (graph, order) of a sparse matrix is the source.

    Args:
        source: [E] small integers, see :class:`~lrga.data.packed.graphs.PackedGraphs`.
        order: [E] int32, :attr:`~lrga.data.packed.graphs.PackedGraphs.transposed`.
        edge_ptr: [G + 1], fewer than 2³¹ edges.

    Example:
        >>> order = torch.tensor([0, 1, 0], dtype=torch.int32)
        >>> table = EdgeTable(torch.tensor([5, 6, 7]), order, torch.tensor([0, 2, 3]))
        >>> [values.tolist() for values in table.take(torch.tensor([1, 0]))]
        [[7, 5, 6], [0, 0, 1]]
    """

    def __init__(self, source: Tensor, order: Tensor, edge_ptr: Tensor) -> None:
        counts = edge_ptr.diff()
        width = int(counts.max()) if counts.numel() else 0
        parts = (source.numpy(), order.numpy(), edge_ptr.numpy().astype(np.int32))
        self._matrix = csr_matrix(parts, shape=(counts.numel(), width))

    @staticmethod
    def suits(num_graphs: int, num_edges: int, all_edges: int) -> bool:
        """Whether a batch of ``num_graphs`` and ``num_edges``, out of ``all_edges``, is faster cut out this way."""
        return num_edges >= max(EDGES_OF_A_BATCH, EDGES_OF_A_GRAPH * num_graphs) and all_edges < 1 << 31

    def take(self, graphs: Tensor) -> tuple[Tensor, Tensor]:
        """(source, order) of the edges of these graphs, one graph after the other."""
        rows = self._matrix[graphs.numpy()]
        return torch.from_numpy(rows.data), torch.from_numpy(rows.indices)
