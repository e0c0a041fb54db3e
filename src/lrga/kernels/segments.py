"""Which node belongs to which graph, laid out so that ragged graphs meet dense matrix products.

Every graph is cut into chunks of C rows. All chunks of all graphs form one tensor ``[H, M, C, K]`` on which batched
matrix products run; sums over a graph are sums over its chunks. Only the last chunk of a graph has unused rows, which
hold zeros and therefore add nothing, so a graph of 10,000 nodes does not make one of 20 nodes any larger.

Letters: N nodes, G graphs, C rows of a chunk, M chunks, H heads, K columns.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from lrga.errors import BatchError
from lrga.kernels.checks import check_batch, count_graphs, may_read_values, stop_tracing
from lrga.kernels.kept import Keeps, kept, outside_inference

if TYPE_CHECKING:
    from lrga.kernels.tiles import Tiles

SMALLEST_CHUNK, LARGEST_CHUNK = 4, 64
TRACED_WITHOUT_COUNT = (
    "pass num_graphs=… beside the batch vector, to the model (batch_size=… in PyG's own models) or to "
    "lrga.batch_context: a traced model cannot read the number of graphs off the vector"
)
CHUNK_WHILE_COMPILING = 32  # must not depend on the sizes, or every new size would compile anew


@dataclass(frozen=True, eq=False)
class Segments(Keeps):
    """The nodes of a batch of graphs, in chunks.

    Args:
        num_nodes: N.
        num_graphs: G.
        counts: Nodes of each graph, ``[G]``, or ``None`` for one graph.
        batch: Graph of each node, ``[N]`` int64, or ``None`` for one graph.
        slot: Row of each node among the ``M * C`` rows of all chunks, ``[N]``, or ``None`` for one graph.
        graph_of_chunk: ``[M]``, or ``None`` for one graph.
        chunk: C.
        in_order: Whether the nodes are known to be in the order of their graphs.
        ptr: Where each graph begins, ``[G + 1]``, in place of ``slot`` and ``graph_of_chunk``, which are then computed
            when they are asked for (see :attr:`chunks`): the GPU kernels do without.
    """

    num_nodes: int
    num_graphs: int
    counts: Tensor | None = None
    batch: Tensor | None = None
    slot: Tensor | None = None
    graph_of_chunk: Tensor | None = None
    chunk: int = 1
    in_order: bool = False
    ptr: Tensor | None = None

    @staticmethod
    @outside_inference
    def from_batch(batch: Tensor | None, num_nodes: int, num_graphs: int | None = None) -> "Segments":
        """Reads PyG's batch vector, sorted or not; ``None`` is one graph.

        Without ``num_graphs`` the number of graphs is read off the vector, which waits for a GPU.
        """
        if batch is None:
            if num_graphs not in (None, 1):
                raise BatchError(
                    f"a batch vector beside num_graphs={num_graphs}",
                    "batch=None, which is one graph",
                    "pass data.batch",
                )
            return Segments(num_nodes, 1)
        known = None if torch.compiler.is_compiling() else _known.get()
        if known is not None and known.batch is batch and num_graphs in (None, known.num_graphs):
            return known
        check_batch(batch, num_nodes, num_graphs)
        if num_graphs is None:
            stop_tracing(TRACED_WITHOUT_COUNT)
            if torch.compiler.is_compiling() and not torch.compiler.is_dynamo_compiling():  # torch.export
                raise BatchError("num_graphs in a model that is exported", "a batch vector alone", TRACED_WITHOUT_COUNT)
            num_graphs = count_graphs(batch)
        if num_graphs == 1:
            return Segments(num_nodes, 1)
        batch = batch.long()
        if not torch.compiler.is_compiling() and batch.is_inference():
            batch = batch.clone()  # which a later training step may use
        return _cut_into_chunks(batch, num_nodes, num_graphs)

    @staticmethod
    @outside_inference
    def from_ptr(ptr: Tensor, batch: Tensor) -> "Segments":
        """Graphs whose nodes follow each other, nodes ``ptr[g] … ptr[g + 1] - 1`` being graph g's.

        Nothing is sorted and no value is read, so that this can be captured in a CUDA graph.

        Args:
            ptr: ``[G + 1]`` int64.
            batch: The same as a batch vector, ``[N]`` int64.

        Example:
            >>> segments = Segments.from_ptr(torch.tensor([0, 2, 5]), torch.tensor([0, 0, 1, 1, 1]))
            >>> segments.num_graphs, segments.counts.tolist()
            (2, [2, 3])
        """
        num_nodes, num_graphs = batch.size(0), ptr.size(0) - 1
        chunk = _chunk_rows(num_nodes, num_graphs)
        return Segments(num_nodes, num_graphs, ptr.diff(), batch, chunk=chunk, in_order=True, ptr=ptr)

    @property
    def chunks(self) -> tuple[Tensor | None, Tensor | None]:
        """``slot`` and ``graph_of_chunk``; both ``None`` for one graph."""
        if self.ptr is None:
            return self.slot, self.graph_of_chunk
        # a compiler does not trace through what is kept
        return self._find_chunks() if torch.compiler.is_compiling() else self._chunks_of_ptr

    @kept
    def _chunks_of_ptr(self) -> tuple[Tensor, Tensor]:
        return self._find_chunks()

    def _find_chunks(self) -> tuple[Tensor, Tensor]:
        assert self.ptr is not None
        assert self.counts is not None
        assert self.batch is not None
        last_chunk = torch.div(self.counts + (self.chunk - 1), self.chunk, rounding_mode="floor").cumsum(0)
        first_row = torch.nn.functional.pad(last_chunk[:-1] * self.chunk, (1, 0))
        position = torch.arange(self.num_nodes, device=self.batch.device)
        slot = position + (first_row - self.ptr[:-1]).index_select(0, self.batch)
        index = torch.arange(self.num_nodes // self.chunk + self.num_graphs, device=self.batch.device)
        return slot, torch.searchsorted(last_chunk, index, right=True).clamp_(max=self.num_graphs - 1)

    @property
    def is_single(self) -> bool:
        """Whether all nodes form one graph, so that no chunks are needed."""
        return self.slot is None and self.ptr is None

    @kept
    def tiles(self) -> "Tiles":
        """The same nodes as tiles, for the GPU kernels; the device is that of ``counts``."""
        from lrga.kernels.tiles import Tiles

        assert self.counts is not None
        return Tiles.of(self, self.counts.device)

    def pack(self, rows: Tensor) -> Tensor:
        """``[N, H, K]`` to chunks ``[H, M, C, K]``; unused rows are zero."""
        slot, graph_of_chunk = self.chunks
        if slot is None or graph_of_chunk is None:
            return rows.transpose(0, 1).unsqueeze(1)
        shape = (graph_of_chunk.size(0), self.chunk, *rows.shape[1:])
        if torch.compiler.is_compiling():  # splitting a symbolic dimension would ask whether it is divisible
            where = (torch.div(slot, self.chunk, rounding_mode="floor"), slot % self.chunk)
            packed = rows.new_zeros(shape).index_put(where, rows)
        else:
            packed = rows.new_zeros(shape[0] * shape[1], *shape[2:]).index_copy_(0, slot, rows).view(shape)
        return packed.permute(2, 0, 1, 3)

    def unpack(self, packed: Tensor) -> Tensor:
        """Chunks ``[H, M, C, K]`` to ``[N, H, K]``, the inverse of :meth:`pack`."""
        slot, _ = self.chunks
        if slot is None:
            return packed.squeeze(1).transpose(0, 1)
        return packed.permute(1, 2, 0, 3).flatten(0, 1).index_select(0, slot)

    def total(self, per_chunk: Tensor) -> Tensor:
        """``[H, M, …]`` summed over the chunks of each graph, ``[H, G, …]``."""
        _, graph_of_chunk = self.chunks
        if graph_of_chunk is None:
            return per_chunk
        zeros = per_chunk.new_zeros(per_chunk.size(0), self.num_graphs, *per_chunk.shape[2:])
        return zeros.index_add_(1, graph_of_chunk, per_chunk)

    def to_chunks(self, per_graph: Tensor) -> Tensor:
        """``[H, G, …]`` repeated for each chunk, ``[H, M, …]``."""
        _, graph_of_chunk = self.chunks
        return per_graph if graph_of_chunk is None else per_graph.index_select(1, graph_of_chunk)

    def to_nodes(self, per_graph: Tensor) -> Tensor:
        """``[H, G]`` repeated for each node, ``[N, H]``."""
        per_graph = per_graph.transpose(0, 1)
        if self.batch is None:
            return per_graph.expand(self.num_nodes, -1)
        return per_graph.index_select(0, self.batch)

    def sizes(self, like: Tensor) -> Tensor | int:
        """Nodes of each graph, ``[G]``, at least one (an empty graph divides by it)."""
        if self.counts is None:
            # written so that a compiler with a symbolic size need not ask whether the graph is empty
            return torch.sym_max(self.num_nodes, 1)
        return self.counts.clamp(min=1).to(like.dtype)


_known: ContextVar[Segments | None] = ContextVar("known_segments", default=None)


@contextmanager
def known_segments(segments: Segments) -> Iterator[None]:
    """Within it, :meth:`Segments.from_batch` of this very batch vector returns ``segments`` at no cost."""
    token = _known.set(segments)
    try:
        yield
    finally:
        _known.reset(token)


def _cut_into_chunks(batch: Tensor, num_nodes: int, num_graphs: int) -> Segments:
    counts = batch.new_zeros(num_graphs).scatter_add(0, batch, torch.ones_like(batch))
    chunk = _chunk_rows(num_nodes, num_graphs)
    chunks_of_graph = torch.div(counts + (chunk - 1), chunk, rounding_mode="floor")
    last_chunk = chunks_of_graph.cumsum(0)
    first_row = (last_chunk - chunks_of_graph) * chunk  # [G], where a graph's rows begin among the chunks
    first_node = counts.cumsum(0) - counts  # [G], where they begin among the sorted nodes

    position = torch.arange(num_nodes, device=batch.device)
    readable = may_read_values(batch)
    in_order = readable and bool((batch[1:] >= batch[:-1]).all())
    if in_order:
        slot = position + (first_row - first_node).index_select(0, batch)
    else:
        sorted_batch, order = torch.sort(batch, stable=True)
        slot_in_order = position + (first_row - first_node).index_select(0, sorted_batch)
        slot = torch.empty_like(position).index_copy(0, order, slot_in_order)

    # Each graph begins at most one chunk that it does not fill. The bound needs no look at the values.
    num_chunks = int(last_chunk[-1]) if readable and num_graphs else num_nodes // chunk + num_graphs
    index = torch.arange(num_chunks, device=batch.device)
    graph_of_chunk = torch.searchsorted(last_chunk, index, right=True)
    if not readable:
        graph_of_chunk = graph_of_chunk.clamp(max=num_graphs - 1)  # chunks past the last one are all zero
    return Segments(num_nodes, num_graphs, counts, batch, slot, graph_of_chunk, chunk, in_order)


def _chunk_rows(num_nodes: int, num_graphs: int) -> int:
    """A power of two near half the mean graph: few unused rows, yet products large enough to be fast."""
    if torch.compiler.is_compiling() or not num_graphs:
        return CHUNK_WHILE_COMPILING
    rows = SMALLEST_CHUNK
    while rows < LARGEST_CHUNK and rows * 4 <= num_nodes // num_graphs:
        rows *= 2
    return rows
