"""A whole set of graphs as flat tensors on one device: the format that all training uses.

Letters: G graphs, N nodes and E edges of the whole set.
"""

import copy
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import InitVar, dataclass, field, replace
from numbers import Integral
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor

from lrga.checks import check_count
from lrga.data.packed.batch import PackedBatch
from lrga.data.packed.segments import DTYPES, Rows, Selection, narrow, order_by, pointer, take
from lrga.errors import BatchError, DataError
from lrga.io.limits import first_line
from lrga.io.safetensors import load_data, save_data
from lrga.ops.cached import outside_inference

if TYPE_CHECKING:
    from torch_geometric.data import Data

    from lrga.data.packed.padded import PaddedGraphs

Index = int | slice | range | Sequence[int] | Tensor | np.ndarray
FORMAT = 1
HEADER = "lrga"  # key of the JSON values in a file
_GRAPHS_AT_ONCE = 256  # graphs converted at a time while iterating


@dataclass(frozen=True)
class Column:
    """One attribute of every graph.

    Attributes:
        level: Level of a row: ``"node"``, ``"edge"`` or ``"graph"``.
        values: [rows, *shape], integers in the smallest type that can hold them.
        dtype: The dtype that users see.
    """

    level: str
    values: Tensor
    dtype: torch.dtype

    @classmethod
    def of(cls, level: str, values: Tensor) -> "Column":
        """Creates a column from ``values`` [rows, …], stored in the smallest type that can hold them."""
        stored = narrow(values)
        return cls(level, (stored.unsqueeze(1) if level == "graph" else stored).contiguous(), values.dtype)

    def take(self, rows: Rows) -> Tensor:
        """Selects rows in the dtype that users see, concatenated like in PyG: [1] becomes [G], [k] becomes [G k]."""
        values = take(self.values, rows).to(self.dtype)
        return values.flatten(0, 1) if self.level == "graph" and values.dim() > 1 else values

    def to(self, device: torch.device) -> "Column":
        """The column on ``device``."""
        return replace(self, values=self.values.to(device))


