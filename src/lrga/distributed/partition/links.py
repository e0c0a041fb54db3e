r"""Link prediction on a partitioned graph: every rank scores its share of the pairs, for nodes of any rank.

The encoder runs over the partitioned graph like any network. Features of nodes on other ranks are fetched by one
all-to-all, each node once, and gradients return the same way. Learned node vectors are partitioned like the nodes: a
rank holds and trains the rows of its own nodes.

Letters: n own nodes, N all, P pairs of this rank, D channels.
"""

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from lrga.distributed.collectives import exchange, reduce_
from lrga.distributed.partition.graph import GraphPart, request_from_owners
from lrga.distributed.partition.step import global_mean, reduce_gradients, total_over_ranks
from lrga.errors import ShapeError
from lrga.nn.encoders import NodeEmbedding


class ShardedEmbedding(NodeEmbedding):
    """The rows of own nodes of a :class:`~lrga.nn.encoders.NodeEmbedding`; their gradient needs no reduction.

    ``state_dict`` contains the own rows (``part.gather_nodes`` returns all rows); ``load_state_dict`` accepts either
    the own rows or the rows of all nodes.
    """

    part: GraphPart

    @classmethod
    def of(cls, embedding: NodeEmbedding, part: GraphPart) -> "ShardedEmbedding":
        """Converts the module in place to keep only the rows of own nodes."""
        if embedding.num_embeddings != part.num_nodes:
            got = f"an embedding of {embedding.num_embeddings}"
            remedy = "build the model for the graph that is partitioned"
            raise ShapeError(f"an embedding of {part.num_nodes} nodes, the nodes of the graph", got, remedy)
        embedding.__class__ = cls
        assert isinstance(embedding, cls)
        embedding.part, embedding.num_embeddings = part, part.num_own
        rows = part.take_nodes(embedding.weight.detach()).contiguous()
        embedding.weight = nn.Parameter(rows, requires_grad=embedding.weight.requires_grad)
        return embedding

    def _load_from_state_dict(self, state_dict: dict[str, Any], prefix: str, *more: Any) -> None:
        rows = state_dict.get(f"{prefix}weight")
        if rows is not None and rows.size(0) == self.part.num_nodes != self.part.num_own:
            state_dict = {**state_dict, f"{prefix}weight": self.part.take_nodes(rows)}
        super()._load_from_state_dict(state_dict, prefix, *more)


def fetch_nodes(h: Tensor, nodes: Tensor, part: GraphPart) -> Tensor:
    """Fetches rows of any nodes of the whole graph from their owners; differentiable. Every rank must call it.

    Args:
        h: Features of own nodes, ``[n, D]``.
        nodes: Node numbers in the whole graph, in any order, with or without repeats, ``[M]``; different on each rank.
        part: This rank's part.

    Example:
        >>> from lrga.distributed import partition_graph
        >>> part = partition_graph(torch.tensor([[0, 1, 2], [1, 2, 0]]), num_nodes=3)
        >>> fetch_nodes(torch.eye(3), torch.tensor([2, 2, 0]), part).argmax(1).tolist()
        [2, 2, 0]
    """
    if h.dim() != 2 or h.size(0) != part.num_own:
        raise ShapeError(f"{part.num_own} rows, one for each own node", f"shape {list(h.shape)}", "pass own nodes only")
    if nodes.numel() and not 0 <= int(nodes.min()) <= int(nodes.max()) < part.num_nodes:
        got = f"node {int(nodes.min()) if int(nodes.min()) < 0 else int(nodes.max())}"
        raise ShapeError(f"nodes from 0 to {part.num_nodes - 1} of the whole graph", got, "pass global node numbers")
    places = part.partition.places(nodes.long())
    found, _, send_index, send, receive = request_from_owners(places, part.partition, part.rank, part.group, "pairs")
    if part.partition.parts > 1:
        h = torch.cat([h, exchange(h.index_select(0, send_index), send, receive, "pairs", part.group)])
    return h.index_select(0, found)


