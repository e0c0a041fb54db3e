"""Which graph each node belongs to, made known to layers that are not told in their call."""

import inspect
from contextvars import ContextVar
from types import TracebackType
from typing import Any

from torch import Tensor, nn

from lrga.errors import BatchError, DTypeError
from lrga.kernels.checks import check_same_device
from lrga.kernels.segments import Segments


class Assignment:
    """A batch vector with its number of graphs; the layout made from it is kept for all layers of a call."""

    def __init__(self, batch: Tensor | None, num_graphs: int | None = None) -> None:
        if batch is not None and not isinstance(batch, Tensor):
            raise DTypeError(
                "batch to be a tensor or None", type(batch).__name__, "pass PyG's batch vector, data.batch"
            )
        self.batch, self.num_graphs = batch, num_graphs
        self._segments: Segments | None = None

    def segments(self, x: Tensor) -> Segments:
        """The layout of these graphs for the features ``x`` of their nodes."""
        check_same_device(x=x, batch=self.batch)
        num_nodes = x.size(0)
        if self._segments is None or self._segments.num_nodes != num_nodes:
            if self.batch is not None and self.batch.size(0) != num_nodes:
                raise BatchError(
                    f"features of {self.batch.size(0)} nodes, as many as the batch vector has",
                    f"features of {num_nodes} nodes",
                    "where the model changes its nodes (pooling, sampling), put lrga.batch_context(new_batch) around "
                    "the part that follows",
                )
            self._segments = Segments.from_batch(self.batch, num_nodes, self.num_graphs)
        return self._segments


_stack: ContextVar[tuple[Assignment | None, ...]] = ContextVar("lrga_batch_context", default=())


def push(assignment: Assignment | None) -> None:
    """Makes ``assignment`` the current one; ``None`` is one not known."""
    _stack.set((*_stack.get(), assignment))


def pop() -> None:
    """Returns to the assignment before the current one."""
    _stack.set(_stack.get()[:-1])


def current() -> Assignment | None:
    """The innermost assignment, if any."""
    stack = _stack.get()
    return stack[-1] if stack else None


def named_arguments(module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> dict[str, Any]:
    """The arguments of a call by the names that the module's forward gives them."""
    names = getattr(getattr(module, "signature", None), "param_dict", None)
    if names is not None:  # PyG's Sequential, whose forward takes *args
        return dict(zip(names, args, strict=False)) | kwargs
    try:
        return dict(inspect.signature(module.forward).bind(*args, **kwargs).arguments) | kwargs
    except TypeError:  # the call itself is wrong: let the module say so
        return kwargs


class batch_context:
    """Tells augmented layers which node belongs to which graph.

    Args:
        batch: PyG's batch vector ``[N]`` (or a PyG ``Batch``); ``None`` is one graph.
        num_graphs: Number of graphs, if known.

    Example:
        >>> import torch, lrga
        >>> from torch_geometric.nn import GCNConv
        >>> conv = lrga.augment(GCNConv(8, 8), rank=2)
        >>> edge_index = torch.tensor([[0, 1], [1, 0]])
        >>> with lrga.batch_context(torch.tensor([0, 0, 1])):
        ...     conv(torch.randn(3, 8), edge_index).shape
        torch.Size([3, 8])
    """

    def __init__(self, batch: Any, num_graphs: int | None = None) -> None:
        if not isinstance(batch, Tensor) and hasattr(batch, "batch"):  # a PyG Batch or Data
            num_graphs = getattr(batch, "num_graphs", num_graphs) if batch.batch is not None else num_graphs
            batch = batch.batch
        self.assignment = Assignment(batch, num_graphs)

    def __enter__(self) -> "batch_context":
        push(self.assignment)
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        pop()
