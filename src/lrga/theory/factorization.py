"""Node factorisations of tensors, and LRGA as a head of the 2-FWL update on them.

Isomorphism types are a tensor (section 3) and have node factorisations (definition 3, proposition 4).

Theorem 1 and its corollary: LRGA with polynomial feature maps *is* a head of the 2-FWL update.

Let X = [X^1, …, X^k] be a node factorisation of Y, so that Y_ij = (⟨x_i^{s_l}, x_j^{t_l}⟩)_l. With ψ_β the feature map
of the product kernel on the blocks s_1 … s_d and φ_β that on t_1 … t_d, Y^β = ψ_β(X) φ_β(X)ᵀ, and so

    Y^β Y^γ = [ψ_β(X) (φ_β(X)ᵀ ψ_γ(X))] φ_γ(X)ᵀ:

with m1 = ψ_β, m2 = φ_β, m3 = ψ_γ, m4 = φ_γ, the two parts of LRGA's output are a node factorisation of η^(-1) Y^β Y^γ,
where η = (1/n) Σ_ij Y^β_ij.

The paper says that η "has no theoretical influence", because 2-FWL is insensitive to global scaling. This holds within
one graph. Different graphs have different η, and a single head can lose their difference: A·J / η is the all-ones
matrix for every regular graph. Several heads do not lose it: heads with β = 0 have η = n and determine Σ Y^γ.

Letters: n nodes, d channels of a tensor ``[n, n, d]``, D columns of its node factorisation, F node features.
"""

import itertools
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch_geometric.nn import GraphConv

from lrga.checks import check_choice, check_count
from lrga.errors import DTypeError, OptionError, ShapeError
from lrga.nn.attention import LowRankGlobalAttention, Maps
from lrga.nn.random_features import DISTRIBUTIONS
from lrga.theory.kernels import ProductFeatures, channel_power
from lrga.theory.labelled import GraphLike, LabelledGraph, as_graph


def isomorphism_types(graph: GraphLike, features: Tensor | None = None) -> Tensor:
    """The paper's Y⁰ = [I, 1⊗X, X⊗1, A], float64 ``[n, n, 2 + 2F]``, where (1⊗X)_ij = x_j and (X⊗1)_ij = x_i.

    Two pairs (i, j) have equal entries exactly if i = j in both or neither, the features of their nodes are equal, and
    both or neither are edges. Without node features the tensor is [I, A].

    Args:
        graph: Any graph that :func:`lrga.theory.as_graph` reads.
        features: ``[n, F]``; the graph's node labels by default, if it has any.

    Example:
        >>> isomorphism_types([(0, 1), (1, 2)])[0].int().tolist()  # rows [i = j, edge] for i = 0
        [[1, 0], [0, 1], [0, 0]]
    """
    graph = as_graph(graph)
    features = _features_of(graph, features)
    adjacency = torch.from_numpy(graph.adjacency()).to(torch.float64)
    size = graph.num_nodes
    identity = torch.eye(size, dtype=torch.float64)
    nodes = features.unsqueeze(0).expand(size, -1, -1)
    return torch.cat([identity.unsqueeze(-1), nodes, nodes.transpose(0, 1), adjacency.unsqueeze(-1)], dim=-1)


@dataclass(frozen=True, eq=False)
class NodeFactorization:
    """Blocks X^1 … X^k of node features and index pairs, such that channel l of a tensor is X^{s_l} (X^{t_l})ᵀ.

    Attributes:
        blocks: The paper's X^1 … X^k, each ``[n, D_k]``.
        pairs: The paper's (s_l, t_l), counted from 0.

    Example:
        >>> factorization = factorize(isomorphism_types([(0, 1), (1, 2), (2, 0)]))
        >>> len(factorization.pairs), factorization.error(isomorphism_types([(0, 1), (1, 2), (2, 0)])) < 1e-12
        (2, True)
    """

    blocks: tuple[Tensor, ...]
    pairs: tuple[tuple[int, int], ...]

    @property
    def features(self) -> Tensor:
        """X = [X^1, …, X^k], ``[n, D]``."""
        return torch.cat(self.blocks, dim=1)

    @property
    def slices(self) -> tuple[slice, ...]:
        """Columns of each block within :attr:`features`."""
        ends = torch.tensor([0, *(b.size(1) for b in self.blocks)]).cumsum(0).tolist()
        return tuple(slice(a, b) for a, b in itertools.pairwise(ends))

    def tensor(self) -> Tensor:
        """The product of the blocks, ``[n, n, d]``."""
        return torch.stack([self.blocks[s] @ self.blocks[t].T for s, t in self.pairs], dim=-1)

    def error(self, tensor: Tensor) -> float:
        """Relative error ‖product − tensor‖ / ‖tensor‖ in the Frobenius norm."""
        product = self.tensor()
        if product.shape != tensor.shape:
            raise ShapeError(f"a tensor {list(product.shape)}", f"{list(tensor.shape)}", "pass the factorised tensor")
        return float((product - tensor).norm() / tensor.norm().clamp_min(torch.finfo(tensor.dtype).tiny))