@dataclass(eq=False, kw_only=True, repr=False)
class PackedGraphs:
    """Many graphs in few tensors: edges sorted by destination, integers in the smallest type that can hold them.

    Create it with :meth:`from_data_list` (PyG ``Data`` objects) or :meth:`from_arrays` (concatenated arrays). Both keep
    dtypes, the order of the edges and all attributes, so :meth:`to_data_list` returns the original data.

    Attributes:
        node_ptr: [G + 1] int64; the nodes of graph g are ``node_ptr[g]:node_ptr[g + 1]``.
        edge_ptr: [G + 1] int64; the edges of graph g are ``edge_ptr[g]:edge_ptr[g + 1]``.
        source: [E] source of each edge, numbered inside its graph, in a small integer type.
        in_degree: [N] number of incoming edges of each node; as edges are sorted, it gives the target of every edge.
        edge_order: [E] position of each edge in its graph's original order, or ``None`` if the order did not change.
        columns: Name → :class:`Column` for every tensor attribute (``x``, ``y``, …).
        objects: Name → one Python value for each graph.
        y_level: ``"node"``, ``"edge"`` or ``"graph"``; ``None`` without ``y``.
        meta: Facts about the set, JSON values.

    Example:
        >>> from torch_geometric.data import Data
        >>> path = torch.tensor([[0, 1], [1, 0]])
        >>> graphs = PackedGraphs.from_data_list([Data(x=torch.ones(2, 3), edge_index=path) for _ in range(4)])
        >>> batch = graphs.batch([2, 0])
        >>> batch.num_graphs, batch.edge_index.tolist()
        (2, [[1, 0, 3, 2], [0, 1, 2, 3]])
    """

    node_ptr: Tensor
    edge_ptr: Tensor
    source: Tensor
    in_degree: Tensor
    edge_order: Tensor | None = None
    columns: dict[str, Column] = field(default_factory=dict)
    objects: dict[str, list[Any]] = field(default_factory=dict)
    y_level: str | None = None
    edge_dtype: torch.dtype | None = torch.int64
    explicit_num_nodes: bool = False
    meta: dict[str, Any] = field(default_factory=dict)
    host_ptrs: InitVar[tuple[Tensor, Tensor] | None] = None

    def __post_init__(self, host_ptrs: tuple[Tensor, Tensor] | None) -> None:
        self.columns, self.objects, self.meta = dict(self.columns), dict(self.objects), dict(self.meta)
        # Sizes are read for every batch: copies on the CPU avoid synchronising a GPU.
        self.host_node_ptr, self.host_edge_ptr = host_ptrs or (self.node_ptr.cpu(), self.edge_ptr.cpu())
        self._kept: dict[str, Any] = {}  # values derived from the edges alone, shared by all sets with the same edges
        self._padded: PaddedGraphs | None = None

    @classmethod
    def from_data_list(cls, graphs: Sequence["Data"], *, y_level: str | None = None) -> "PackedGraphs":
        """Packs PyG graphs; see :func:`lrga.data.packed.convert.pack_data_list`."""
        from lrga.data.packed.convert import pack_data_list

        return pack_data_list(graphs, y_level=y_level)

    @classmethod
    def from_arrays(cls, **arrays: Any) -> "PackedGraphs":
        """Packs concatenated arrays; see :func:`lrga.data.packed.arrays.pack_arrays` for the arguments."""
        from lrga.data.packed.arrays import pack_arrays

        return pack_arrays(**arrays)

    @classmethod
    def load(cls, path: str | Path) -> "PackedGraphs":
        """Reads a file of :meth:`save`."""
        with load_data(Path(path), key=HEADER, version=FORMAT, what="a packed set of graphs") as (tensors, header):
            edge_dtype = header["edge_dtype"]
            return cls(
                node_ptr=pointer(tensors["num_nodes"]),
                edge_ptr=pointer(tensors["num_edges"]),
                source=tensors["source"],
                in_degree=tensors["in_degree"],
                edge_order=tensors.get("edge_order"),
                columns={
                    name: Column(facts["level"], tensors[f"column.{name}"], DTYPES[facts["dtype"]])
                    for name, facts in header["columns"].items()
                },
                edge_dtype=None if edge_dtype is None else DTYPES[edge_dtype],
                **{key: header[key] for key in ("y_level", "explicit_num_nodes", "objects", "meta")},
            )

    def save(self, path: str | Path) -> None:
        """Writes one ``safetensors`` file atomically: the tensors as in memory, everything else as JSON in the header.
        Equal sets give equal bytes."""
        for name, values in self.objects.items():
            for g, value in enumerate(values):
                if not _is_json(value):
                    got = f"{name} of graph {g}, a {type(value).__name__}"
                    remedy = (
                        f"give {name} one shape in every graph, convert it to text or a list of numbers, or delete it"
                    )
                    raise DataError(f"attributes that JSON can represent, to write {path}", got, remedy)
        tensors = {
            "num_nodes": narrow(self.nodes_per_graph),
            "num_edges": narrow(self.edges_per_graph),
            "source": self.source,
            "in_degree": self.in_degree,
            **({} if self.edge_order is None else {"edge_order": self.edge_order}),
            **{f"column.{name}": column.values for name, column in self.columns.items()},
        }
        names = {dtype: name for name, dtype in DTYPES.items()}
        header = {
            "format": FORMAT,
            "columns": {name: {"level": c.level, "dtype": names[c.dtype]} for name, c in self.columns.items()},
            "y_level": self.y_level,
            "edge_dtype": None if self.edge_dtype is None else names[self.edge_dtype],
            "explicit_num_nodes": self.explicit_num_nodes,
            "objects": self.objects,
            "meta": self.meta,
        }
        save_data(Path(path), tensors, header, key=HEADER)

    def to_data_list(self) -> list["Data"]:
        """One PyG ``Data`` for each graph."""
        from lrga.data.packed.convert import unpack_data_list

        return unpack_data_list(self)

    def __len__(self) -> int:
        return self.node_ptr.numel() - 1

    def __repr__(self) -> str:
        names = ", ".join(f"{name}={column.level}" for name, column in self.columns.items())
        return (
            f"PackedGraphs({len(self):,} graphs, {self.num_nodes:,} nodes, {self.num_edges:,} edges, {names}, "
            f"device={self.device})"
        )

    def __iter__(self) -> Iterator["Data"]:
        for begin in range(0, len(self), _GRAPHS_AT_ONCE):
            yield from self.subset(slice(begin, begin + _GRAPHS_AT_ONCE)).to_data_list()

    def __getitem__(self, index: Index) -> Any:
        """A PyG ``Data`` for an integer, a :class:`PackedGraphs` for an index of several graphs."""
        if isinstance(index, Tensor) and index.dim() == 0:
            index = index.item()  # type: ignore[assignment]
        if isinstance(index, Integral) and not isinstance(index, bool):
            return self.subset([int(index)]).to_data_list()[0]
        return self.subset(index)

    @property
    def device(self) -> torch.device:
        """The device of the tensors."""
        return self.node_ptr.device

    @property
    def num_graphs(self) -> int:
        """Number of graphs."""
        return len(self)

    @property
    def num_nodes(self) -> int:
        """Number of nodes of all graphs."""
        return int(self.host_node_ptr[-1])

    @property
    def num_edges(self) -> int:
        """Number of directed edges of all graphs."""
        return int(self.host_edge_ptr[-1])

    @property
    def nodes_per_graph(self) -> Tensor:
        """[G] on the CPU."""
        return self.host_node_ptr.diff()

    @property
    def edges_per_graph(self) -> Tensor:
        """[G] on the CPU."""
        return self.host_edge_ptr.diff()

    def attribute(self, name: str, rows: Mapping[str, Rows] | None = None) -> Tensor | None:
        """An attribute in the order of the packed nodes, edges or graphs; ``None`` if it does not exist.

        Args:
            name: Name of the attribute.
            rows: Level → rows to select; by default all.
        """
        column = self.columns.get(name)
        return None if column is None else column.take(slice(None) if rows is None else rows[column.level])

    def with_column(self, name: str, column: Column) -> "PackedGraphs":
        """These graphs, in shared memory, with another attribute ``name``."""
        result = copy.copy(self)
        result.columns = self.columns | {name: column}
        result._padded = None  # it depends on the attributes
        return result

    @property
    def x(self) -> Tensor | None:
        """[N, …] node features of the whole set."""
        return self.attribute("x")

    @property
    def edge_attr(self) -> Tensor | None:
        """[E, …] edge features of the whole set, edges sorted by destination."""
        return self.attribute("edge_attr")

    @property
    def y(self) -> Tensor | None:
        """Targets of the whole set, one row for each node, edge (sorted by destination) or graph."""
        return self.attribute("y")

    @property
    def edge_index(self) -> Tensor:
        """[2, E] int64 of all graphs as one batch, sorted by destination. Computed on request; large for large sets."""
        return self.batch(slice(None)).edge_index

    @property
    def statistics(self) -> dict[str, float | int]:
        """Numbers of graphs, nodes and directed edges: sum, mean, minimum and maximum."""
        result: dict[str, float | int] = {"graphs": len(self)}
        for name, counts in (("nodes", self.nodes_per_graph), ("edges", self.edges_per_graph)):
            counts = counts if len(counts) else torch.zeros(1, dtype=torch.int64)
            result |= {name: int(counts.sum()), f"mean_{name}": float(counts.double().mean())}
            result |= {f"min_{name}": int(counts.min()), f"max_{name}": int(counts.max())}
        return result

    def to(self, device: str | torch.device) -> "PackedGraphs":
        """The set on ``device``; the same object if it is already there."""
        target = torch.empty(0, device=device).device
        if target == self.device:
            return self
        names = ("node_ptr", "edge_ptr", "source", "in_degree", "edge_order")
        tensors = {name: value.to(target) for name in names if (value := getattr(self, name)) is not None}
        columns = {name: column.to(target) for name, column in self.columns.items()}
        moved = replace(self, **tensors, columns=columns, host_ptrs=(self.host_node_ptr, self.host_edge_ptr))
        if "transposed" in self._kept:
            moved._kept["transposed"] = tuple(part.to(target) for part in self._kept["transposed"])
        return moved

    def batch(self, index: Index) -> PackedBatch:
        """Batches the selected graphs, in this order."""
        host = positions(index, len(self))
        return PackedBatch.of(self, host, None if isinstance(host, slice) else host.to(self.device, non_blocking=True))

    def batches(
        self,
        batch_size: int,
        *,
        shuffle: bool = False,
        generator: torch.Generator | None = None,
        drop_last: bool = False,
    ) -> Iterator[PackedBatch]:
        """All graphs, ``batch_size`` at a time.

        Args:
            batch_size: Graphs in a batch; the last may have fewer.
            shuffle: A new random order each time.
            generator: Generator of the order, on any device.
            drop_last: Whether to drop a last batch with fewer graphs.
        """
        check_count("batch_size", batch_size, minimum=1)
        stop = len(self) - len(self) % batch_size if drop_last else len(self)
        order = self.shuffled(generator) if shuffle else None
        chosen = [slice(begin, min(begin + batch_size, stop)) for begin in range(0, stop, batch_size)]
        if order is None:
            return (PackedBatch.of(self, rows, None) for rows in chosen)
        on_device = order.to(self.device, non_blocking=True)
        return (PackedBatch.of(self, order[rows], on_device[rows]) for rows in chosen)

    def shuffled(self, generator: torch.Generator | None = None) -> Tensor:
        """[G] on the CPU: a random order of the graphs, the one of :meth:`batches` for the same generator."""
        device = "cpu" if generator is None else generator.device
        return torch.randperm(len(self), generator=generator, device=device).cpu()

    def subset(self, index: Index) -> "PackedGraphs":
        """The selected graphs, in this order, as a separate set (views if they are consecutive)."""
        host = positions(index, len(self))
        graphs: Rows = host if isinstance(host, slice) else host.to(self.device)
        node_part, edge_part = Selection(self.node_ptr, graphs), Selection(self.edge_ptr, graphs)
        nodes, edges = node_part.rows, edge_part.rows
        rows = {"node": nodes, "edge": edges, "graph": graphs}
        chosen = range(len(self))[host] if isinstance(host, slice) else host.tolist()
        result = replace(
            self,
            node_ptr=node_part.ptr,
            edge_ptr=edge_part.ptr,
            source=take(self.source, edges),
            in_degree=take(self.in_degree, nodes),
            edge_order=None if self.edge_order is None else take(self.edge_order, edges),
            columns={n: replace(c, values=take(c.values, rows[c.level])) for n, c in self.columns.items()},
            objects={name: [values[g] for g in chosen] for name, values in self.objects.items()},
        )
        if "transposed" in self._kept:
            order, degree = self._kept["transposed"]
            result._kept["transposed"] = take(order, edges), take(degree, nodes)
        return result

    @property
    @outside_inference
    def transposed(self) -> tuple[Tensor, Tensor]:
        """(order [E], out_degree [N]): the edges of each graph sorted by source, computed once and cached.

        ``order`` is numbered inside the graph: its k-th entry is the index of the (destination-sorted) edge that is
        k-th after a stable sort by source.
        """
        return self.kept("transposed", lambda: tuple(map(narrow, order_by(self.source, self.edge_ptr, self.node_ptr))))

    def kept(self, name: str, make: Callable[[], Any]) -> Any:
        """Caches a value derived from the edges alone, for all sets that share them (:meth:`with_column`)."""
        if name not in self._kept:
            self._kept[name] = make()
        return self._kept[name]

    @property
    @outside_inference
    def padded(self) -> "PaddedGraphs":
        """The source of batches of a fixed capacity, computed once and cached."""
        if self._padded is None:
            from lrga.data.packed.padded import PaddedGraphs

            self._padded = PaddedGraphs(self)
        return self._padded

    @staticmethod
    def move(splits: Mapping[str, "PackedGraphs"], device: str | torch.device) -> dict[str, "PackedGraphs"]:
        """Moves the splits to ``device``; splits that are masks of the same graphs still share memory."""
        moved: dict[str, PackedGraphs] = {}
        for name, graphs in splits.items():
            twin = next((key for key in moved if splits[key].source is graphs.source), None)
            moved[name] = graphs.to(device) if twin is None else moved[twin]
            for key, column in graphs.columns.items():
                if twin is not None and column is not splits[twin].columns.get(key):
                    moved[name] = moved[name].with_column(key, column.to(moved[name].device))
        return moved


