"""The attention inside a user's own PyG model, on one graph."""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn
from torch_geometric.data import Data

from lrga.errors import BatchError, DTypeError, ShapeError
from lrga.explain.attention import Explanation, answers, chosen_layers, drawn_graph, edges_once, recorded_factors
from lrga.nn.context import batch_context
from lrga.tasks.task import Task


def explain_model(
    model: nn.Module,
    data: Data,
    forward: Callable[[nn.Module, Data], Tensor] | None = None,
    *,
    name: str | None = None,
    dataset: str = "own data",
    classes: tuple[str, ...] | None = None,
) -> Explanation:
    """Runs any model with low-rank global attention on one graph and records the attention.

    Args:
        model: A model augmented by :func:`lrga.augment`, or one that contains :class:`lrga.LRGAConv` or
            :class:`lrga.LowRankGlobalAttention`.
        data: One graph. Its ``y``, if present, is shown as the label.
        forward: A function that calls the model: ``(model, data) → [N or 1, …]``, class scores or values. The default
            is ``model(data)``; pass a function if the model takes several arguments.
        name: Name of the model on the page; by default the name of its class.
        dataset: Name of the data on the page.
        classes: Names of the classes.

    The shape of the result determines what is predicted: one row for each node, or one row for the graph. Several
    columns and integer ``y`` are classes; otherwise the first column is the predicted value.

    Example:
        >>> import lrga
        >>> from torch_geometric.nn import GCN
        >>> model = lrga.augment(GCN(4, 8, num_layers=2, out_channels=3), rank=5)
        >>> data = Data(x=torch.randn(6, 4), edge_index=torch.tensor([[0, 1], [1, 2]]), y=torch.zeros(6).long())
        >>> found = explain_model(model, data, lambda m, d: m(d.x, d.edge_index, batch=None))
        >>> found.task.level, [(layer.name, layer.u.shape) for layer in found.layers]
        ('node', [('convs.0.attention', (6, 1, 5)), ('convs.1.attention', (6, 1, 5))])
    """
    if not isinstance(data, Data) or data.edge_index is None or not data.num_nodes:
        raise DTypeError("one graph as PyG Data, with nodes and edge_index", repr(data), "pass one Data object")
    if data.batch is not None and (graphs := int(data.batch.max()) + 1) > 1:
        raise BatchError("one graph", f"a batch of {graphs} graphs", "pass one of them, for example batch[0]")
    was_training = model.training
    model.eval()
    try:
        with torch.no_grad(), batch_context(None), recorded_factors(model) as factors:
            output = model(data) if forward is None else forward(model, data)
    except TypeError as error:
        if forward is None:
            error.add_note("If the model takes several arguments, pass a function as third argument of explain_model:")
            error.add_note("    lambda model, data: model(data.x, data.edge_index)")
        raise
    finally:
        model.train(was_training)
    name = type(model).__name__ if name is None else name
    layers = chosen_layers(factors, None, name)
    rows, task, labels = _predicted(output, data, classes)
    edges, _ = edges_once(data.edge_index, data.num_nodes)
    return Explanation(
        run=name,
        dataset=dataset,
        split="",
        task=task,
        layers=layers,
        **answers(task, rows, labels),
        **drawn_graph(edges, data.num_nodes),
    )


def _predicted(output: Any, data: Data, classes: tuple[str, ...] | None) -> tuple[Tensor, Task, Tensor | None]:
    """The result as ``[rows, columns]``, its level (node or graph), and the labels, on the CPU."""
    remedy = "explain one graph at a time, and pass forward=lambda model, data: … that returns its scores"
    if not isinstance(output, Tensor):
        raise DTypeError("the model to return a tensor", type(output).__name__, remedy)
    if output.dim() == 0 or output.size(0) not in (data.num_nodes, 1):
        expected = f"a result of {data.num_nodes} rows, one for each node, or of one row for the graph"
        raise ShapeError(expected, f"shape {list(output.shape)}", remedy)
    rows, y = output.detach().float().cpu().view(output.size(0), -1), data.y
    y = y.detach().cpu().view(rows.size(0), -1)[:, 0] if y is not None and y.numel() % rows.size(0) == 0 else None
    level = "node" if rows.size(0) == data.num_nodes else "graph"
    if rows.size(1) > 1 and (classes is not None or y is None or not y.is_floating_point()):
        return rows, Task(level=level, kind="classification", out_channels=rows.size(1), classes=classes), y
    return rows, Task(level=level, kind="regression", out_channels=1), y
