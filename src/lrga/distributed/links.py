r"""Link prediction on a divided graph: every rank scores its share of the pairs, whoever owns their nodes.

The encoder runs over the divided graph as any network does. The features of the nodes of a rank's pairs that lie
elsewhere come from their owners by one all-to-all, each once, and their gradients return the same way. A learned vector
for each node is divided with the nodes: every rank holds, and trains, its own rows.

Letters: n own nodes, N all, P pairs of this rank, D channels.
"""

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from lrga.distributed.collectives import exchange, reduce_
from lrga.distributed.graph import GraphPart, ask_owners
from lrga.distributed.step import global_mean, reduce_gradients, total_over_ranks
from lrga.errors import ShapeError
from lrga.nn.encoders import NodeEmbedding


class ShardedEmbedding(NodeEmbedding):
    """The rows of own nodes of a :class:`~lrga.nn.encoders.NodeEmbedding`; its gradient is complete by itself.

    ``state_dict`` has the own rows (``part.gather_nodes`` gives all of them); ``load_state_dict`` takes either these or
    the rows of all nodes.
    """

    part: GraphPart

    @classmethod
    def of(cls, embedding: NodeEmbedding, part: GraphPart) -> "ShardedEmbedding":
        """The module itself, from now on with own rows only."""
        if embedding.num_embeddings != part.num_nodes:
            got = f"one of {embedding.num_embeddings}"
            remedy = "build the model for the graph that is divided"
            raise ShapeError(f"an embedding of {part.num_nodes} nodes, as the graph has", got, remedy)
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
    """Rows of any nodes of the whole graph from the ranks that own them, differentiable; every rank must call it.

    Args:
        h: Features of own nodes, ``[n, D]``.
        nodes: Numbers in the whole graph, in any order, repeats allowed, ``[M]``; each rank passes its own list.
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
        raise ShapeError(f"nodes from 0 to {part.num_nodes - 1} of the whole graph", got, "pass their own numbers")
    places = part.partition.places(nodes.long())
    found, _, send_index, send, receive = ask_owners(places, part.partition, part.rank, part.group, "pairs")
    if part.partition.parts > 1:
        h = torch.cat([h, exchange(h.index_select(0, send_index), send, receive, "pairs", part.group)])
    return h.index_select(0, found)


def score_links(model: Any, part: GraphPart, h: Tensor, pairs: Tensor) -> Tensor:
    """Logits ``[P]`` of this rank's ``pairs`` ``[2, P]``, nodes by their numbers in the whole graph.

    Args:
        model: A divided :class:`~lrga.models.link.LinkModel`.
        part: This rank's part.
        h: What ``model.encode`` gave for own nodes.
        pairs: Another list on each rank, empty on some if need be; every rank must call it.
    """
    # Without a pair, too: the other ranks' gradients come back through here.
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
    """One step of link prediction on the whole divided graph; returns the loss over all pairs of all ranks.

    It is cross entropy, the mean over all edges plus the mean over all other pairs, as in one process.

    Args:
        model: A :class:`~lrga.models.link.LinkModel` that :func:`~lrga.distributed.model.partition_model` divided.
        part: This rank's part.
        x: Features of own nodes; ``None`` where the model learns them.
        positive: This rank's share of the edges to predict, ``[2, P]``, nodes by their numbers in the whole graph.
        negative: Its share of the other pairs, ``[2, M]``.
        optimizer: Of ``model.parameters()``; the same on all ranks.
        edge_weight: Of local edges.
        clip_gradient: Greatest norm of the gradients of network, predictor and embedding, each by itself.

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
    """Clips the gradients of each of ``model.parameter_groups()``; divided rows count with those of all ranks."""
    divided = {id(p) for module in model.modules() if isinstance(module, ShardedEmbedding) for p in module.parameters()}
    for group in model.parameter_groups():
        grads = [p.grad for p in group if p.grad is not None]
        square = torch.stack([g.square().sum() for g in grads]).sum() if grads else torch.zeros((), device=part.device)
        if any(id(p) in divided for p in group):
            square = reduce_(square.reshape(1).clone(), "gradients", part.group)[0]
        factor = (limit / (square.sqrt() + 1e-6)).clamp(max=1.0)  # as torch.nn.utils.clip_grad_norm_
        for grad in grads:
            grad.mul_(factor)
