"""Positional encodings as attributes of packed sets (cached on disk) and of PyG's ``Data``.

A set with encodings has the attributes ``node_encoding`` and, for some kinds, ``edge_encoding``. They depend only on
the edges, so a cache file is named by a checksum of the edges, the encoding and its size:
``ROOT/encodings/CHECKSUM-rwse-20.safetensors``.
"""

import hashlib
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from torch_geometric.transforms import BaseTransform

from lrga.data.packed.graphs import Column, PackedGraphs
from lrga.errors import LRGAError
from lrga.io.safetensors import load_data, save_data
from lrga.nn.encodings import Encoding, encode, parse_encodings

NODE, EDGE = "node_encoding", "edge_encoding"
FOLDER = "encodings"
_FORMAT = 2
_HEADER = "lrga"


class AddEncodings(BaseTransform):
    """Adds ``node_encoding`` and, for some encodings, ``edge_encoding`` to a PyG ``Data``, for ``lrga.GNN``.

    Args:
        encodings: For example ``"rwse:20"`` or ``["rrwp:16", "lappe:8"]``; see :mod:`lrga.nn.encodings`.

    Example:
        >>> from torch_geometric.data import Data
        >>> data = Data(edge_index=torch.tensor([[0, 1, 1, 2], [1, 0, 2, 1]]), num_nodes=3)
        >>> AddEncodings("rwse:2")(data).node_encoding.tolist()
        [[0.0, 0.5], [0.0, 1.0], [0.0, 0.5]]
    """

    def __init__(self, encodings: str | Iterable[str]) -> None:
        self.encodings = [str(one) for one in parse_encodings(encodings)]

    def forward(self, data: Any) -> Any:
        """Adds the attributes in place (``__call__`` copies the object first, as PyG's transforms do)."""
        data[NODE], edges = encode(self.encodings, data.edge_index, int(data.num_nodes), data.get("batch"))
        if edges is not None:
            data[EDGE] = edges
        return data

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.encodings})"


def with_encodings(
    graphs: PackedGraphs, encodings: str | Iterable[str] | None, *, folder: str | Path | None = None
) -> PackedGraphs:
    """Returns the graphs, in shared memory, with the attributes ``node_encoding`` and ``edge_encoding``.

    Args:
        graphs: A packed set on any device; encodings are computed there.
        encodings: As for :func:`~lrga.nn.encodings.parse_encodings`; without any, the set is returned unchanged.
        folder: Folder of the cache; ``None`` uses no cache.

    Example:
        >>> from torch_geometric.data import Data
        >>> path = torch.tensor([[0, 1], [1, 0]])
        >>> graphs = PackedGraphs.from_data_list([Data(edge_index=path, num_nodes=2)])
        >>> with_encodings(graphs, "rrwp:3").batch([0]).edge_encoding.tolist()
        [[1.0, 0.0, 1.0], [1.0, 0.0, 1.0]]
    """
    wanted = parse_encodings(encodings)
    if not wanted:
        return graphs
    # Kept with the edges: splits of the same graphs share the values.
    columns = graphs.kept(f"encodings {wanted}", lambda: _columns(graphs, wanted, folder))
    for name, column in columns.items():
        graphs = graphs.with_column(name, column)
    return graphs


def _columns(graphs: PackedGraphs, wanted: Iterable[Encoding], folder: str | Path | None) -> dict[str, Column]:
    """The columns of encodings, each read from ``folder`` if there is a valid file, else computed and written."""
    parts: dict[str, list[Tensor]] = {"node": [], "edge": []}
    digest = hashlib.sha256()
    if folder is not None:
        for tensor in (graphs.node_ptr, graphs.edge_ptr, graphs.source, graphs.in_degree):
            digest.update(tensor.long().cpu().numpy().tobytes())
    for encoding in wanted:
        path = Path(folder or "") / f"{digest.hexdigest()}-{encoding.kind}-{encoding.size}.safetensors"
        tensors: dict[str, Tensor] = {}
        if folder is not None and path.is_file():
            with suppress(LRGAError), load_data(path, key=_HEADER, version=_FORMAT, what="encodings") as (stored, _):
                tensors = {"node": stored["node"]} | stored  # a damaged file is computed again
        if not tensors:
            whole = graphs.batch(slice(None))
            nodes, edges = encode([str(encoding)], whole.edge_index, graphs.num_nodes, whole.batch)
            tensors = {"node": nodes} if edges is None else {"node": nodes, "edge": edges}
            if folder is not None:
                with suppress(LRGAError):  # a data root that cannot be written to only costs time
                    save_data(path, tensors, {"format": _FORMAT}, key=_HEADER)
        for level, values in tensors.items():
            parts[level].append(values.to(graphs.device))
    names = {"node": NODE, "edge": EDGE}
    return {names[of]: Column(of, torch.cat(own, dim=1), torch.float32) for of, own in parts.items() if own}
