"""2-FWL and 2-WL: colour refinement of pairs of nodes.

2-FWL: in a round, the new colour of a pair consists of its old colour and the multiset over k of the *joint* colours
(Y_ik, Y_kj): the paper's equation for Y^{l+1}. As in the paper, the multiset is encoded by matrix products. With random
weights f, g of the colours,

    H_ij = Σ_k f(Y_ik) g(Y_kj)    (mod a prime p),    that is    H = f(Y) g(Y),

is a polynomial of degree two in the weights. The polynomial of the difference of two multisets is zero only if they are
equal, so unequal multisets agree with probability at most 2/p (Schwartz–Zippel). Products are repeated until this
probability is below 2^-128. They are exact in floating point, because all sums are below 2^53, and use the fastest
matrix product of the machine or GPU: O(n³) time in blocks of rows, O(n²) memory.

Unequal hashes imply unequal multisets; a collision could only hide a difference. Therefore the final colouring is
verified once with the exact sorted multisets, block by block. It is stable and no finer than the coarsest stable
colouring, so it is the coarsest stable colouring, and verdicts do not depend on collisions.

Oblivious 2-WL: the new colour of a pair consists of its old colour, the multiset of colours of (k, j) over all k, and
the multiset of colours of (i, k) over all k. These are the multisets of a column and a row of the colour matrix, so a
round takes O(n² log n) time. Rows are sorted and compared in full, without hashes. This test distinguishes the same
graphs as 1-WL (the paper calls vertex colouring "2-WL"). It is included to show this, and the difference from 2-FWL,
which keeps the two colours at k together.

Letters: G graphs of n nodes each.
"""

import functools
import math
from collections.abc import Iterator, Sequence

import numpy as np
import torch
from torch import Tensor

from lrga.errors import DeviceError
from lrga.theory.labelled import LabelledGraph, check_fits
from lrga.theory.wl.joint import Refinement, check_no_self_loops, join, pair_types

_BYTES_PER_PAIR = {"2-fwl": 224, "2-wl": 144}  # tests/theory/test_fwl.py measures them
_BLOCK_BYTES = 16 * 1024**2
_BITS = 128


def refine_pairs(
    graphs: Sequence[LabelledGraph],
    test: str = "2-fwl",
    *,
    rounds: int | None = None,
    until_apart: bool = False,
    device: torch.device | str = "cpu",
) -> Refinement:
    """Refines the pairs of several graphs of the same size together, by ``"2-fwl"`` or ``"2-wl"``.

    The options are those of :func:`lrga.theory.wl.refinement.refine_nodes`; 2-FWL runs its products on ``device``.
    """
    check_no_self_loops(graphs, test)
    device = _check_device(device)
    size, count, folklore = graphs[0].num_nodes, len(graphs), test == "2-fwl"

    def need(n: int) -> int:
        return _BYTES_PER_PAIR[test] * count * n * n + 8 * _BLOCK_BYTES * folklore

    check_fits(size, need, what=test.upper(), device=device)
    types, num_colours = pair_types(join(graphs))
    colours = torch.from_numpy(types).to(device)
    apart = until_apart and _histograms_differ(colours, num_colours)
    done, seed, stable = 0, 0, num_colours == colours.numel()
    while not (apart or stable) and (rounds is None or done < rounds):
        before = num_colours
        colours, num_colours = _round(colours, before, seed) if folklore else _oblivious_round(colours)
        if num_colours == before:
            stable = not folklore or _is_stable(colours, num_colours)
            seed += 1  # other weights, in case of a 128-bit collision
            continue
        done, stable = done + 1, num_colours == colours.numel()  # all colours differ: nothing left to split
        apart = until_apart and _histograms_differ(colours, num_colours)
    return Refinement(list(colours.cpu().numpy()), done, stable, done if apart else None)


def _oblivious_round(pairs: Tensor) -> tuple[Tensor, int]:
    """2-WL: the colour of a pair and the multisets of colours of its row and its column."""
    colours = pairs.numpy()
    both = np.concatenate([colours, colours.transpose(0, 2, 1)])
    rows = np.sort(both, axis=2).reshape(-1, colours.shape[2])
    multisets, number = np.unique(rows, axis=0, return_inverse=True)
    row, column = number.reshape(2, *colours.shape[:2])
    frames, frame = np.unique(row[:, :, None] * len(multisets) + column[:, None, :], return_inverse=True)
    different, refined = np.unique(colours * len(frames) + frame.reshape(colours.shape), return_inverse=True)
    return torch.from_numpy(refined.reshape(colours.shape)), len(different)


def _round(colours: Tensor, num_colours: int, seed: int) -> tuple[Tensor, int]:
    prime, products = _modulus(colours.size(-1))
    names = colours
    for product in range(products):
        left, right = _weights(num_colours, prime, seed * products + product, colours.device)
        different, names = torch.unique(names * prime + _hashes(colours, left, right, prime), return_inverse=True)
    return names, len(different)


