"""How a layer learns which graph each node belongs to when its own call does not say."""

import copyreg
import functools
import inspect
import threading
from collections.abc import Mapping
from types import TracebackType
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils.weak import WeakTensorKeyDictionary
from torch_geometric.data import Batch, Data, HeteroData

from lrga.errors import BatchContextError, BatchError, CheckpointError, DTypeError, LRGAError, UnsupportedError
from lrga.kernels.checks import check_same_device
from lrga.kernels.segments import Segments


class Assignment:
    """A batch vector with its number of graphs; the segments made from it are shared by all layers of a call.

    Args:
        batch: PyG's batch vector ``[N]``, or ``None`` for one graph.
        num_graphs: Number of graphs, if known.
        error: Raised by the first layer that needs the assignment, where a call does not determine one.
    """

    def __init__(self, batch: Tensor | None, num_graphs: int | None = None, error: LRGAError | None = None) -> None:
        self.batch, self.num_graphs, self.error = batch, num_graphs, error
        self._segments: Segments | None = None

    def segments(self, x: Tensor) -> Segments:
        """The segments of these graphs for the features ``x`` of their nodes."""
        if self.error is not None:
            raise self.error
        check_same_device(x=x, batch=self.batch)
        num_nodes = x.size(0)
        if self.batch is not None and self.batch.size(0) != num_nodes:
            raise BatchError(
                f"features of {self.batch.size(0)} nodes, as many as the batch vector has",
                f"features of {num_nodes} nodes",
                "where the model changes its nodes (pooling, sampling), put lrga.batch_context(new_batch) around "
                "the part that follows",
            )
        if torch.compiler.is_compiling():  # tensors of a trace must not be kept
            return Segments.from_batch(self.batch, num_nodes, self.num_graphs)
        if self._segments is None or self._segments.num_nodes != num_nodes:
            with torch.inference_mode(False):  # a training step may use the same segments later
                self._segments = Segments.from_batch(self.batch, num_nodes, self.num_graphs)
        return self._segments

    def equals(self, other: "Assignment") -> bool:
        """Whether both assign every node to the same graph; ``False`` where the values cannot be read."""
        a, b = self.batch, other.batch
        if a is b:
            return True
        if a is None or b is None or a.shape != b.shape or a.device != b.device:
            return False
        if torch.compiler.is_compiling() or (a.is_cuda and torch.cuda.is_current_stream_capturing()):
            return False
        return torch.equal(a, b)


class _State(threading.local):
    """The innermost assignment of a thread, and the backward pass in which it was set (-1 outside of any)."""

    assignment: Assignment | None = None
    backward: int = -1


_state = _State()
# Activation checkpointing calls a layer again in the backward pass: without the model around it and, on a GPU, in
# another thread. It passes the same edge tensor, by which the assignment of the forward pass is found again.
_of_edges: WeakTensorKeyDictionary = WeakTensorKeyDictionary()


def current() -> Assignment | None:
    """The innermost assignment, if any."""
    return _state.assignment


def for_layer(edges: Any) -> Assignment | None:
    """The assignment for a layer that is called with these edges and without a batch vector.

    In a backward pass (activation checkpointing) it is the one of the forward pass.
    """
    if torch.compiler.is_compiling():
        return _state.assignment
    edges = getattr(edges, "source", edges)  # of an EdgeLayout
    backward = torch._C._current_graph_task_id()
    if backward == -1:
        if _state.assignment is not None and isinstance(edges, Tensor):
            _remember(edges, _state.assignment)
        return _state.assignment
    if _state.assignment is not None and _state.backward == backward:
        return _state.assignment  # the whole model is computed again, and told its batch again
    found: Assignment | None = _of_edges.get(edges) if isinstance(edges, Tensor) else None
    if found is None:
        raise BatchContextError(
            "a layer that is computed again in the backward pass to receive the edge_index of the forward pass",
            "another tensor, or none",
            "call torch.utils.checkpoint.checkpoint with use_reentrant=False and pass edge_index through it, or use "
            "lrga.nn.recompute_layers(model)",
        )
    return found


