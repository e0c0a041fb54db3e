"""The embedding rows of the paper's Table 2: a learned vector for each node; a pair is scored from the product of two.

As in OGB's examples, Node2Vec and DeepWalk first learn the vectors from random walks, then a predictor on the frozen
vectors (and the node features, if there are any). Matrix factorisation learns both at once.
"""

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from lrga.checks import check_count
from lrga.errors import OptionError, ShapeError
from lrga.models.link import LinkPredictor, check_pairs, link_set
from lrga.nn.encoders import all_rows

NARROW = 3  # bands up to this width are computed by diagonals, wider ones by a matrix product


class MatrixFactorization(nn.Module):
    """A table of node vectors, and an MLP on the elementwise product of two vectors.

    Args:
        num_nodes: Rows of the table.
        channels: Width of the vectors.
        hidden_channels: Width of the predictor.
        num_layers: Linear maps of the predictor.
        num_features: Columns of the node features that are concatenated to the vectors.
        dropout: In the predictor.
        predictor: The ``kind`` of :class:`~lrga.models.link.LinkPredictor`.

    Example:
        >>> import torch
        >>> MatrixFactorization(5, 8)(torch.tensor([[0, 1], [2, 3]])).shape
        torch.Size([2])
    """

    trains_vectors = True  # the predictor's loss trains the vectors too

    def __init__(
        self,
        num_nodes: int,
        channels: int = 256,
        *,
        hidden_channels: int = 256,
        num_layers: int = 3,
        num_features: int | None = None,
        dropout: float = 0.0,
        predictor: str = "hadamard",
    ) -> None:
        arguments = {key: value for key, value in locals().items() if key not in ("self", "__class__")}
        super().__init__()
        self.arguments = arguments  # for save_pretrained
        check_count("num_nodes", num_nodes, minimum=1)
        check_count("channels", channels, minimum=1)
        self.num_nodes, self.channels, self.num_features = num_nodes, channels, num_features
        self.embedding = nn.Embedding(num_nodes, channels)
        width = channels + (num_features or 0)
        self.predictor = LinkPredictor(width, hidden_channels, num_layers, dropout=dropout, kind=predictor)

    def reset_parameters(self) -> None:
        """Reinitialises all parameters."""
        self.embedding.reset_parameters()
        self.predictor.reset_parameters()

    def forward(self, pairs: Tensor, x: Tensor | None = None) -> Tensor:
        """Logits ``[P]`` of ``pairs`` ``[2, P]``. ``x`` is ``[N, num_features]`` if the model has features."""
        check_pairs(pairs)
        if (x is None) != (self.num_features is None):
            raise ShapeError(
                f"x of shape [{self.num_nodes}, {self.num_features}]" if self.num_features else "no node features",
                "None" if x is None else f"shape {list(x.shape)}",
                "pass x only if the model was built with num_features",
            )
        ends = [self._vectors(nodes) for nodes in pairs]
        if x is not None:
            ends = [torch.cat([x.index_select(0, nodes), h], dim=-1) for nodes, h in zip(pairs, ends, strict=True)]
        return self.predictor(*ends)

    def encode(self, x: Tensor | None, edge_index: Any = None, edge_weight: Tensor | None = None) -> Tensor:
        """Input of the predictor for all nodes, ``[N, channels + num_features]``; the edges are not used."""
        del edge_index, edge_weight
        table = all_rows(self.embedding)
        table = table if self.trains_vectors else table.detach()
        return table if self.num_features is None or x is None else torch.cat([x, table], dim=-1)

    def score(self, h: Tensor, pairs: Tensor) -> Tensor:
        """Logits ``[P]`` of ``pairs`` ``[2, P]``; ``h`` is the result of :meth:`encode`."""
        check_pairs(pairs)
        return self.predictor(h.index_select(0, pairs[0]), h.index_select(0, pairs[1]))

    def parameter_groups(self) -> list[list[nn.Parameter]]:
        """Groups of parameters whose gradients are clipped together: predictor and, if it trains them, vectors."""
        vectors = [list(self.embedding.parameters())] if self.trains_vectors else []
        return [group for group in (list(self.predictor.parameters()), *vectors) if group]

    def _vectors(self, nodes: Tensor) -> Tensor:
        return self.embedding(nodes)


