"""A learned vector for each node of one graph, where the nodes have no features."""

from torch import nn


class NodeEmbedding(nn.Embedding):
    """:class:`torch.nn.Embedding` whose row i belongs to node i of the graph that a network is trained on.

    A graph divided between processes divides these rows with it: see
    :func:`~lrga.distributed.model.partition_model`.

    Example:
        >>> NodeEmbedding(5, 8).weight.shape
        torch.Size([5, 8])
    """
