"""A layer of the benchmark with low-rank global attention in parallel, as in the paper's networks."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from torch import Tensor, nn
from torch_geometric.nn.inits import reset

from lrga.errors import OptionError
from lrga.nn.attention import LowRankGlobalAttention, check_attention_options
from lrga.nn.inputs import as_segments, valid_nodes
from lrga.nn.layers.base import BenchmarkLayer
from lrga.nn.layers.gated_gcn import GatedGCNLayer
from lrga.nn.linear import mix
from lrga.nn.norm import BatchNorm, normalize
from lrga.ops.attention.segments import Segments
from lrga.ops.neighbors.reduce import Edges
from lrga.ops.streams import in_parallel


@dataclass(frozen=True, kw_only=True)
class Wiring:
    """How layer, attention and normalisation of an augmented layer are combined: choices that the paper leaves open.

    Attributes:
        concatenate: Inputs of :math:`m_5`: ``"input"``, ``"attention"`` and ``"local"`` (the base layer's output).
        activation_first: Whether the ReLU after :math:`m_5` comes before the BatchNorm.
        inner_residual: Whether the base layer keeps its residual.
        inner_norm: Whether the base layer keeps its BatchNorm. If it does, a GAT layer has none after :math:`m_5`: by
            the paper's parameter counts, LRGA + GAT has one BatchNorm per layer.
        outer_residual: Whether the input is added to the output of the whole layer.

    ``WIRINGS`` has five presets, here with the parameters they add to a layer of LRGA + GCN and of LRGA + GAT for
    D = 100 and κ = 30 (:meth:`parameters`):

    - ``"authors-code"``: the defaults, as in the authors' code; 38,420 and 38,220
    - ``"norm-first"``: BatchNorm before the ReLU, as in the benchmark's own layers; 38,420 and 38,220
    - ``"outer-residual"``: norm-first, with the residual around the whole layer only; 38,420 and 38,220
    - ``"two-residuals"``: norm-first, with both residuals; 38,420 and 38,220
    - ``"outer-norm"``: the BatchNorm after :math:`m_5` only: our choice for LRGA + GAT; 38,220 and 38,220
    """

    concatenate: tuple[str, ...] = ("input", "attention", "local")
    activation_first: bool = True
    inner_residual: bool = True
    inner_norm: bool = True
    outer_residual: bool = False

    def __post_init__(self) -> None:
        if not self.concatenate or len({*self.concatenate} & {*PARTS}) != len(self.concatenate):
            remedy = "pass a tuple that names each at most once"
            raise OptionError(f"concatenate to name some of {', '.join(PARTS)}", repr(self.concatenate), remedy)

    def mixed_width(self, channels: int, rank: int, heads: int = 1) -> int:
        """Number of input columns of :math:`m_5`."""
        widths = {"input": channels, "attention": heads * 2 * rank, "local": channels}
        return sum(widths[part] for part in self.concatenate)

    def has_outer_norm(self, conv: str) -> bool:
        """Whether there is a BatchNorm after :math:`m_5`: always, except for GAT with its own BatchNorm."""
        return conv != "gat" or not self.inner_norm

    def parameters(self, channels: int, rank: int, heads: int = 1, *, conv: str = "gcn") -> int:
        """Number of parameters of a layer beyond those of the same layer without attention: attention, :math:`m_5`, and
        BatchNorms after :math:`m_5` less those that the base layer loses (GatedGCN has two, for nodes and edges).

        Example:
            >>> [wiring.parameters(100, 30) for wiring in WIRINGS.values()]
            [38420, 38420, 38420, 38420, 38220]
            >>> [wiring.parameters(100, 30, conv="gat") for wiring in WIRINGS.values()]
            [38220, 38220, 38220, 38220, 38220]
        """
        lost = 0 if self.inner_norm else 2 if conv == "gatedgcn" else 1
        norms = 2 * channels * (self.has_outer_norm(conv) - lost)
        return 4 * rank * heads * (channels + 1) + (self.mixed_width(channels, rank, heads) + 1) * channels + norms


PARTS = ("input", "attention", "local")
WIRINGS = {
    "authors-code": Wiring(),  # the authors' code: the default
    "norm-first": Wiring(activation_first=False),
    "outer-residual": Wiring(activation_first=False, inner_residual=False, outer_residual=True),
    "two-residuals": Wiring(activation_first=False, outer_residual=True),
    "outer-norm": Wiring(inner_norm=False),  # ours, for LRGA + GAT in the tables
}
# Names of version 0.1, in stored configurations and records.
WIRING_OF_READING = {
    "A": "norm-first",
    "B": "authors-code",
    "C": "outer-residual",
    "D": "two-residuals",
    "B-outer": "outer-norm",
}


def wiring_of(wiring: "str | Wiring") -> Wiring:
    """The wiring with this name; a :class:`Wiring` is returned unchanged.

    Example:
        >>> wiring_of("outer-norm").inner_norm
        False
    """
    if isinstance(wiring, Wiring):
        return wiring
    if wiring not in WIRINGS:
        new = WIRING_OF_READING.get(wiring)
        remedy = "pick one of them" if new is None else f"pass {new!r}, its new name"
        raise OptionError(f"wiring to be one of {', '.join(WIRINGS)}", repr(wiring), remedy)
    return WIRINGS[wiring]


def renamed_reading(values: Mapping[str, Any]) -> dict[str, Any]:
    """Renames the option ``reading`` in stored options of version 0.1 to ``wiring``.

    Example:
        >>> renamed_reading({"reading": "C"}), renamed_reading({"wiring": "norm-first"})
        ({'wiring': 'outer-residual'}, {'wiring': 'norm-first'})
    """
    return {
        "wiring" if key == "reading" else key: WIRING_OF_READING.get(value, value) if key == "reading" else value
        for key, value in values.items()
    }


def lrga_update(
    m5: nn.Module, x: Tensor, attended: Tensor, local: Tensor, concatenate: tuple[str, ...] = PARTS
) -> Tensor:
    r"""The paper's equation 1, :math:`X \leftarrow m_5([X, \mathrm{LRGA}(X), \mathrm{GNN}(X)])`.

    Args:
        m5: A linear map.
        x: Input of the layer, ``[N, D]``.
        attended: LRGA of x.
        local: The graph layer's result.
        concatenate: Which of ``"input"``, ``"attention"`` and ``"local"`` are concatenated, in this order.

    Example:
        >>> import torch
        >>> lrga_update(nn.Linear(10, 4), torch.randn(3, 2), torch.randn(3, 5), torch.randn(3, 3)).shape
        torch.Size([3, 4])
    """
    parts = {"input": x, "attention": attended, "local": local}
    return mix([parts[name] for name in concatenate], m5)


class LRGALayer(nn.Module):
    r"""The paper's equation 1 with a layer of the benchmark.

    .. math::
        X' = \mathrm{BatchNorm}(\mathrm{ReLU}(m_5([X, \, \mathrm{LRGA}(X), \, \mathrm{base}(X)])))

    in the wiring ``"authors-code"``, the default; :class:`Wiring` lists the choices.

    Args:
        base: The local layer with ``channels`` inputs and outputs; without residual or BatchNorm if the wiring has
            none inside.
        channels: D.
        rank: The paper's κ; with 0 there is no attention: :math:`m_5([X, \mathrm{base}(X)])`.
        heads: Heads of the attention.
        dropout: Dropout on the attention's output.
        wiring: A :class:`Wiring`, or a name among ``WIRINGS``.
        batch_norm: Whether there is a BatchNorm after :math:`m_5` (the paper's GAT has none if it has one inside).
        backend: Backend of the attention.
        attention_options: A dict of ``normalize``, ``qk_norm``, ``gate`` and ``eps`` of the attention.

    Example:
        >>> import torch
        >>> from lrga.nn.layers.gcn import GCNLayer
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
        wiring: str | Wiring = "authors-code",
        batch_norm: bool = True,
        backend: str = "auto",
        attention_options: Mapping[str, Any] | None = None,
    ) -> None:
        super().__init__()
        self.wiring = wiring_of(wiring)
        for name, has, wanted in (
            ("residual", base.residual, self.wiring.inner_residual),
            ("batch_norm", base.norm is not None, self.wiring.inner_norm),
        ):
            if has and not wanted:
                expected = f"a base layer without {name} in wiring {wiring!r}"
                raise OptionError(expected, f"a layer with {name}", f"pass {name}=False")
        self.base, self.channels, self.rank = base, channels, rank
        options = check_attention_options(attention_options)
        self.attention = LowRankGlobalAttention(
            channels, rank, heads=heads, dropout=dropout, backend=backend, **options
        )
        self.mix = nn.Linear(self.wiring.mixed_width(channels, rank, heads), channels)
        self.norm = BatchNorm(channels) if batch_norm else None

    def reset_parameters(self) -> None:
        """Reinitialises all parameters."""
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
        """Same interface as the base layer. Edge features are also returned if the base layer returns them."""
        segments = as_segments(batch, x.size(0), num_graphs)
        options = {"need_edges": need_edges} if isinstance(self.base, GatedGCNLayer) else {}
        local, attended = in_parallel(
            "attention",
            lambda: self.base(x, edge_index, edge_attr, segments, **options),
            lambda: self.attention(x, segments),
            x,
        )
        local, rest = (local[0], local[1:]) if isinstance(local, tuple) else (local, ())
        h = lrga_update(self.mix, x, attended, local, self.wiring.concatenate)
        before, after = ("relu", None) if self.wiring.activation_first else (None, "relu")
        h = normalize(self.norm, h, count=valid_nodes(edge_index), before=before, after=after)
        if self.wiring.outer_residual:
            h = x + h
        return (h, *rest) if rest else h

    def extra_repr(self) -> str:
        name = next((name for name, known in WIRINGS.items() if known == self.wiring), self.wiring)
        return f"wiring={name!r}"
