r"""Eigenvectors of the normalised Laplacian, :math:`L = I - D^{-1/2} A D^{-1/2}`.

Edges count in both directions, self-loops are ignored. The eigenvector of the smallest eigenvalue is left out; the next
k are the encoding. If a graph has fewer, the remaining columns are zero.

An eigenvector is defined up to its sign. In stored vectors the entry of largest magnitude (the first of several) is
positive, and :class:`~lrga.nn.encodings.EncodingEmbedding` flips each vector of each graph at random in training. The
eigenvectors of a repeated eigenvalue (in symmetric or unconnected graphs) are defined up to a rotation, which sign
flips do not cover. They are the same in every run on one machine, but may differ with another version of LAPACK.
"""

from typing import Any

import numpy as np
import torch
from torch import Tensor

from lrga.checks import check_count
from lrga.errors import DataError
from lrga.nn.encodings.walks import MAX_DENSE_NODES, EqualSizes, graphs_of_equal_size

MAX_DENSE_COMPONENT = 256  # larger components of a large graph use Lanczos iterations
_TIE = 1e-6  # magnitudes that differ by less count as equal when a sign is chosen


@torch.no_grad()
def laplacian_encoding(
    edge_index: Tensor,
    num_nodes: int,
    size: int,
    batch: Tensor | None = None,
    *,
    dtype: torch.dtype = torch.float32,
) -> Tensor:
    """The eigenvectors of the second smallest, third smallest, … eigenvalue of each graph's normalised Laplacian.

    Args:
        edge_index: ``[2, E]``.
        num_nodes: N.
        size: k, the number of eigenvectors.
        batch: Graph of each node, in any order; ``None`` is one graph.
        dtype: Data type of the result; the computation uses float64.

    Returns:
        ``[N, k]``: for undirected graphs the result of PyG's ``AddLaplacianEigenvectorPE`` up to signs, if the
        eigenvalues are distinct.

    Example:
        >>> vectors = laplacian_encoding(torch.tensor([[0, 1, 1, 2], [1, 0, 2, 1]]), 3, size=1)
        >>> [f"{abs(value):.2f}" for value in vectors.flatten().tolist()]
        ['0.71', '0.00', '0.71']
    """
    check_count("size", size, minimum=1)
    result = torch.zeros(num_nodes, size, dtype=torch.float64, device=edge_index.device)
    for group in graphs_of_equal_size(edge_index, num_nodes, batch):
        vectors = _dense(group) if group.size <= MAX_DENSE_NODES else _sparse(group, size)
        vectors = _with_fixed_signs(vectors[:, :, 1 : size + 1])
        result[group.nodes.flatten(), : vectors.size(2)] = vectors.flatten(0, 1)
    return result.to(dtype)


def _dense(group: EqualSizes) -> Tensor:
    """All eigenvectors of each graph as columns, ``[B, n, n]``, by increasing eigenvalue."""
    adjacency = group.adjacency()
    adjacency = (adjacency + adjacency.transpose(1, 2)) / 2
    adjacency.diagonal(dim1=1, dim2=2).zero_()
    degree = adjacency.sum(2)
    root = torch.where(degree > 0, degree.rsqrt(), 0.0)
    laplacian = -root.unsqueeze(2) * adjacency * root.unsqueeze(1)
    laplacian.diagonal(dim1=1, dim2=2).add_(1.0)
    return torch.linalg.eigh(laplacian).eigenvectors


def _sparse(group: EqualSizes, size: int) -> Tensor:
    """The first ``size + 1`` eigenvectors of one large graph, ``[1, n, size + 1]``, computed on a CPU for each
    connected component, because Lanczos iterations can miss copies of a repeated eigenvalue."""
    from scipy.sparse import coo_matrix
    from scipy.sparse.csgraph import connected_components

    keep = (group.source != group.target).cpu().numpy()
    source, target = group.source.cpu().numpy()[keep], group.target.cpu().numpy()[keep]
    shape = (group.size, group.size)
    adjacency = coo_matrix((np.full(len(source), 0.5), (source, target)), shape=shape).tocsr()
    adjacency = adjacency + adjacency.T
    count, component = connected_components(adjacency, directed=False)
    found: list[tuple[float, int, np.ndarray, np.ndarray]] = []  # eigenvalue, component, its nodes, eigenvector
    order = np.argsort(component, kind="stable")
    for number, nodes in enumerate(np.split(order, np.cumsum(np.bincount(component))[:-1])):
        if len(nodes) == 1:
            values, vectors = np.ones(1), np.ones((1, 1))
        else:
            values, vectors = _pairs(adjacency if count == 1 else adjacency[nodes][:, nodes], size + 1)
        found += [(value, number, nodes, vector) for value, vector in zip(values, vectors.T, strict=True)]
    result = np.zeros((group.size, size + 1))
    # Rounding must not decide between the copies of an eigenvalue.
    for column, (_, _, nodes, vector) in enumerate(sorted(found, key=lambda p: (round(p[0], 9), p[1]))[: size + 1]):
        result[nodes, column] = vector
    return torch.from_numpy(result).to(group.nodes.device).unsqueeze(0)


def _pairs(adjacency: Any, wanted: int) -> tuple[np.ndarray, np.ndarray]:
    """The smallest eigenvalues of a connected graph in increasing order, and their eigenvectors as columns."""
    from scipy.sparse import diags
    from scipy.sparse.linalg import ArpackError, eigsh

    nodes = adjacency.shape[0]
    degree = np.asarray(adjacency.sum(1)).ravel()
    root = diags(np.divide(1.0, np.sqrt(degree), out=np.zeros_like(degree), where=degree > 0))
    similar = root @ adjacency @ root
    if nodes <= max(MAX_DENSE_COMPONENT, wanted):
        values, vectors = np.linalg.eigh(np.eye(nodes) - similar.toarray())
        return values[:wanted], vectors[:, :wanted]
    start = np.random.default_rng(0).standard_normal(nodes)
    try:  # the largest eigenvalues of I - L converge sooner than the smallest of L
        values, vectors = eigsh(similar, k=wanted, which="LA", v0=start)
    except ArpackError as error:
        got = f"no convergence in a graph of {nodes:,} nodes ({error})"
        raise DataError(
            "eigenvectors of the Laplacian", got, "use fewer eigenvectors, or rwse instead of lappe"
        ) from error
    in_order = np.argsort(-values, kind="stable")
    return 1.0 - values[in_order], vectors[:, in_order]


def _with_fixed_signs(vectors: Tensor) -> Tensor:
    if vectors.size(2) == 0:
        return vectors
    magnitude = vectors.abs()
    largest = magnitude.amax(1, keepdim=True)
    first = (magnitude >= largest * (1 - _TIE)).to(torch.int8).argmax(1, keepdim=True)
    return vectors * torch.where(vectors.gather(1, first) < 0, -1.0, 1.0)