class Node2Vec(MatrixFactorization):
    r"""Node vectors from random walks by skip-gram with negative sampling, and a predictor on them.

    The vector of the first node of a walk moves towards those of the nodes that follow, and away from random ones:

    .. math::
        -\sum_{t \geq 1} \log \sigma(v_{w_0} \cdot c_{w_t}) - \sum_{t \geq 1} \log \sigma(-v_{w_0} \cdot c_{n_t})

    with one table, :math:`c = v`. The predictor does not train the vectors. The arguments are those of
    :class:`MatrixFactorization`; the default width is 128.
    """

    trains_vectors = False

    def __init__(self, num_nodes: int, channels: int = 128, **options: Any) -> None:
        super().__init__(num_nodes, channels, **options)

    def walk_loss(self, walks: Tensor, negatives: Tensor, *, window: int | None = None, pull: float = 0.0) -> Tensor:
        """The loss above, averaged.

        Args:
            walks: Node numbers ``[B, T]``, T at least 2.
            negatives: Random nodes ``[B, S]`` for each walk; column 0 is the first node of the walk.
            window: Every window of this many consecutive nodes counts as a walk; ``None``: each row is one walk.
            pull: λ of a term λ/2 ‖v − c‖² over nodes of one window, which draws the two tables of DeepWalk together.
        """
        if walks.dim() != 2 or walks.size(1) < 2 or negatives.dim() != 2 or negatives.size(0) != walks.size(0):
            raise ShapeError(
                "walks [B, T] and negatives [B, S] of at least two nodes",
                f"{list(walks.shape)} and {list(negatives.shape)}",
                "pass one row per walk",
            )
        longest = min(walks.size(1), negatives.size(1))
        if window is not None and not 2 <= window <= longest:
            expected = f"a window of 2 to {longest} nodes, the length of the walks"
            raise ShapeError(expected, str(window), "use longer walks, or another window")
        start, context = self._ends(walks, window)
        near = _near(start, context)
        loss = F.softplus(-near).mean() + F.softplus(_near(*self._ends(negatives, window))).mean()
        return loss + pull / 2 * _apart(start, context, near).mean() if pull else loss

    def _ends(self, walks: Tensor, window: int | None) -> tuple[Tensor, Tensor]:
        """Vectors of the first node of each window, ``[B, W, D]``, and of all nodes of the walk, ``[B, T, D]``."""
        windows = 1 if window is None else walks.size(1) - window + 1
        return self.embedding(walks[:, :windows]), self._context(walks)

    def _context(self, nodes: Tensor) -> Tensor:
        return self.embedding(nodes)

    def _vectors(self, nodes: Tensor) -> Tensor:
        return self.embedding(nodes).detach()


class DeepWalk(Node2Vec):
    """:class:`Node2Vec` with uniform walks and a second table, c ≠ v, for the context nodes of a walk.

    The published parameter counts (150M on ppa, 61M on collab, 11M on ddi) include buffers of the trainer; on ddi the
    authors state 1.5M.
    """

    def __init__(self, num_nodes: int, channels: int = 128, **options: Any) -> None:
        super().__init__(num_nodes, channels, **options)
        self.context = nn.Embedding(num_nodes, channels)
        self._draw_tables()

    def reset_parameters(self) -> None:
        """Reinitialises all parameters."""
        super().reset_parameters()
        self._draw_tables()

    def _draw_tables(self) -> None:
        """Initialises as word2vec does: small vectors, zero contexts. Large initial vectors would remain in v as noise,
        because c adapts to them, and the predictor reads only v."""
        nn.init.uniform_(self.embedding.weight, -1 / self.channels, 1 / self.channels)
        nn.init.zeros_(self.context.weight)

    def _context(self, nodes: Tensor) -> Tensor:
        return self.context(nodes)


def _near(start: Tensor, context: Tensor) -> Tensor:
    """Products ``[B, W, T − W]`` of each row of ``start`` ``[B, W, D]`` with the T − W rows that follow it in
    ``context`` ``[B, T, D]``.

    They are a band above the diagonal of a matrix product. The diagonals of a narrow band are computed one by one.
    """
    (rows, windows, _), length = start.shape, context.size(1)
    width = length - windows
    if width <= NARROW:
        diagonals = [(start * context[:, step : step + windows]).sum(-1) for step in range(1, width + 1)]
        return torch.stack(diagonals, dim=-1)
    products = torch.bmm(start, context.transpose(1, 2))  # [B, W, T]
    return products.as_strided((rows, windows, width), (windows * length, length + 1, 1), 1)


def _apart(start: Tensor, context: Tensor, near: Tensor) -> Tensor:
    """Squared distances of the same pairs as in :func:`_near`."""
    width = near.size(-1)
    met = context.square().sum(-1)[:, 1:].unfold(1, width, 1)  # [B, W, width]
    return start.square().sum(-1, keepdim=True) + met - 2 * near


EMBEDDINGS: dict[str, type[MatrixFactorization]] = {
    "node2vec": Node2Vec,
    "deepwalk": DeepWalk,
    "mf": MatrixFactorization,
}


EMBEDDING_LABELS = {"node2vec": "Node2Vec", "deepwalk": "DeepWalk", "mf": "MF"}


def build_embedding(dataset: str, model: str = "node2vec", **options: Any) -> MatrixFactorization:
    """Builds the network of one embedding row of Table 2, or a variation of it.

    Args:
        dataset: ``"ogbl-ppa"``, ``"ogbl-collab"`` or ``"ogbl-ddi"``.
        model: ``"node2vec"``, ``"deepwalk"`` or ``"mf"``.
        **options: Options of :class:`MatrixFactorization`.

    Example:
        >>> from lrga.models.budget import count_parameters
        >>> count_parameters(build_embedding("ogbl-ddi", "node2vec"))
        645249
    """
    facts = link_set(dataset)
    if model.lower() not in EMBEDDINGS:
        raise OptionError(f"model to be one of {', '.join(EMBEDDINGS)}", repr(model), "pick one of them")
    if model.lower() != "mf":  # its predictor also reads the features
        options = {"num_features": facts.num_features, **options}
    return EMBEDDINGS[model.lower()](facts.num_nodes, **options)