def _remember(edges: Tensor, assignment: Assignment) -> None:
    known = _of_edges.get(edges)
    if known is assignment:
        return
    if known is not None and not known.equals(assignment):
        several = BatchContextError(
            "one batch vector for each edge_index under activation checkpointing",
            "an edge_index that was used with several",
            "pass edge_index.clone() for each batch vector, or batch=… to the checkpointed layer",
        )
        assignment = Assignment(None, error=several)
    _of_edges[edges] = assignment


class batch_context:
    """Tells layers which node belongs to which graph, for calls that do not say so themselves.

    Needed around methods other than ``forward`` (``model.encode(x, edge_index)``) and after a model has changed its
    nodes. Around a model that is called with a batch vector of its own, that one is used.

    Args:
        batch: PyG's batch vector ``[N]`` (or a PyG ``Batch``); ``None`` is one graph.
        num_graphs: Number of graphs, if known.

    Example:
        >>> import torch, lrga
        >>> from torch_geometric.nn import GCNConv
        >>> conv = lrga.LRGAConv(GCNConv(8, 8), 8, 8, rank=2)
        >>> edge_index = torch.tensor([[0, 1], [1, 0]])
        >>> with lrga.batch_context(torch.tensor([0, 0, 1])):
        ...     conv(torch.randn(3, 8), edge_index).shape
        torch.Size([3, 8])
    """

    def __init__(self, batch: Any, num_graphs: int | None = None) -> None:
        if not isinstance(batch, Tensor) and hasattr(batch, "batch"):  # a PyG Batch or Data
            num_graphs = getattr(batch, "num_graphs", num_graphs) if batch.batch is not None else num_graphs
            batch = batch.batch
        if batch is not None and not isinstance(batch, Tensor):
            raise _not_a_batch(batch)
        self.assignment = Assignment(batch, num_graphs)
        self._outer: list[tuple[Assignment | None, int]] = []

    def __enter__(self) -> "batch_context":
        self._outer.append((_state.assignment, _state.backward))
        _state.assignment = self.assignment
        _state.backward = _current_backward()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        _state.assignment, _state.backward = self._outer.pop()


def tell_batch(module: nn.Module) -> None:
    """Makes every call of ``module``, in place, known to the layers within: see :func:`lrga.provide_batch`."""
    if isinstance(module, torch.jit.ScriptModule):
        raise UnsupportedError(
            "a module that is not compiled by TorchScript",
            type(module).__name__,
            "use torch.compile, or script it last",
        )
    if not getattr(type(module), "_tells_batch", False):
        kind: Any = type(module)
        module.__class__ = _telling_class(kind)


@functools.cache
def _telling_class(base: Any) -> type:
    """A subclass whose ``forward`` keeps the batch of the call for the layers within.

    Hooks would not do: PyTorch skips them when a call ends by a KeyboardInterrupt or fails while it is compiled, and
    the next model would then be given this one's batch.
    """
    names = tuple(
        name
        for name, parameter in list(inspect.signature(base.forward).parameters.items())[1:]
        if parameter.kind is inspect.Parameter.POSITIONAL_OR_KEYWORD
    )

    @functools.wraps(base.forward)
    def forward(self: nn.Module, *args: Any, **kwargs: Any) -> Any:
        assignment = _assignment_of_call(_positional_names(self, names), args, kwargs)
        if assignment is None:
            return base.forward(self, *args, **kwargs)
        outer, outer_backward = _state.assignment, _state.backward
        _state.assignment = assignment
        _state.backward = _current_backward()
        try:
            return base.forward(self, *args, **kwargs)
        finally:
            _state.assignment = outer
            _state.backward = outer_backward

    def __reduce_ex__(self: nn.Module, protocol: Any) -> Any:
        make, arguments, *rest = base.__reduce_ex__(self, protocol)
        if make is not copyreg.__newobj__:  # type: ignore[attr-defined]
            return make, arguments, *rest
        return _new_telling, (base,), *rest  # pickle cannot find a class that is made at run time

    def load_state_dict(self: nn.Module, state_dict: Any, strict: bool = True, assign: bool = False) -> Any:
        check_has_attention(self, state_dict, strict)
        return base.load_state_dict(self, state_dict, strict, assign)

    def __repr__(self: nn.Module) -> str:
        text: str = base.__repr__(self)
        layers = _layers(self).items()
        hidden = [name for name, layer in layers if type(layer).__name__ not in text]  # by a model's own repr
        return f"{text} with global attention in {', '.join(hidden)}" if hidden else text

    body = {
        "forward": forward,
        "load_state_dict": load_state_dict,
        "__reduce_ex__": __reduce_ex__,
        "__repr__": __repr__,
        "_tells_batch": True,
        "__module__": base.__module__,
        "__qualname__": base.__qualname__,
        "__doc__": base.__doc__,
    }
    return type(base.__name__, (base,), body)