def _hashes(colours: Tensor, left: Tensor, right: Tensor, prime: int) -> Tensor:
    """``Σ_k left[Y_ik] right[Y_kj] mod prime``, ``[G, n, n]`` integers."""
    count, size = colours.shape[:2]
    result = torch.empty_like(colours)
    for graphs in _blocks(count, 8 * size * size):  # many small graphs at a time, or one large graph
        factor = right[colours[graphs]]
        for rows in _blocks(size, 8 * size * len(factor)):
            result[graphs, rows] = (left[colours[graphs, rows]] @ factor).remainder_(prime).to(torch.int64)
    return result


@functools.cache
def _modulus(size: int) -> tuple[int, int]:
    """The largest prime whose products are exact in double precision, and the number of products for 128 bits.

    Weights are in ``[-(p-1)/2, (p-1)/2]``: sums of n products are below ``n p² / 4 ≤ 2^53``.
    """
    prime = math.isqrt(2**55 // max(size, 1))
    while any(prime % divisor == 0 for divisor in range(2, math.isqrt(prime) + 1)):
        prime -= 1
    return prime, math.ceil(_BITS / math.log2(prime / 2))


def _weights(num_colours: int, prime: int, seed: int, device: torch.device) -> tuple[Tensor, Tensor]:
    """Two independent random weights per colour, uniform modulo the prime; they depend on name and seed only."""
    generator = np.random.default_rng([seed, prime])
    half = prime // 2
    drawn = generator.integers(-half, half, size=(num_colours, 2), endpoint=True).astype(np.float64)
    left, right = torch.from_numpy(drawn).to(device).T.contiguous()
    return left, right


def _is_stable(colours: Tensor, num_colours: int) -> bool:
    """Whether all pairs of a class have exactly the same multiset of joint colours, by comparing the multisets.

    The rows i of a class must have the same multiset of colours, and so must the columns j. Then the rank of a colour
    within its row or column identifies it, and joint ranks fit into 32 bits, which sort much faster than 64 bits.
    """
    size = colours.size(-1)
    row_rank, row_kind = _ranks_in_rows(colours)
    column_rank, column_kind = _ranks_in_rows(colours.transpose(1, 2))
    flat = colours.reshape(-1)
    order = torch.argsort(flat, stable=True)
    repeated = torch.bincount(flat, minlength=num_colours)[flat[order]] > 1
    pairs = order[repeated]  # by class; classes of one pair need no comparison
    last: tuple[Tensor, Tensor] | None = None
    for block in _blocks(len(pairs), 8 * size):
        graph, i, j = torch.unravel_index(pairs[block], colours.shape)
        seen = row_rank[graph, i] * size + column_rank[graph, j]
        on_cpu = seen.device.type == "cpu"  # numpy's sort is vectorised
        seen = torch.from_numpy(np.sort(seen.numpy(), axis=1)) if on_cpu else seen.sort(dim=1).values
        seen = torch.cat([row_kind[graph, i, None], column_kind[graph, j, None], seen], dim=1)
        kinds = flat[pairs[block]]
        if last is not None:
            seen, kinds = torch.cat([last[0], seen]), torch.cat([last[1], kinds])
        same = kinds[1:] == kinds[:-1]
        if bool(((seen[1:] != seen[:-1]).any(dim=1) & same).any()):
            return False
        last = seen[-1:], kinds[-1:]
    return True


def _ranks_in_rows(matrices: Tensor) -> tuple[Tensor, Tensor]:
    """Rank of each entry among the distinct entries of its row, ``[G, n, n]``, and a number for each row's multiset."""
    size = matrices.size(-1)
    kind = torch.int32 if size * size < 2**31 else torch.int64
    in_order, order = matrices.sort(dim=2)
    steps = torch.zeros_like(in_order, dtype=kind)
    steps[:, :, 1:] = in_order[:, :, 1:] != in_order[:, :, :-1]
    rank = torch.empty_like(steps).scatter_(2, order, steps.cumsum(dim=2, dtype=kind))
    number = torch.unique(in_order.reshape(-1, size), dim=0, return_inverse=True)[1]
    return rank, number.reshape(matrices.shape[:2]).to(kind)


def _blocks(length: int, bytes_per_row: int) -> Iterator[slice]:
    step = max(_BLOCK_BYTES // max(bytes_per_row, 1), 1)
    return (slice(start, min(start + step, length)) for start in range(0, length, step))


def _histograms_differ(colours: Tensor, num_colours: int) -> bool:
    first, second = (torch.bincount(c.reshape(-1), minlength=num_colours) for c in colours[:2])
    return not torch.equal(first, second)


def _check_device(device: torch.device | str) -> torch.device:
    try:
        found = torch.device(device)
    except RuntimeError as error:
        raise DeviceError("a device such as 'cpu' or 'cuda'", repr(device), "pass 'cpu' or 'cuda'") from error
    if found.type not in ("cpu", "cuda"):
        raise DeviceError("'cpu' or 'cuda'", str(found), "2-FWL needs double precision; use 'cpu'")
    if found.type == "cuda" and not torch.cuda.is_available():
        raise DeviceError("a CUDA device", f"{found} on a machine without one", "use device='cpu'")
    return found
