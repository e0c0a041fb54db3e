"""A learned vector for each node of one graph, where the nodes have no features."""

import torch
from torch import Tensor, nn

from lrga.nn.linear import is_plain


class NodeEmbedding(nn.Embedding):
    """:class:`torch.nn.Embedding` whose row i belongs to node i of the graph that a network is trained on.

    A graph divided between processes divides these rows with it: see
    :func:`~lrga.distributed.model.partition_model`.

    Example:
        >>> NodeEmbedding(5, 8).weight.shape
        torch.Size([5, 8])
    """


def all_rows(embedding: nn.Embedding) -> Tensor:
    """The vectors of all nodes, ``[N, D]``, as a call of the module gives them.

    Example:
        >>> all_rows(NodeEmbedding(5, 8)).shape
        torch.Size([5, 8])
    """
    if type(embedding).forward is nn.Embedding.forward and is_plain(embedding, type(embedding)):
        return embedding.weight
    rows: Tensor = embedding(torch.arange(embedding.num_embeddings, device=embedding.weight.device))
    return rows