def _is_json(value: Any) -> bool:
    """Whether ``value`` is the same after it was written as JSON and read again."""
    try:
        return (json.loads(json.dumps(value)) == value) is True
    except (TypeError, ValueError):
        return False


def positions(index: Index, count: int) -> slice | Tensor:
    """Converts an index into ``count`` graphs to a slice with step 1, or to non-negative positions [B] on the CPU.

    Example:
        >>> positions(slice(None, 3), 5), positions([-1, 0], 5).tolist()
        (slice(0, 3, None), [4, 0])
    """
    if isinstance(index, slice):
        start, stop, step = index.indices(count)
        if step == 1:
            return slice(start, max(start, stop))
        index = range(start, stop, step)
    try:
        chosen = np.asarray(index.cpu() if isinstance(index, Tensor) else index)
        rows = np.arange(count)[chosen.astype(np.int64) if chosen.size == 0 else chosen]
        if rows.ndim != 1:
            raise IndexError("more than one dimension")
    except (IndexError, ValueError) as error:
        expected = f"positions from {-count} to {count - 1}, or a mask with one entry for each of {count:,} graphs"
        raise BatchError(expected, f"{index!r:.80} ({first_line(error)})", "pass for example [0, 5, 2]") from error
    return torch.from_numpy(rows)
