"""Positional and structural encodings: numbers that tell nodes, and edges, by where they lie in their graph.

An encoding is written ``kind:size``:

- ``"rwse:20"``: the probabilities of a random walk to be back after 1 to 20 steps, of each node;
- ``"rrwp:16"``: the same for 16 steps, and for each edge i → j the probabilities to be at j after 1 to 16 steps from i;
- ``"lappe:8"``: 8 eigenvectors of the normalised Laplacian, their signs flipped at random in training.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch_geometric.nn.inits import reset

from lrga.errors import OptionError, ShapeError
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
    """One encoding: its kind, and how many steps or eigenvectors."""

    kind: str
    size: int

    def __str__(self) -> str:
        return f"{self.kind}:{self.size}"

    @property
    def edge_columns(self) -> int:
        """How many numbers each edge gets; each node gets ``size``."""
        return self.size if self.kind == "rrwp" else 0


def parse_encodings(texts: str | Iterable[str] | None) -> tuple[Encoding, ...]:
    """Encodings as people write them: ``"rwse:20"``, ``"rwse:20,lappe:8"``, or a list of such; each kind once.

    Example:
        >>> [str(one) for one in parse_encodings(["rwse:20", "lappe:8"])]
        ['rwse:20', 'lappe:8']
    """
    words = [texts] if isinstance(texts, str) else list(texts or ())
    found: list[Encoding] = []
    for word in (part.strip().lower() for text in words for part in str(text).split(",")):
        kind, _, size = word.partition(":")
        if kind not in KINDS or not (size.isascii() and size.isdecimal()) or not 1 <= int(size) <= MAX_SIZE:
            expected = f"an encoding kind:size, kind among {', '.join(KINDS)}, size from 1 to {MAX_SIZE}"
            raise OptionError(expected, repr(word), "write for example rwse:20, rrwp:16 or lappe:8")
        if kind in [one.kind for one in found]:
            raise OptionError(f"{kind} once", f"{word!r} beside another", "name each kind of encoding once")
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
    """The encodings of nodes side by side, ``[N, P]``, and those of edges, ``[E, Q]`` or ``None``.

    Args:
        encodings: As :func:`parse_encodings` reads them.
        edge_index: ``[2, E]``.
        num_nodes: N.
        batch: Graph of each node; ``None`` is one graph.
        dtype: Of the results.

    Example:
        >>> nodes, edges = encode("rrwp:4,lappe:2", torch.tensor([[0, 1, 1, 2], [1, 0, 2, 1]]), 3)
        >>> nodes.shape, edges.shape
        (torch.Size([3, 6]), torch.Size([4, 4]))
    """
    on_nodes, on_edges = [], []
    for one in parse_encodings(encodings):
        made = _COMPUTE[one.kind](edge_index, num_nodes, one.size, batch, dtype=dtype)
        on_nodes.append(made[0] if isinstance(made, tuple) else made)
        on_edges += [made[1]] if isinstance(made, tuple) else []
    if not on_nodes:
        raise OptionError("at least one encoding", "none", "write for example rwse:20")
    return torch.cat(on_nodes, dim=1), torch.cat(on_edges, dim=1) if on_edges else None


class EncodingEmbedding(nn.Module):
    """Encodings to hidden features: BatchNorm, then a linear map; eigenvectors are flipped at random in training.

    Args:
        encodings: As :func:`parse_encodings` reads them.
        out_channels: Width of the result, which is added to the encoded features.
        level: ``"node"`` or ``"edge"``: whose encodings.

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
        """Embeds.

        Args:
            values: ``[N, P]`` of nodes, ``[E, Q]`` of edges.
            segments: Nodes by graph: the eigenvectors of one graph are flipped together.
            count: In a batch of fixed capacity, how many rows are real.
        """
        if values is None or values.dim() != 2 or values.size(1) != self.in_channels:
            names = ", ".join(map(str, self.encodings))
            raise ShapeError(
                f"{self.level}_encoding with {self.in_channels} columns ({names})",
                "none" if values is None else f"shape {list(values.shape)}",
                "compute it with lrga.nn.encodings.encode, or add it to the data with lrga.data.AddEncodings",
            )
        values = values.to(self.lin.weight.dtype)
        if self.training and self.has_signs:
            values = values * self._signs(segments, values)
        return apply_linear(self.lin, normalize(self.norm, values, count=count))

    def _signs(self, segments: Segments, values: Tensor) -> Tensor:
        """Random signs of the eigenvectors of each graph, ones elsewhere, ``[N, P]``; reads no value."""
        shape = (segments.num_graphs, self.in_channels)
        flip = (torch.rand(shape, device=values.device) < 0.5) & self.signed
        signs = 1.0 - 2.0 * flip.to(values.dtype)
        return signs if segments.batch is None else signs.index_select(0, segments.batch)
