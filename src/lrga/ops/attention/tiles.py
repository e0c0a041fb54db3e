"""The nodes of a batch cut into tiles: runs of rows of one graph, each the work of one program on a GPU.

Unlike the chunks of :class:`~lrga.ops.attention.segments.Segments`, a tile is a pair of numbers: nothing is copied.
Everything is computed on the device without a look at the values: there may be empty tiles at the end.

Letters: N nodes, G graphs, M tiles.
"""

from dataclasses import dataclass

import torch
from torch import Tensor

from lrga.ops.attention.segments import Segments

SMALL_GRAPH = 1024
ROWS_OF_SMALL, ROWS_OF_LARGE = 64, 256


@dataclass(frozen=True, eq=False)
class Tiles:
    """Tiles of a batch of graphs.

    Args:
        start: First row of each tile among the nodes in the order of their graphs, ``[M]``.
        end: Row after the last, ``[M]``; equal to ``start`` in an empty tile.
        graph: Graph of each tile, ``[M]``.
        ptr: Graph g has the tiles ``ptr[g] … ptr[g + 1] - 1``; ``[G + 1]``.
        counts: Nodes of each graph, ``[G]``.
        order: The nodes in the order of their graphs, ``[N]``; ``None`` where they are in order.
    """

    start: Tensor
    end: Tensor
    graph: Tensor
    ptr: Tensor
    counts: Tensor
    order: Tensor | None = None

    @property
    def number(self) -> int:
        """M."""
        return self.start.size(0)

    @property
    def table(self) -> list[Tensor]:
        """All of it as operators take it, in the order of the arguments above."""
        table = [self.start, self.end, self.graph, self.ptr, self.counts]
        return table if self.order is None else [*table, self.order]

    @staticmethod
    def of(segments: Segments, device: torch.device) -> "Tiles":
        """Cuts the graphs of ``segments``.

        Example:
            >>> import torch
            >>> segments = Segments.from_batch(torch.tensor([0] * 70 + [1] * 3), 73, 2)
            >>> tiles = Tiles.of(segments, torch.device("cpu"))
            >>> tiles.start[:3].tolist(), tiles.end[:3].tolist()
            ([0, 64, 70], [64, 70, 73])
        """
        n, graphs = segments.num_nodes, segments.num_graphs
        if segments.counts is None:
            counts, order = torch.full((1,), n, device=device, dtype=torch.int64), None
        else:
            assert segments.batch is not None
            counts = segments.counts
            # A stable sort keeps sorted nodes in place; whether they are sorted only their values tell.
            order = None if segments.in_order else torch.sort(segments.batch, stable=True)[1]
        rows = ROWS_OF_SMALL if n < SMALL_GRAPH * max(graphs, 1) else ROWS_OF_LARGE
        ends = counts.cumsum(0)  # [G]
        tiles_until = torch.div(counts + (rows - 1), rows, rounding_mode="floor").cumsum(0)
        ptr = torch.nn.functional.pad(tiles_until, (1, 0))
        index = torch.arange(n // rows + graphs, device=device)
        graph = torch.searchsorted(tiles_until, index, right=True).clamp(max=max(graphs - 1, 0))
        end_of_graph = ends.index_select(0, graph)
        start = end_of_graph - counts.index_select(0, graph) + (index - ptr.index_select(0, graph)) * rows
        return Tiles(
            torch.minimum(start, end_of_graph), torch.minimum(start + rows, end_of_graph), graph, ptr, counts, order
        )