def score_links(model: Any, part: GraphPart, h: Tensor, pairs: Tensor) -> Tensor:
    """Logits ``[P]`` of this rank's ``pairs`` ``[2, P]``, with node numbers of the whole graph.

    Args:
        model: A partitioned :class:`~lrga.models.link.LinkModel`.
        part: This rank's part.
        h: The result of ``model.encode`` for own nodes.
        pairs: Different on each rank, possibly empty; every rank must call this function.
    """
    # Needed even without pairs: gradients of other ranks return through here.
    ends = fetch_nodes(h, pairs.reshape(-1).to(h.device), part)
    return model.predictor(ends[: pairs.size(1)], ends[pairs.size(1) :])


def link_step(
    model: Any,
    part: GraphPart,
    x: Tensor | None,
    positive: Tensor,
    negative: Tensor,
    optimizer: torch.optim.Optimizer,
    *,
    edge_weight: Tensor | None = None,
    clip_gradient: float | None = None,
) -> Tensor:
    """One step of link prediction on the whole partitioned graph; returns the loss over all pairs of all ranks.

    The loss is the same as in one process: cross entropy, the mean over the edges plus the mean over the other pairs.

    Args:
        model: A :class:`~lrga.models.link.LinkModel` from :func:`~lrga.distributed.partition_model`.
        part: This rank's part.
        x: Features of own nodes; ``None`` if the model learns them.
        positive: This rank's share of the edges to predict, ``[2, P]``, with node numbers of the whole graph.
        negative: This rank's share of the other pairs, ``[2, M]``.
        optimizer: Optimiser of ``model.parameters()``; the same on all ranks.
        edge_weight: Weights of local edges.
        clip_gradient: Maximum gradient norm of network, predictor and embedding, separately.

    Example:
        >>> from lrga.distributed import partition_graph, partition_model
        >>> from lrga.models.link import LinkGNN, LinkModel, LinkPredictor
        >>> part = partition_graph(torch.tensor([[0, 1, 2], [1, 2, 0]]), num_nodes=3)
        >>> whole = LinkModel(LinkGNN(8, 8, 2, rank=2), LinkPredictor(8, 8, 2), num_nodes=3)
        >>> model = partition_model(whole, part)
        >>> adam = torch.optim.Adam(model.parameters())
        >>> loss = link_step(model, part, None, torch.tensor([[0], [1]]), torch.tensor([[0], [2]]), adam)
        >>> bool(loss > 0)
        True
    """
    optimizer.zero_grad()
    h = model.encode(x, part.edges, edge_weight)
    both = torch.cat([positive, negative], dim=1).to(part.device)
    scores = score_links(model, part, h, both)  # one exchange for both
    true, false = scores.split([positive.size(1), negative.size(1)])
    share = global_mean(F.softplus(-true), group=part.group) + global_mean(F.softplus(false), group=part.group)
    share.backward()
    reduce_gradients(model, part.group)
    if clip_gradient is not None:
        clip_gradients(model, part, clip_gradient)
    optimizer.step()
    return total_over_ranks(share, part.group)


@torch.no_grad()
def clip_gradients(model: Any, part: GraphPart, limit: float) -> None:
    """Clips the gradients of each of ``model.parameter_groups()``; norms of partitioned rows are over all ranks."""
    divided = {id(p) for module in model.modules() if isinstance(module, ShardedEmbedding) for p in module.parameters()}
    for group in model.parameter_groups():
        grads = [p.grad for p in group if p.grad is not None]
        square = torch.stack([g.square().sum() for g in grads]).sum() if grads else torch.zeros((), device=part.device)
        if any(id(p) in divided for p in group):
            square = reduce_(square.reshape(1).clone(), "gradients", part.group)[0]
        factor = (limit / (square.sqrt() + 1e-6)).clamp(max=1.0)  # as torch.nn.utils.clip_grad_norm_
        for grad in grads:
            grad.mul_(factor)
