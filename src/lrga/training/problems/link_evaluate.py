"""A link-prediction model on pairs of nodes: scores, loss and metric, in bounded memory."""

from dataclasses import dataclass

import torch
from torch import Tensor

from lrga.data.links.data import LinkData, LinkGraph
from lrga.errors import DataError
from lrga.kernels.edges import EdgeLayout
from lrga.tasks.link import LinkTask, score_pairs
from lrga.training.evaluate import autocast, in_mode
from lrga.training.problems.link_architecture import LinkNetwork


@dataclass(frozen=True, eq=False)
class Messages:
    """What a network reads of a graph: node features, and edges with their weights where its convolution takes them."""

    x: Tensor | None
    edges: EdgeLayout | Tensor
    weight: Tensor | None

    @classmethod
    def of(cls, data: LinkData, *, conv: str, weighted: bool, with_validation: bool = False) -> "Messages":
        """Of ``data``. GCN gives every node one edge to itself, of weight 1 unless there is one with another weight:
        loops without weights can go, those with weights are left to PyG."""
        graph: LinkGraph = data.graph(with_validation=with_validation, weighted=weighted and conv == "gcn")
        edges: EdgeLayout | Tensor = graph.layout
        if conv == "gcn" and graph.has_loops:
            edges = graph.layout.edge_index
            if graph.weight is None:
                edges, _ = EdgeLayout.from_edge_index(edges[:, edges[0] != edges[1]], graph.layout.num_nodes)
        return cls(data.x, edges, graph.weight)

    def encode(self, model: LinkNetwork) -> Tensor:
        """Node features ``[N, D]``."""
        return model.encode(self.x, self.edges, self.weight)


@torch.no_grad()
def scores_of(model: LinkNetwork, h: Tensor, pairs: Tensor, *, batch_size: int) -> Tensor:
    """Logits of ``pairs`` ``[P, 2]`` of nodes with features ``h``, so many at a time."""
    return score_pairs(lambda part: model.score(h, part).float(), pairs, batch_size=batch_size)


@torch.no_grad()
def evaluate_links(
    model: LinkNetwork,
    data: LinkData,
    task: LinkTask,
    *,
    messages: Messages,
    test_messages: Messages | None = None,
    train_edges: Tensor | None = None,
    batch_size: int = 65_536,
    precision: str = "float32",
) -> dict[str, tuple[float, float]]:
    """Loss and metric of ``train`` (where ``train_edges`` are given), ``val`` and ``test``, in evaluation mode.

    Training edges stand beside the negatives of validation, as in OGB's examples. Where ``test_messages`` are given,
    the test is scored on that graph.
    """
    result = {}
    with in_mode(model, training=False), autocast(data.device, precision):
        h = messages.encode(model)
        for split in ("train", "val", "test"):
            edge = train_edges if split == "train" else data.splits[split].edge
            if edge is None:
                continue
            if split == "test" and test_messages is not None:
                h = test_messages.encode(model)
            false = data.splits["val" if split == "train" else split].edge_neg
            if false is None:
                raise DataError(f"negative pairs of {split!r}", "none", "give pairs that are no edge")
            positive = scores_of(model, h, edge, batch_size=batch_size)
            negative = scores_of(model, h, false, batch_size=batch_size)
            loss = float(task.loss_of(positive, negative))
            # a loss that is not finite is the caller's business: its scores cannot be ranked
            result[split] = loss, float(task.score(positive, negative)) if loss == loss else float("nan")
    return result
