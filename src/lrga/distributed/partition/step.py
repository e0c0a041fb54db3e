r"""A training step over a partitioned graph: the loss and the gradients of all ranks, on every rank."""

from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from lrga.distributed.collectives import Group, reduce_, world_size
from lrga.distributed.partition.graph import GraphPart
from lrga.errors import ShapeError
from lrga.nn.encoders import NodeEmbedding

RowLoss = Callable[[Tensor, Tensor], Tensor]


def global_mean(values: Tensor, *, rows: int | None = None, group: Group = None) -> Tensor:
    """This rank's share of the mean of ``values`` over all ranks: the shares add up to the mean.

    Args:
        values: A loss for each row of this rank.
        rows: Number of rows of all ranks, if known; otherwise it is computed by an all-reduce.
        group: Process group.

    Example:
        >>> global_mean(torch.tensor([1.0, 3.0]))
        tensor(2.)
    """
    if rows is None:
        count = torch.tensor([values.numel()], dtype=torch.int64, device=values.device)
        rows = int(reduce_(count, "loss", group))
    return values.sum() / max(rows, 1)


@torch.no_grad()
def total_over_ranks(share: Tensor, group: Group = None) -> Tensor:
    """The sum of the shares of all ranks, on every rank; not differentiable."""
    return reduce_(share.detach().clone(), "loss", group)


@torch.no_grad()
def reduce_gradients(model: nn.Module, group: Group = None) -> None:
    """Adds up the gradients of all ranks, in one buffer for each dtype. Parameters that no rank used keep ``None``.

    Gradients of partitioned rows (:class:`~lrga.nn.encoders.NodeEmbedding`) are already complete.
    """
    if world_size(group) == 1:
        return
    own = {id(p) for module in model.modules() if isinstance(module, NodeEmbedding) for p in module.parameters()}
    parameters = [p for p in model.parameters() if p.requires_grad and id(p) not in own]
    for dtype in sorted({p.dtype for p in parameters}, key=str):
        chosen = [p for p in parameters if p.dtype == dtype]
        used = torch.tensor([p.grad is not None for p in chosen], dtype=dtype, device=chosen[0].device)
        flat = [(torch.zeros_like(p) if p.grad is None else p.grad).flatten() for p in chosen]
        buffer = reduce_(torch.cat([*flat, used]), "gradients", group)
        *sums, used = buffer.split([*[p.numel() for p in chosen], len(chosen)])
        for parameter, total, count in zip(chosen, sums, used.tolist(), strict=True):
            if count:
                parameter.grad = total.view_as(parameter).clone()


def training_step(
    model: nn.Module,
    part: GraphPart,
    x: Tensor,
    targets: Tensor,
    optimizer: torch.optim.Optimizer,
    *,
    mask: Tensor | None = None,
    edge_attr: Tensor | None = None,
    loss: RowLoss | None = None,
) -> Tensor:
    """One training step on the whole partitioned graph; returns the loss, the mean over the rows of all ranks.

    Args:
        model: The result of :func:`~lrga.distributed.partition_model`.
        part: This rank's part.
        x: Features of own nodes.
        targets: Targets of own nodes; with ``task="edge"`` of local edges, with ``"graph"`` of the graph (all ranks).
        optimizer: Optimiser of ``model.parameters()``, the same on all ranks.
        mask: The rows to train on.
        edge_attr: Features of local edges.
        loss: A function that returns the loss of each row; cross entropy by default.

    Example:
        >>> import lrga
        >>> from lrga.distributed import partition_graph, partition_model
        >>> part = partition_graph(torch.tensor([[0, 1, 2], [1, 2, 0]]), num_nodes=3)
        >>> model = partition_model(lrga.GNN(5, 16, 2, 2, rank=4), part)
        >>> adam = torch.optim.Adam(model.parameters())
        >>> loss = training_step(model, part, torch.randn(3, 5), torch.tensor([0, 1, 1]), adam)
        >>> bool(loss > 0)
        True
    """
    optimizer.zero_grad()
    out = model(x, part.edges, edge_attr)
    _check_rows("targets", targets, out)
    if mask is not None:
        if mask.dtype == torch.bool:
            _check_rows("mask", mask, out)
        out, targets = out[mask], targets[mask]
    losses = F.cross_entropy(out, targets, reduction="none") if loss is None else loss(out, targets)
    if losses.dim() == 0 or losses.size(0) != out.size(0):
        got = f"shape {list(losses.shape)}"
        raise ShapeError(f"a loss for each of {out.size(0)} rows", got, "pass reduction='none' to the loss")
    share = global_mean(losses, group=part.group)  # if all ranks predict one graph, 1/W each
    share.backward()
    reduce_gradients(model, part.group)
    optimizer.step()
    return total_over_ranks(share, part.group)


def _check_rows(name: str, values: Tensor, out: Tensor) -> None:
    if values.dim() == 0 or values.size(0) != out.size(0):
        raise ShapeError(
            f"{name} with one row for each of the {out.size(0)} predictions of this rank",
            f"shape {list(values.shape)}",
            f"pass those of its own nodes, part.take_nodes({name}), or of its edges, part.take_edges({name})",
        )