def factorize(tensor: Tensor, *, tolerance: float = 1e-10) -> NodeFactorization:
    """An exact node factorisation, by eigenvectors for symmetric channels and by singular vectors for others.

    Eigenvalues (singular values) below ``tolerance`` of the largest are left out: D is twice the sum of the ranks.

    Args:
        tensor: ``[n, n, d]``, floating point.
        tolerance: Relative size below which a value counts as zero.
    """
    if tensor.dim() != 3 or tensor.size(0) != tensor.size(1):
        raise ShapeError("a tensor [n, n, d]", f"shape {list(tensor.shape)}", "stack matrices along the last axis")
    if not tensor.is_floating_point():
        raise DTypeError("a floating-point tensor", str(tensor.dtype), "use tensor.double()")
    blocks: list[Tensor] = []
    for matrix in tensor.unbind(-1):
        left, right = _factors(matrix, tolerance)
        blocks += [left, right]
    return NodeFactorization(tuple(blocks), tuple((2 * c, 2 * c + 1) for c in range(tensor.size(2))))


def _factors(matrix: Tensor, tolerance: float) -> tuple[Tensor, Tensor]:
    if torch.equal(matrix, matrix.T):
        values, vectors = torch.linalg.eigh(matrix)
        left, right = vectors * values.sign(), vectors
    else:
        left, values, rows = torch.linalg.svd(matrix, full_matrices=False)
        right = rows.T
    size = values.abs()
    keep = size > tolerance * size.max().clamp_min(torch.finfo(matrix.dtype).tiny)
    root = size[keep].sqrt()
    return left[:, keep] * root, right[:, keep] * root


def factorizing_layer(channels: int, num_features: int = 0) -> GraphConv:
    """One message-passing layer that maps [X, R] to [1, X, R, AR] by its linear weights (proposition 4).

    Without node features it maps R to [AR, R], as the paper's main text has it. A :class:`GraphConv` computes
    ``W_root x_i + W_rel Σ_j x_j + b`` over the neighbours; the constant 1 is its bias (the paper uses a global
    attribute block for it, which is not needed).

    Args:
        channels: The paper's d, the number of random features.
        num_features: F.
    """
    check_count("channels", channels, minimum=1)
    check_count("num_features", num_features)
    width = num_features + channels
    zero, one = torch.zeros(channels, width), torch.eye(width)
    if num_features:
        root = torch.cat([torch.zeros(1, width), one, zero])
        relation = torch.cat([torch.zeros(1 + width, width), one[num_features:]])
        bias = torch.cat([torch.ones(1), torch.zeros(width + channels)])
    else:
        root, relation = torch.cat([zero, one]), torch.cat([one, zero])
        bias = torch.zeros(2 * channels)
    layer = GraphConv(width, len(bias), flow="target_to_source")  # (AR)_i is the sum over j for all arcs i → j
    with torch.no_grad():
        layer.lin_root.weight.copy_(root)
        layer.lin_rel.weight.copy_(relation)
        nn.init.zeros_(layer.lin_rel.bias).add_(bias)
    return layer.double()


