"""Positional and structural encodings: numbers that describe the position of a node or an edge in its graph.

An encoding is written ``kind:size``:

- ``"rwse:20"``: for each node, the probability that a random walk is back after 1, 2, …, 20 steps;
- ``"rrwp:16"``: the same for 16 steps, and for each edge i → j the probability that a walk from i is at j after 1 to 16
  steps;
- ``"lappe:8"``: 8 eigenvectors of the normalised Laplacian; in training their signs are flipped at random.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch_geometric.nn.inits import reset

from lrga.checks import check_count
from lrga.errors import DTypeError, OptionError, ShapeError
from lrga.nn.encodings.laplacian import laplacian_encoding
from lrga.nn.encodings.walks import random_walk_encoding, relative_walk_encoding
from lrga.nn.linear import apply_linear
from lrga.nn.norm import BatchNorm, normalize
from lrga.ops.attention.segments import Segments

__all__ = [
    "Encoding",
    "EncodingEmbedding",
    "encode",
    "laplacian_encoding",
    "parse_encodings",
    "random_walk_encoding",
    "relative_walk_encoding",
]

KINDS = ("rwse", "rrwp", "lappe")
MAX_SIZE = 1024
_COMPUTE: dict[str, Callable[..., Any]] = {
    "rwse": random_walk_encoding,
    "rrwp": relative_walk_encoding,
    "lappe": laplacian_encoding,
}


@dataclass(frozen=True)
class Encoding:
    """One encoding: its kind and its number of steps or eigenvectors."""

    kind: str
    size: int

    def __str__(self) -> str:
        return f"{self.kind}:{self.size}"

    @property
    def edge_columns(self) -> int:
        """Number of columns of the edge encoding; the node encoding has ``size`` columns."""
        return self.size if self.kind == "rrwp" else 0


def parse_encodings(texts: str | Iterable[str] | None) -> tuple[Encoding, ...]:
    """Parses ``"rwse:20"``, ``"rwse:20,lappe:8"`` or a list of such strings; each kind may occur once.

    Example:
        >>> [str(one) for one in parse_encodings(["rwse:20", "lappe:8"])]
        ['rwse:20', 'lappe:8']
    """
    if not isinstance(texts, str | Iterable | None):
        raise OptionError("encodings as text, such as rwse:20, or a list of texts", repr(texts), "write kind:size")
    words = [texts] if isinstance(texts, str) else list(texts or ())
    found: list[Encoding] = []
    for word in (part.strip().lower() for text in words for part in str(text).split(",")):
        kind, _, size = word.partition(":")
        if kind not in KINDS or not (size.isascii() and size.isdecimal()) or not 1 <= int(size) <= MAX_SIZE:
            expected = f"an encoding kind:size, kind among {', '.join(KINDS)}, size from 1 to {MAX_SIZE}"
            raise OptionError(expected, repr(word), "write for example rwse:20, rrwp:16 or lappe:8")
        if kind in [one.kind for one in found]:
            raise OptionError(f"{kind} once", f"a second one, {word!r}", "name each kind of encoding once")
        found.append(Encoding(kind, int(size)))
    return tuple(found)


def encode(
    encodings: str | Iterable[str],
    edge_index: Tensor,
    num_nodes: int,
    batch: Tensor | None = None,
    *,
    dtype: torch.dtype = torch.float32,
) -> tuple[Tensor, Tensor | None]:
    """All encodings of the nodes, concatenated, ``[N, P]``, and of the edges, ``[E, Q]`` or ``None``.

    Args:
        encodings: See :func:`parse_encodings`.
        edge_index: ``[2, E]``.
        num_nodes: N.
        batch: Graph of each node; ``None`` is one graph.
        dtype: Data type of the results.

    Example:
        >>> nodes, edges = encode("rrwp:4,lappe:2", torch.tensor([[0, 1, 1, 2], [1, 0, 2, 1]]), 3)
        >>> nodes.shape, edges.shape
        (torch.Size([3, 6]), torch.Size([4, 4]))
    """
    if not isinstance(edge_index, Tensor):
        remedy = "pass data.edge_index; convert adj_t with torch_geometric.utils.to_edge_index"
        raise DTypeError("edge_index as a tensor [2, E]", type(edge_index).__name__, remedy)
    check_count("num_nodes", num_nodes, minimum=0)
    on_nodes, on_edges = [], []
    for one in parse_encodings(encodings):
        made = _COMPUTE[one.kind](edge_index, num_nodes, one.size, batch, dtype=dtype)
        on_nodes.append(made[0] if isinstance(made, tuple) else made)
        on_edges += [made[1]] if isinstance(made, tuple) else []
    if not on_nodes:
        raise OptionError("at least one encoding", "none", "write for example rwse:20")
    return torch.cat(on_nodes, dim=1), torch.cat(on_edges, dim=1) if on_edges else None


class EncodingEmbedding(nn.Module):
    """Maps encodings to hidden features by BatchNorm and a linear map; flips eigenvectors at random in training.

    Args:
        encodings: See :func:`parse_encodings`.
        out_channels: Width of the result, which is added to the encoded features.
        level: ``"node"`` or ``"edge"``.

    Example:
        >>> embedding = EncodingEmbedding(["rwse:4"], 8)
        >>> embedding(torch.rand(5, 4), Segments(5, 1)).shape
        torch.Size([5, 8])
    """

    signed: Tensor

    def __init__(self, encodings: str | Sequence[str], out_channels: int, *, level: str = "node") -> None:
        super().__init__()
        self.encodings, self.level = parse_encodings(encodings), level
        widths = [one.size if level == "node" else one.edge_columns for one in self.encodings]
        signs = [one.kind == "lappe" for one, width in zip(self.encodings, widths, strict=True) for _ in range(width)]
        self.in_channels, self.has_signs = sum(widths), any(signs)
        self.register_buffer("signed", torch.tensor(signs), persistent=False)
        self.norm = BatchNorm(self.in_channels)
        self.lin = nn.Linear(self.in_channels, out_channels)

    def reset_parameters(self) -> None:
        """Reinitialises all parameters."""
        reset(self.norm)
        reset(self.lin)

    def forward(self, values: Tensor | None, segments: Segments, count: Tensor | None = None) -> Tensor:
        """Embeds encodings.

        Args:
            values: ``[N, P]`` of nodes, ``[E, Q]`` of edges.
            segments: Nodes by graph: an eigenvector of a graph has one sign for all its nodes.
            count: Number of real rows of a padded batch.
        """
        rows = segments.num_nodes if self.level == "node" else None  # a caller checks those of edges
        fits = isinstance(values, Tensor) and values.dim() == 2 and values.size(1) == self.in_channels
        if fits and values is not None and rows is not None and not torch.compiler.is_compiling():
            fits = values.size(0) == rows
        if values is None or not fits:
            expected = f"{self.level}_encoding with {self.in_channels} columns ({', '.join(map(str, self.encodings))})"
            got = f"shape {list(values.shape)}" if isinstance(values, Tensor) else type(values).__name__
            remedy = "compute it with lrga.nn.encodings.encode, or add it to the data with lrga.data.AddEncodings"
            raise ShapeError(expected + (f" and {rows} rows" if rows is not None else ""), got, remedy)
        values = values.to(self.lin.weight.dtype)
        if self.training and self.has_signs:
            values = values * self._signs(segments, values)
        return apply_linear(self.lin, normalize(self.norm, values, count=count))

    def _signs(self, segments: Segments, values: Tensor) -> Tensor:
        """Random signs for the eigenvectors of each graph, ones for other encodings: ``[N, P]``. Reads no value."""
        shape = (segments.num_graphs, self.in_channels)
        flip = (torch.rand(shape, device=values.device) < 0.5) & self.signed
        signs = 1.0 - 2.0 * flip.to(values.dtype)
        return signs if segments.batch is None else signs.index_select(0, segments.batch)
