"""Proposition 5: feature maps of polynomial kernels, whose coordinates are monomials.

    ⟨x, y⟩^β = Σ_{|ν| = β} (β choose ν) x^ν y^ν = ⟨φ_β(x), φ_β(y)⟩,    φ_β(x)_ν = √(β choose ν) x^ν,

and for several blocks x = [x_1, …, x_d], the product kernel Π_l ⟨x_l, y_l⟩^{β_l} has the products of the coordinates of
all φ_{β_l} as its feature map. Sizes: C(β + D − 1, D − 1) for one block of D columns, the product of these for several.

Letters: N nodes, D columns of a block, P coordinates of a feature map.
"""

import itertools
import math
from collections import Counter
from collections.abc import Sequence

import torch
from torch import Tensor, nn

from lrga.errors import OptionError, ShapeError

_LARGEST = 2**22  # coordinates; beyond, a single row of features takes 32 MB


def feature_size(degrees: Sequence[int], widths: Sequence[int]) -> int:
    """Π_l C(β_l + D_l − 1, D_l − 1), the number of coordinates of φ_β.

    Example:
        >>> feature_size([2], [3]), feature_size([2, 1], [3, 4])
        (6, 24)
    """
    for degree, width in zip(degrees, widths, strict=True):
        if degree < 0 or width < 0:
            raise OptionError("degrees and widths of 0 or more", f"{degrees} and {widths}", "pass counts")
    # A block without columns has the one monomial 1 for degree 0, and none else.
    return math.prod(math.comb(b + d - 1, b) if d else int(b == 0) for b, d in zip(degrees, widths, strict=True))


class PolynomialFeatures(nn.Module):
    """φ_β for one block: all monomials of degree β, with multinomial weights.

    Args:
        degree: β.
        width: D.

    Shapes:
        - x: ``[N, D]``
        - result: ``[N, C(β + D − 1, D − 1)]``

    Example:
        >>> import torch
        >>> x, y = torch.randn(2, 1, 5, dtype=torch.float64)
        >>> phi = PolynomialFeatures(degree=3, width=5)
        >>> bool(torch.isclose(phi(x) @ phi(y).T, (x @ y.T) ** 3).all())
        True
    """

    factors: Tensor
    weights: Tensor

    def __init__(self, degree: int, width: int) -> None:
        super().__init__()
        _check_size([degree], [width])
        self.degree, self.width = degree, width
        chosen = list(itertools.combinations_with_replacement(range(width), degree))
        factors = torch.tensor(chosen, dtype=torch.int64).view(len(chosen), degree)
        weights = [math.sqrt(_multinomial(degree, tuple(Counter(c).values()))) for c in chosen]
        # Constants, not parameters: nothing is learned here, and checkpoints need not carry them.
        self.register_buffer("factors", factors, persistent=False)
        self.register_buffer("weights", torch.tensor(weights, dtype=torch.float64), persistent=False)

    def forward(self, x: Tensor) -> Tensor:
        if x.dim() != 2 or x.size(1) != self.width:
            raise ShapeError(
                f"x of shape [N, {self.width}]", f"shape {list(x.shape)}", "pass the block it was made for"
            )
        return self.weights.to(x.dtype) * x[:, self.factors].prod(dim=-1)

    def extra_repr(self) -> str:
        return f"degree={self.degree}, width={self.width}"


class ProductFeatures(nn.Module):
    """φ_β for several blocks of columns: all products of one coordinate of each block's feature map.

    Args:
        degrees: β, one degree per block.
        blocks: The columns of each block within x; blocks may repeat.

    Shapes:
        - x: ``[N, D]``
        - result: ``[N, Π_l C(β_l + D_l − 1, D_l − 1)]``
    """

    def __init__(self, degrees: Sequence[int], blocks: Sequence[slice]) -> None:
        super().__init__()
        if len(degrees) != len(blocks):
            raise ShapeError(f"{len(blocks)} degrees, one per block", str(len(degrees)), "give each channel a degree")
        self.degrees, self.blocks = tuple(degrees), tuple(blocks)
        widths = [b.stop - b.start for b in self.blocks]
        _check_size(self.degrees, widths)
        self.maps = nn.ModuleList(PolynomialFeatures(b, w) for b, w in zip(self.degrees, widths, strict=True))

    @property
    def out_channels(self) -> int:
        return feature_size(self.degrees, [b.stop - b.start for b in self.blocks])

    def forward(self, x: Tensor) -> Tensor:
        result = x.new_ones(x.size(0), 1)
        for block, feature_map in zip(self.blocks, self.maps, strict=True):
            result = (result.unsqueeze(2) * feature_map(x[:, block]).unsqueeze(1)).flatten(1)
        return result

    def extra_repr(self) -> str:
        return f"degrees={list(self.degrees)}, out_channels={self.out_channels}"


def _multinomial(total: int, parts: tuple[int, ...]) -> int:
    return math.factorial(total) // math.prod(math.factorial(p) for p in parts)


def _check_size(degrees: Sequence[int], widths: Sequence[int]) -> None:
    for degree in degrees:
        if isinstance(degree, bool) or not isinstance(degree, int) or degree < 0:
            raise OptionError("degrees as counts, 0 or more", repr(degree), "pass a multi-index such as (1, 2)")
    size = feature_size(degrees, widths)
    if size > _LARGEST:
        raise OptionError(
            f"a feature map of at most {_LARGEST} coordinates",
            f"{size} for degrees {list(degrees)} of blocks {list(widths)} wide",
            "lower the degrees, or use a node factorisation of lower rank",
        )