def _layers(module: nn.Module) -> dict[str, nn.Module]:
    from lrga.nn.conv import LRGAConv

    return {name: layer for name, layer in module.named_modules() if isinstance(layer, LRGAConv)}


def check_has_attention(module: nn.Module, state_dict: Mapping[str, Any], strict: bool) -> None:
    """Refuses, where everything must be in it, the checkpoint of a model before :func:`lrga.augment`."""
    wanted = [f"{name}.attention.".lstrip(".") for name in _layers(module)]
    wanted = [prefix for prefix in wanted if any(key.startswith(prefix) for key in module.state_dict())]
    if strict and state_dict and wanted and not any(key.startswith(tuple(wanted)) for key in state_dict):
        raise CheckpointError(
            "a checkpoint of this model with its attention",
            "one without, as of the model before lrga.augment",
            "load it into the plain model and augment that, or pass strict=False to load the convolutions and keep "
            "the attention as it is",
        )


def _new_telling(base: type) -> Any:
    made: Any = _telling_class(base)
    return made.__new__(made)


def _current_backward() -> int:
    return -1 if torch.compiler.is_compiling() else torch._C._current_graph_task_id()


def _positional_names(module: nn.Module, names: tuple[str, ...]) -> tuple[str, ...]:
    declared = getattr(getattr(module, "signature", None), "param_dict", None)
    return names if declared is None else tuple(declared)  # PyG's Sequential, whose forward takes *args


def _assignment_of_call(names: tuple[str, ...], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Assignment | None:
    """What the arguments of a call say about graphs; ``None`` where they say nothing."""
    given = [value for value in (*args, *kwargs.values()) if isinstance(value, Data | HeteroData)]
    if given:
        return _assignment_of_data(given)
    named = dict(zip(names, args, strict=False)) | kwargs
    if "batch" not in named:
        return None
    batch = named["batch"]
    if batch is None:
        return Assignment(None)
    if not isinstance(batch, Tensor):
        return Assignment(None, error=_not_a_batch(batch))
    sizes = [named[name] for name in ("num_graphs", "batch_size") if isinstance(named.get(name), int | torch.SymInt)]
    return Assignment(batch, sizes[0] if sizes else None)


def _assignment_of_data(given: list[Data | HeteroData]) -> Assignment:
    if any(isinstance(data, HeteroData) for data in given):
        hetero = UnsupportedError(
            "homogeneous graphs, or a batch vector for each call of a layer",
            "HeteroData, in which each node type has its own",
            "convert it with data.to_homogeneous(), or pass batch_dict=data.batch_dict to a HeteroConv of LRGAConvs",
        )
        return Assignment(None, error=hetero)
    first, *others = (
        Assignment(data.batch, data.num_graphs if isinstance(data, Batch) and data.batch is not None else None)
        for data in given
    )
    if all(first.equals(other) for other in others):
        return first
    several = BatchContextError(
        "one assignment of nodes to graphs in a call",
        f"{len(given)} Data objects with different ones",
        "put lrga.batch_context(data.batch) around each part of the model that works on one of them",
    )
    return Assignment(None, error=several)


def _not_a_batch(batch: object) -> DTypeError:
    return DTypeError("batch to be a tensor or None", type(batch).__name__, "pass PyG's batch vector, data.batch")


def named_arguments(module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> dict[str, Any]:
    """The arguments of a call by the names that the module's forward gives them."""
    names = _positional_names(module, ())
    if names:
        return dict(zip(names, args, strict=False)) | kwargs
    try:
        return dict(inspect.signature(module.forward).bind(*args, **kwargs).arguments) | kwargs
    except TypeError:  # the call itself is wrong: let the module say so
        return kwargs
