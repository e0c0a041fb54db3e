"""The 2-FWL update as power sums and matrix products (appendix "Multiset encoding"), in exact integers.

The multiset of the pair (i, j) has the elements z_k = [Y_ik, Y_kj]. Its power sums Σ_k z_k^α over all α = (β, γ) with
|α| ≤ n determine it, and they are matrix products: Σ_k Y_ik^β Y_kj^γ = (Y^β Y^γ)_ij, where Y^β takes products of powers
of the channels, entry by entry.

Letters: G graphs of n nodes, d channels.
"""

from collections.abc import Iterator, Sequence

import numpy as np

from lrga.errors import DTypeError, ShapeError
from lrga.theory.labelled import Array
from lrga.theory.monomials import MultiIndex, multi_indices


def channel_power(tensor: Array, exponents: Sequence[int]) -> Array:
    """Y^β, ``[…, n, n]`` from ``[…, n, n, d]``; 0⁰ = 1."""
    result = np.ones(tensor.shape[:-1], dtype=tensor.dtype)
    for channel, exponent in enumerate(exponents):
        for _ in range(exponent):
            result = result * tensor[..., channel]
    return result


def heads(channels: int, degree: int) -> list[tuple[MultiIndex, MultiIndex]]:
    """All (β, γ) with |β| + |γ| ≤ degree: one head of the update each.

    Example:
        >>> heads(1, 1)
        [((0,), (0,)), ((0,), (1,)), ((1,), (0,))]
    """
    return [(alpha[:channels], alpha[channels:]) for alpha in multi_indices(2 * channels, degree)]


def fwl_update(tensor: Array, degree: int | None = None) -> Array:
    """Y^{l+1} = [Y, (Y^β Y^γ for all |β| + |γ| ≤ n)], exactly.

    Args:
        tensor: ``[n, n, d]`` or ``[G, n, n, d]`` of integers.
        degree: The largest |β| + |γ|; n by default, as the theorem on power sums asks.

    Returns:
        ``[…, n, n, d + C(n + 2d, 2d)]``: int64 where sums fit, else Python integers.

    Example:
        >>> import numpy as np
        >>> path = np.array([[0, 1, 0], [1, 0, 1], [0, 1, 0]])
        >>> fwl_update(np.stack([np.eye(3, dtype=int), path], axis=-1)).shape
        (3, 3, 37)
    """
    tensor = np.asarray(tensor)
    if tensor.dtype.kind not in "iuO":
        raise DTypeError("a tensor of integers", str(tensor.dtype), "round it first: power sums are compared exactly")
    if tensor.ndim not in (3, 4) or tensor.shape[-2] != tensor.shape[-3]:
        raise ShapeError(
            "[n, n, d] or [G, n, n, d]", f"shape {list(tensor.shape)}", "stack channels along the last axis"
        )
    degree = tensor.shape[-2] if degree is None else degree
    largest = int(np.abs(tensor).max(initial=1))
    if tensor.shape[-2] * largest**degree >= 2**63:
        tensor = tensor.astype(object)
    return np.concatenate([tensor, np.stack(list(_products(tensor, degree)), axis=-1)], axis=-1)


def _products(tensor: Array, degree: int) -> Iterator[Array]:
    channels = tensor.shape[-1]
    powers = {beta: channel_power(tensor, beta) for beta in multi_indices(channels, degree)}
    for beta, gamma in heads(channels, degree):
        yield powers[beta] @ powers[gamma]


def colours_of(tensor: Array) -> Array:
    """Numbers the different rows of a tensor ``[…, d]``: equal numbers for equal rows."""
    number = np.zeros(tensor.shape[:-1], dtype=np.int64)
    for channel in range(tensor.shape[-1]):
        values, rank = np.unique(tensor[..., channel], return_inverse=True)
        if len(values) > 1:
            number = np.unique(number * len(values) + rank.reshape(number.shape), return_inverse=True)[1]
            number = number.reshape(tensor.shape[:-1])
    return number


def same_partition(first: Array, second: Array) -> bool:
    """Whether two colourings have the same classes, by whatever names.

    Example:
        >>> import numpy as np
        >>> same_partition(np.array([0, 0, 1]), np.array([5, 5, 2])), same_partition(np.array([0, 0]), np.array([0, 1]))
        (True, False)
    """
    first, second = first.reshape(-1), second.reshape(-1)
    both = np.unique(np.stack([first, second]), axis=1).shape[1]
    return both == len(np.unique(first)) == len(np.unique(second))
