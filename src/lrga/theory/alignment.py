"""Theorem 1 and its corollary: LRGA with polynomial feature maps *is* a head of the 2-FWL update.

Let X = [X^1, …, X^k] be a node factorisation of Y, so that Y_ij = (⟨x_i^{s_l}, x_j^{t_l}⟩)_l. With ψ_β the feature map
of the product kernel on the blocks s_1 … s_d and φ_β that on t_1 … t_d, Y^β = ψ_β(X) φ_β(X)ᵀ, and so

    Y^β Y^γ = [ψ_β(X) (φ_β(X)ᵀ ψ_γ(X))] φ_γ(X)ᵀ:

with m1 = ψ_β, m2 = φ_β, m3 = ψ_γ, m4 = φ_γ, the two parts of LRGA's output are a node factorisation of η^(-1) Y^β Y^γ,
where η = (1/n) Σ_ij Y^β_ij.

The paper says that η "has no theoretical influence", 2-FWL being insensitive to global scaling. That is so within one
graph; between graphs η differs, and a single head can lose what told them apart: on regular graphs of any degree,
A·J / η is the all-ones matrix. Several heads mend it: those with β = 0 have η = n and tell Σ Y^γ.

Letters: n nodes, d channels of Y.
"""

from collections.abc import Sequence

import torch
from torch import Tensor

from lrga.errors import OptionError, ShapeError
from lrga.nn.attention import LowRankGlobalAttention, Maps
from lrga.theory.factorization import NodeFactorization
from lrga.theory.polynomial import ProductFeatures

Head = tuple[Sequence[int], Sequence[int]]


def align(
    beta: Sequence[int], gamma: Sequence[int], factorization: NodeFactorization, *, normalize: str | None = "graph"
) -> LowRankGlobalAttention:
    """LRGA whose maps are the feature maps of Y^β Y^γ, for graphs factorised in the same way (theorem 1).

    Args:
        beta, gamma: Multi-indices, one entry per channel of Y.
        factorization: Gives the block structure; the module then takes its ``features``, or those of any other graph
            with blocks of the same widths.
        normalize: ``"graph"`` divides by η as LRGA does, ``None`` leaves Y^β Y^γ itself.

    Example:
        >>> import torch
        >>> from lrga.theory import align, factorize, isomorphism_types, multiply_heads
        >>> tensor = isomorphism_types([(0, 1), (1, 2), (2, 3), (3, 0)])
        >>> factorization = factorize(tensor)
        >>> attention = align((0, 1), (0, 1), factorization, normalize=None)  # channels [I, A]: the head A·A
        >>> (head,) = multiply_heads(attention, factorization)
        >>> bool(torch.allclose(head, tensor[..., 1] @ tensor[..., 1]))
        True
    """
    return align_heads([(beta, gamma)], factorization, normalize=normalize)


def align_heads(
    heads: Sequence[Head], factorization: NodeFactorization, *, normalize: str | None = "graph"
) -> LowRankGlobalAttention:
    """Multi-head LRGA, one head per (β, γ) (the corollary); see :func:`align`."""
    if not heads:
        raise OptionError("one head or more", "none", "pass a list of (beta, gamma)")
    maps = [_maps(beta, gamma, factorization) for beta, gamma in heads]
    width = factorization.features.size(1)
    return LowRankGlobalAttention(width, 0, heads=len(maps), maps=maps, normalize=normalize)


def _maps(beta: Sequence[int], gamma: Sequence[int], factorization: NodeFactorization) -> Maps:
    channels, slices = len(factorization.pairs), factorization.slices
    for name, degrees in (("beta", beta), ("gamma", gamma)):
        if len(degrees) != channels:
            raise ShapeError(f"{name} with {channels} entries, one per channel", f"{tuple(degrees)}", "pad it with 0")
    left, right = ([slices[pair[side]] for pair in factorization.pairs] for side in (0, 1))
    return (
        ProductFeatures(beta, left),
        ProductFeatures(beta, right),
        ProductFeatures(gamma, left),
        ProductFeatures(gamma, right),
    )


def multiply_heads(attention: LowRankGlobalAttention, factorization: NodeFactorization) -> list[Tensor]:
    """Applies an aligned module and multiplies the two parts of each head's output: η^(-1) Y^β Y^γ, ``[n, n]``."""
    if attention.maps is None:
        raise OptionError("a module that align returned", repr(attention), "use lrga.theory.align")
    out = attention(factorization.features)
    widths = [m.out_channels for head in attention.maps for m in list(head.children())[2:]]
    parts = out.split(widths, dim=1)
    return [left @ right.T for left, right in zip(parts[::2], parts[1::2], strict=True)]


def head_of(tensor: Tensor, beta: Sequence[int], gamma: Sequence[int]) -> Tensor:
    """Y^β Y^γ, computed from the tensor ``[n, n, d]`` itself: what aligned modules are compared with."""
    return _power(tensor, beta) @ _power(tensor, gamma)


def eta_of(tensor: Tensor, beta: Sequence[int]) -> Tensor:
    """η = (1/n) Σ_ij Y^β_ij, LRGA's normalisation of an aligned head."""
    return _power(tensor, beta).sum() / tensor.size(0)


def _power(tensor: Tensor, exponents: Sequence[int]) -> Tensor:
    return torch.stack([channel**e for channel, e in zip(tensor.unbind(-1), exponents, strict=True)]).prod(dim=0)
