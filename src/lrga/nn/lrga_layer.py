"""A layer of the benchmark with low-rank global attention beside it, as the paper's networks stack them."""

from typing import NamedTuple

from torch import Tensor, nn
from torch_geometric.nn.inits import reset

from lrga.errors import OptionError
from lrga.kernels.message import Edges
from lrga.kernels.segments import Segments
from lrga.nn.attention import LowRankGlobalAttention
from lrga.nn.gated_gcn import GatedGCNLayer
from lrga.nn.inputs import as_segments
from lrga.nn.layer import BenchmarkLayer
from lrga.nn.mix import mix
from lrga.nn.norm import BatchNorm, normalize


class Reading(NamedTuple):
    """What the paper leaves open of the augmented layer."""

    keep_residual: bool
    """Whether the base layer keeps its residual."""
    norm_first: bool
    """Whether normalisation comes before the activation after m5."""
    add_input: bool
    """Whether x is added around the whole."""
    base_norm: bool = True
    """Whether the base layer keeps its BatchNorm."""


READINGS = {
    "A": Reading(keep_residual=True, norm_first=True, add_input=False),
    "B": Reading(keep_residual=True, norm_first=False, add_input=False),
    "C": Reading(keep_residual=False, norm_first=True, add_input=True),
    "D": Reading(keep_residual=True, norm_first=True, add_input=True),
    # The counts of parameters leave LRGA + GAT one BatchNorm a layer, in GAT or after m5: here it is the outer one.
    "B-outer": Reading(keep_residual=True, norm_first=False, add_input=False, base_norm=False),
}


def reading_of(name: str) -> Reading:
    """The reading of that letter."""
    if name not in READINGS:
        raise OptionError(f"reading to be one of {', '.join(READINGS)}", repr(name), "take 'B', nearest to the paper")
    return READINGS[name]


class LRGALayer(nn.Module):
    r"""The paper's equation 1 around a layer of the benchmark.

    .. math::
        X' = \mathrm{BatchNorm}(\mathrm{ReLU}(m_5([X, \, \mathrm{LRGA}(X), \, \mathrm{base}(X)])))

    in reading ``"B"``, the default; A, C and D normalise before the ReLU, C and D add :math:`X` around the whole, and
    in C the base layer has no residual of its own. ``"B-outer"`` is B with a base layer that has no BatchNorm.

    Args:
        base: The local layer, ``channels`` wide in and out. Reading C needs it made with ``residual=False``, reading
            B-outer with ``batch_norm=False``.
        channels: D.
        rank: The paper's κ; with 0 there is no attention: :math:`m_5([X, \mathrm{base}(X)])`.
        heads: Heads of the attention.
        dropout: Dropout on the attention's output.
        reading: ``"A"``, ``"B"``, ``"C"``, ``"D"`` or ``"B-outer"``.
        batch_norm: Whether there is a BatchNorm after :math:`m_5` (the paper's GAT has none in readings A to D).
        backend: Of the attention.

    Example:
        >>> import torch
        >>> from lrga.nn.gcn import GCNLayer
        >>> layer = LRGALayer(GCNLayer(8, 8), 8, rank=3)
        >>> layer(torch.randn(3, 8), torch.tensor([[0, 1, 2], [1, 2, 0]])).shape
        torch.Size([3, 8])
    """

    def __init__(
        self,
        base: BenchmarkLayer,
        channels: int,
        rank: int,
        *,
        heads: int = 1,
        dropout: float = 0.0,
        reading: str = "B",
        batch_norm: bool = True,
        backend: str = "auto",
    ) -> None:
        super().__init__()
        read = reading_of(reading)
        for name, has, wanted in (
            ("residual", base.residual, read.keep_residual),
            ("batch_norm", base.norm is not None, read.base_norm),
        ):
            if has and not wanted:
                raise OptionError(
                    f"a base layer without {name} in reading {reading!r}", "one with", f"pass {name}=False"
                )
        self.norm_first, self.add_input = read.norm_first, read.add_input
        self.base, self.channels, self.rank, self.reading = base, channels, rank, reading
        self.attention = LowRankGlobalAttention(channels, rank, heads=heads, dropout=dropout, backend=backend)
        self.mix = nn.Linear(2 * channels + heads * 2 * rank, channels)
        self.norm = BatchNorm(channels) if batch_norm else None

    def reset_parameters(self) -> None:
        """Draws all parameters anew."""
        for module in (self.base, self.attention, self.mix, self.norm):
            reset(module)

    def forward(
        self,
        x: Tensor,
        edge_index: Edges,
        edge_attr: Tensor | None = None,
        batch: Tensor | Segments | None = None,
        num_graphs: int | None = None,
        *,
        need_edges: bool = True,
    ) -> Tensor | tuple[Tensor, Tensor | None]:
        """As the base layer; where that returns edge features too, they are passed on (if they are needed)."""
        segments = as_segments(batch, x.size(0), num_graphs)
        options = {"need_edges": need_edges} if isinstance(self.base, GatedGCNLayer) else {}
        local = self.base(x, edge_index, edge_attr, segments, **options)
        local, rest = (local[0], local[1:]) if isinstance(local, tuple) else (local, ())
        h = mix([x, self.attention(x, segments), local], self.mix)
        h = self._normalize_and_activate(h)
        if self.add_input:
            h = x + h
        return (h, *rest) if rest else h

    def _normalize_and_activate(self, h: Tensor) -> Tensor:
        return normalize(self.norm, h, after="relu") if self.norm_first else normalize(self.norm, h, before="relu")

    def extra_repr(self) -> str:
        return f"reading={self.reading!r}"
