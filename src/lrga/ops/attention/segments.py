"""The assignment of nodes to graphs, in a layout for dense matrix products over graphs of different sizes.

Every graph is split into chunks of C rows. The chunks of all graphs form one tensor ``[H, M, C, K]`` for batched
matrix products; sums over a graph are sums over its chunks. Only the last chunk of a graph has unused rows, which
are zero and add nothing, so a graph of 10,000 nodes does not increase the padding of a graph of 20 nodes.

For GPU kernels the nodes are split into tiles: consecutive rows of one graph, each processed by one program. A tile is
a pair of indices, so nothing is copied. Tiles are computed without reading values, so the last ones may be empty.

Letters: N nodes, G graphs, C rows of a chunk, M chunks or tiles, H heads, K columns.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from lrga.checks import check_batch, check_offsets, count_graphs, may_read_values, stop_tracing
from lrga.errors import BatchError
from lrga.ops.cached import Cacheable, cached, is_capturing, outside_inference

MIN_CHUNK, MAX_CHUNK = 4, 64
TRACED_WITHOUT_COUNT = (
    "pass num_graphs=… with the batch vector to the model (batch_size=… in PyG's own models) or to "
    "lrga.batch_context: a traced model cannot read the number of graphs from the vector"
)
SMALL_GRAPH = 1024
ROWS_OF_SMALL, ROWS_OF_LARGE = 64, 256
CHUNK_WHILE_COMPILING = 32  # must not depend on the sizes, or every new size would be compiled again


@dataclass(frozen=True, eq=False)
class Segments(Cacheable):
    """The nodes of a batch of graphs, in chunks.

    Args:
        num_nodes: N.
        num_graphs: G.
        counts: Nodes of each graph, ``[G]``, or ``None`` for one graph.
        batch: Graph of each node, ``[N]`` int64, or ``None`` for one graph.
        chunk: C.
        in_order: Whether the nodes are known to be sorted by graph.
        found: :attr:`chunks`, if computed with the object. Otherwise it is computed when first used;
            the GPU kernels do not need it.
    """

    num_nodes: int
    num_graphs: int
    counts: Tensor | None = None
    batch: Tensor | None = None
    chunk: int = 1
    in_order: bool = False
    found: tuple[Tensor, Tensor] | None = None

    @staticmethod
    @outside_inference
    def from_batch(batch: Tensor | None, num_nodes: int, num_graphs: int | None = None) -> "Segments":
        """Reads PyG's batch vector, sorted or not; ``None`` is one graph.

        Without ``num_graphs`` the number of graphs is read from the vector, which synchronises a GPU. Segments of the
        latest vector on a GPU are cached, so the layers of a model share them.
        """
        if batch is None:
            if num_graphs not in (None, 1):
                got = "batch=None, which is one graph"
                raise BatchError(f"a batch vector with num_graphs={num_graphs}", got, "pass data.batch")
            return Segments(num_nodes, 1)
        if (known := _known_segments(batch, num_nodes, num_graphs)) is not None:
            return known
        check_batch(batch, num_nodes, num_graphs)
        if num_graphs is None:
            stop_tracing(TRACED_WITHOUT_COUNT)
            if torch.compiler.is_compiling() and not torch.compiler.is_dynamo_compiling():  # torch.export
                raise BatchError("num_graphs in a model that is exported", "only a batch vector", TRACED_WITHOUT_COUNT)
            num_graphs = count_graphs(batch)
        if num_graphs == 1:
            return Segments(num_nodes, 1)
        ids = batch.long()
        if not torch.compiler.is_compiling() and ids.is_inference():
            ids = ids.clone()  # a later training step may use them
        counts = ids.new_zeros(num_graphs).scatter_add(0, ids, torch.ones_like(ids))
        in_order = may_read_values(ids) and bool((ids[1:] >= ids[:-1]).all())
        segments = Segments(num_nodes, num_graphs, counts, ids, _chunk_rows(num_nodes, num_graphs), in_order)
        if torch.compiler.is_compiling():  # compilers do not trace cached values
            return replace(segments, found=segments._find_chunks())
        _remember(batch, segments)
        return segments

    @staticmethod
    @outside_inference
    def from_ptr(ptr: Tensor, batch: Tensor) -> "Segments":
        """Consecutive graphs: graph g has the nodes ``ptr[g] … ptr[g + 1] - 1``.

        Nothing is sorted and no value is read, so this can be captured in a CUDA graph.

        Args:
            ptr: ``[G + 1]`` int64.
            batch: The same as a batch vector, ``[N]`` int64.

        Example:
            >>> segments = Segments.from_ptr(torch.tensor([0, 2, 5]), torch.tensor([0, 0, 1, 1, 1]))
            >>> segments.num_graphs, segments.counts.tolist()
            (2, [2, 3])
        """
        num_nodes, num_graphs = batch.size(0), ptr.size(0) - 1
        return Segments(num_nodes, num_graphs, ptr.diff(), batch, _chunk_rows(num_nodes, num_graphs), in_order=True)

    @staticmethod
    def from_offsets(offsets: Tensor, num_nodes: int) -> "Segments":
        """The same from offsets of a user, ``[G + 1]`` int32 or int64, which are checked if values may be read.

        Example:
            >>> Segments.from_offsets(torch.tensor([0, 2, 2, 5]), 5).batch.tolist()
            [0, 0, 2, 2, 2]
        """
        check_offsets(offsets, num_nodes)
        if offsets.size(0) == 2:
            return Segments(num_nodes, 1)
        ptr = offsets.long()
        rows = torch.arange(num_nodes, device=ptr.device)
        batch = torch.searchsorted(ptr[1:].contiguous(), rows, right=True)
        return Segments.from_ptr(ptr, batch.clamp(max=max(ptr.size(0) - 2, 0)))  # unchecked offsets stay in bounds

    @property
    def chunks(self) -> tuple[Tensor | None, Tensor | None]:
        """Index of each node among the ``M * C`` rows of chunks, ``[N]``, and the graph of each chunk, ``[M]``; both
        ``None`` for one graph."""
        if self.counts is None:
            return None, None
        if self.found is not None:
            return self.found
        return self._find_chunks() if torch.compiler.is_compiling() else self._kept_chunks

    def _find_chunks(self) -> tuple[Tensor, Tensor]:
        assert self.counts is not None
        assert self.batch is not None
        chunks_of_graph = torch.div(self.counts + (self.chunk - 1), self.chunk, rounding_mode="floor")
        last_chunk = chunks_of_graph.cumsum(0)
        first_row = (last_chunk - chunks_of_graph) * self.chunk  # [G], first row of each graph in the chunks
        first_node = self.counts.cumsum(0) - self.counts  # [G], its first node among the sorted nodes
        position = torch.arange(self.num_nodes, device=self.batch.device)
        in_onnx = torch.compiler.is_compiling() and torch.onnx.is_in_onnx_export()
        if self.in_order:
            slot = position + (first_row - first_node).index_select(0, self.batch)
        else:
            # ONNX has neither a stable sort nor searchsorted; nodes within a graph may have any order.
            sorted_batch, order = torch.sort(self.batch) if in_onnx else torch.sort(self.batch, stable=True)
            slot_in_order = position + (first_row - first_node).index_select(0, sorted_batch)
            slot = torch.empty_like(position).index_copy(0, order, slot_in_order)
        # Each graph has at most one incomplete chunk; chunks after the last one are all zero.
        readable = may_read_values(self.batch) and self.num_graphs > 0
        num_chunks = int(last_chunk[-1]) if readable else self.num_nodes // self.chunk + self.num_graphs
        chunk = torch.arange(num_chunks, device=position.device)
        if in_onnx:
            graph_of_chunk = (last_chunk <= chunk.unsqueeze(1)).sum(1)
        else:
            graph_of_chunk = torch.searchsorted(last_chunk, chunk, right=True)
        return slot, graph_of_chunk.clamp(max=max(self.num_graphs - 1, 0))

    _kept_chunks = cached(_find_chunks)

    @cached
    def tiles(self) -> "Tiles":
        """The same nodes as tiles, for the GPU kernels; the device is that of ``counts``."""
        assert self.counts is not None
        return Tiles.of(self, self.counts.device)

    def pack(self, rows: Tensor) -> Tensor:
        """``[N, H, K]`` to chunks ``[H, M, C, K]``; unused rows are zero."""
        slot, graph_of_chunk = self.chunks
        if slot is None or graph_of_chunk is None:
            return rows.transpose(0, 1).unsqueeze(1)
        shape = (graph_of_chunk.size(0), self.chunk, *rows.shape[1:])
        if torch.compiler.is_compiling():  # splitting a symbolic dimension would need a check of divisibility
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
        """Nodes of each graph, ``[G]``, at least 1, because it is a divisor."""
        if self.counts is None:
            # in this form a compiler with symbolic sizes does not check whether the graph is empty
            return torch.sym_max(self.num_nodes, 1)
        return self.counts.clamp(min=1).to(like.dtype)


@dataclass(frozen=True, eq=False)
class Tiles:
    """Tiles of a batch of graphs.

    Args:
        start: First row of each tile among the nodes sorted by graph, ``[M]``.
        end: Row after the last, ``[M]``; equal to ``start`` in an empty tile.
        graph: Graph of each tile, ``[M]``.
        ptr: Graph g has the tiles ``ptr[g] … ptr[g + 1] - 1``; ``[G + 1]``.
        counts: Nodes of each graph, ``[G]``.
        order: Permutation that sorts the nodes by graph, ``[N]``; ``None`` if they are sorted.
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
        """All fields as arguments of the operators, in the order above."""
        table = [self.start, self.end, self.graph, self.ptr, self.counts]
        return table if self.order is None else [*table, self.order]

    @staticmethod
    def of(segments: Segments, device: torch.device) -> "Tiles":
        """Splits the graphs of ``segments`` into tiles.

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
            # A stable sort keeps sorted nodes in place; checking whether they are sorted would read values.
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


_known: ContextVar[Segments | None] = ContextVar("known_segments", default=None)
_latest: tuple[Tensor, int, Segments] | None = None  # a batch vector on a GPU, its version, its segments


@contextmanager
def known_segments(segments: Segments) -> Iterator[None]:
    """Inside the block, :meth:`Segments.from_batch` of this batch vector returns ``segments`` at no cost."""
    token = _known.set(segments)
    try:
        yield
    finally:
        _known.reset(token)


def _known_segments(batch: Tensor, num_nodes: int, num_graphs: int | None) -> Segments | None:
    if torch.compiler.is_compiling():
        return None
    found = _known.get()
    if found is None or found.batch is not batch:
        found = None
        if _can_remember(batch) and _latest is not None and _latest[0] is batch and _latest[1] == batch._version:
            found = _latest[2]
    fits = found is not None and found.num_nodes == num_nodes and num_graphs in (None, found.num_graphs)
    return found if fits else None


def _remember(batch: Tensor, segments: Segments) -> None:
    global _latest
    if _can_remember(batch):
        _latest = batch, batch._version, segments


def _can_remember(batch: Tensor) -> bool:
    """Whether changes of the vector are detected. Memory shared with NumPy, replays of a CUDA graph and inference
    tensors can change without a new version counter."""
    return type(batch) is Tensor and batch.device.type == "cuda" and not batch.is_inference() and not is_capturing()


def _chunk_rows(num_nodes: int, num_graphs: int) -> int:
    """A power of two near half the mean graph size: few unused rows, but products that are large enough to be fast."""
    if torch.compiler.is_compiling() or not num_graphs:
        return CHUNK_WHILE_COMPILING
    rows = MIN_CHUNK
    while rows < MAX_CHUNK and rows * 4 <= num_nodes // num_graphs:
        rows *= 2
    return rows