def random_factorization(
    graph: GraphLike,
    channels: int,
    *,
    features: Tensor | None = None,
    distribution: str = "rademacher",
    generator: torch.Generator | None = None,
) -> NodeFactorization:
    """An approximate node factorisation of the isomorphism types, by one layer on random features (proposition 4).

    R has entries of variance 1/d, so R Rᵀ ≈ I and (AR) Rᵀ ≈ A, with errors that decrease as d^(-1/2). The channels of
    the node features are exact.

    Args:
        graph: Any graph that :func:`lrga.theory.as_graph` reads.
        channels: The paper's d.
        features: ``[n, F]``; the graph's node labels by default, if it has any.
        distribution: ``"rademacher"``, ``"uniform"`` or ``"normal"``.
        generator: Source of randomness.
    """
    check_choice("distribution", distribution, tuple(DISTRIBUTIONS))
    graph = as_graph(graph)
    features = _features_of(graph, features)
    width = features.size(1)
    layer = factorizing_layer(channels, width)
    drawn = DISTRIBUTIONS[distribution](graph.num_nodes, channels, generator=generator).to(torch.float64)
    edge_index = torch.stack([torch.from_numpy(graph.source), torch.from_numpy(graph.target)])
    with torch.no_grad():
        out = layer(torch.cat([features, drawn], dim=1), edge_index)
    if not width:
        propagated, random = out.split(channels, dim=1)
        return NodeFactorization((random, propagated), ((0, 0), (1, 0)))
    one, *columns = out[:, : 1 + width].split(1, dim=1)
    random, propagated = out[:, 1 + width :].split(channels, dim=1)
    column = range(1, 1 + width)
    pairs = [(1 + width, 1 + width), *((0, c) for c in column), *((c, 0) for c in column), (2 + width, 1 + width)]
    return NodeFactorization((one, *columns, random, propagated), tuple(pairs))


def _features_of(graph: LabelledGraph, features: Tensor | Sequence[Sequence[float]] | None) -> Tensor:
    if features is None:
        labels = graph.node_labels
        return torch.zeros(graph.num_nodes, 0, dtype=torch.float64) if labels is None else torch.tensor(labels).double()
    features = torch.as_tensor(features).double()
    if features.dim() != 2 or len(features) != graph.num_nodes:
        got = f"shape {list(features.shape)}"
        raise ShapeError(f"features [{graph.num_nodes}, F]", got, "give one row of features per node")
    return features


Head = tuple[Sequence[int], Sequence[int]]


def align(
    beta: Sequence[int], gamma: Sequence[int], factorization: NodeFactorization, *, normalize: str | None = "graph"
) -> LowRankGlobalAttention:
    """LRGA whose maps are the feature maps of Y^β Y^γ, for graphs factorised in the same way (theorem 1).

    Args:
        beta, gamma: Multi-indices, one entry per channel of Y.
        factorization: Defines the block structure. The input of the module is its ``features``, or the features of any
            other graph with blocks of the same widths.
        normalize: ``"graph"`` divides by η as LRGA does, ``None`` returns Y^β Y^γ.

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
    m1, m2, m3, m4 = (ProductFeatures(degrees, side) for degrees in (beta, gamma) for side in (left, right))
    return m1, m2, m3, m4


def multiply_heads(attention: LowRankGlobalAttention, factorization: NodeFactorization) -> list[Tensor]:
    """Applies an aligned module and multiplies the two parts of each head's output: η^(-1) Y^β Y^γ, ``[n, n]``."""
    if attention.maps is None:
        raise OptionError("a module that align returned", repr(attention), "use lrga.theory.align")
    out = attention(factorization.features)
    widths = [m.out_channels for head in attention.maps for m in list(head.children())[2:]]
    parts = out.split(widths, dim=1)
    return [left @ right.T for left, right in zip(parts[::2], parts[1::2], strict=True)]


def head_of(tensor: Tensor, beta: Sequence[int], gamma: Sequence[int]) -> Tensor:
    """Y^β Y^γ, computed from the tensor ``[n, n, d]``: the reference for aligned modules."""
    return channel_power(tensor, beta) @ channel_power(tensor, gamma)


def eta_of(tensor: Tensor, beta: Sequence[int]) -> Tensor:
    """η = (1/n) Σ_ij Y^β_ij, LRGA's normalisation of an aligned head."""
    return channel_power(tensor, beta).sum() / tensor.size(0)
