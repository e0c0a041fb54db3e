"""How a layer that is called without ``batch`` finds the graph of each node."""

import copyreg
import functools
import inspect
import threading
from collections.abc import Callable, Mapping
from contextvars import ContextVar
from types import TracebackType
from typing import Any
from weakref import WeakKeyDictionary

import torch
from torch import Tensor, nn
from torch.utils.weak import WeakTensorKeyDictionary
from torch_geometric.data import Batch, Data, HeteroData

from lrga.checks import check_same_device
from lrga.errors import BatchContextError, BatchError, CheckpointError, DTypeError, LRGAError, UnsupportedError
from lrga.ops.attention.segments import Segments


class Assignment:
    """A batch vector and its number of graphs. All layers of a call share the segments made from it.

    Args:
        batch: PyG's batch vector ``[N]``, or ``None`` for one graph.
        num_graphs: Number of graphs, if known.
        error: If the call does not determine an assignment: the error that the first layer raises.
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
        if self.batch is not None and self.batch.dim() == 1 and self.batch.size(0) != num_nodes:
            raise BatchError(
                f"features of {self.batch.size(0)} nodes, the length of the batch vector",
                f"features of {num_nodes} nodes",
                "after a step that changes the nodes (pooling, sampling), call the rest of the model inside "
                "lrga.batch_context(new_batch), or exclude its layers: lrga.augment(…, exclude=…)",
            )
        if torch.compiler.is_compiling():  # tensors of a trace must not be kept
            return Segments.from_batch(self.batch, num_nodes, self.num_graphs)
        if self._segments is None or self._segments.num_nodes != num_nodes:
            with torch.inference_mode(False):  # a training step may use the same segments later
                self._segments = Segments.from_batch(self.batch, num_nodes, self.num_graphs)
        return self._segments

    def equals(self, other: "Assignment") -> bool:
        """Whether both assign every node to the same graph; ``False`` if the values cannot be read."""
        a, b = self.batch, other.batch
        if self.error is not None or other.error is not None:
            return False
        if a is b:
            return True
        if a is None or b is None or a.shape != b.shape or a.device != b.device:
            return False
        if torch.compiler.is_compiling() or (a.is_cuda and torch.cuda.is_current_stream_capturing()):
            return False
        return torch.equal(a, b)


class _Traced(threading.local):
    """State for traced code, because a compiler does not trace through context variables."""

    assignment: Assignment | None = None
    of_trace: Assignment | None = None  # traced code sets it for the eager code that it calls


# The innermost assignment of a thread or task, and the backward pass in which it was set (-1: none).
_context: ContextVar[tuple[Assignment | None, int]] = ContextVar("lrga_batch", default=(None, -1))
_traced = _Traced()


def _get() -> tuple[Assignment | None, int]:
    if torch.compiler.is_compiling():
        return _traced.assignment, -1
    return _context.get() if _traced.of_trace is None else (_traced.of_trace, -1)


def _enter(assignment: Assignment) -> tuple[Any, Any, Any]:
    """Makes an assignment the innermost one; returns the argument of :func:`_leave`."""
    tracing = torch.compiler.is_compiling()
    outer = (_traced.assignment, _traced.of_trace, None if tracing else _context.get())
    _traced.assignment = assignment
    _traced.of_trace = assignment if tracing else None
    if not tracing:
        _context.set((assignment, torch._C._current_graph_task_id()))
    return outer


def _leave(outer: tuple[Any, Any, Any]) -> None:
    _traced.assignment = outer[0]
    _traced.of_trace = outer[1]
    if outer[2] is not None and not torch.compiler.is_compiling():
        _context.set(outer[2])
        if outer[1] is None:
            _traced.assignment = outer[2][0]  # outer[0] may belong to another task of this thread


# Activation checkpointing calls a layer again in the backward pass, without the model around it and, on a GPU, in
# another thread. It passes the same edge tensor, which identifies the assignment of the forward pass.
_of_edges: WeakTensorKeyDictionary = WeakTensorKeyDictionary()  # edges -> layer -> assignment


def current() -> Assignment | None:
    """The innermost assignment, if any."""
    return _get()[0]


def for_layer(layer: nn.Module, edges: Any, default: Assignment | None = None) -> Assignment | None:
    """The assignment for a layer that is called with these edges and without a batch vector.

    In a backward pass (activation checkpointing) this is the assignment of the forward pass.

    Args:
        layer: The layer.
        edges: Its edges.
        default: Used if there is no context.
    """
    current_one, since = _get()
    if torch.compiler.is_compiling():
        return current_one or default
    edges = getattr(edges, "source", edges)  # an EdgeLayout has a source
    backward = torch._C._current_graph_task_id()
    if backward == -1 or (current_one is not None and since == backward):
        assignment = current_one or default
        if backward == -1 and assignment is not None and isinstance(edges, Tensor):
            _remember(layer, edges, assignment)
        return assignment
    found = _recall(layer, edges) if isinstance(edges, Tensor) else None
    if found is None:
        raise BatchContextError(
            "a checkpointed layer to receive the edge_index of the forward pass when it is recomputed",
            "another tensor, or none",
            "keep edge_index until the backward pass and pass it through torch.utils.checkpoint.checkpoint, or use "
            "lrga.nn.recompute_layers(model); PyG's GroupAddRev needs disable=True",
        )
    return found


def _remember(layer: nn.Module, edges: Tensor, assignment: Assignment) -> None:
    layers = _of_edges.get(edges)
    if layers is None:
        layers = _of_edges[edges] = WeakKeyDictionary()
    known = layers.get(layer)
    if known is assignment or (known is not None and known.error is not None):
        return
    if known is not None and not known.equals(assignment):
        several = BatchContextError(
            "one batch vector for each edge_index under activation checkpointing",
            "an edge_index that was used with several batch vectors",
            "pass edge_index.clone() for each batch vector, or batch=… to the checkpointed layer",
        )
        assignment = Assignment(None, error=several)
    layers[layer] = assignment


def _recall(layer: nn.Module, edges: Tensor) -> Assignment | None:
    """The assignment that :func:`_remember` stored for these edges, or for a tensor that shares their memory."""
    layers = _of_edges.get(edges)
    if layers is None and edges.layout == torch.strided:
        shared = [
            known
            for known in _of_edges
            if known.layout == torch.strided and known.data_ptr() == edges.data_ptr() and known.shape == edges.shape
        ]
        layers = _of_edges.get(shared[0]) if shared else None
    return None if layers is None else layers.get(layer)


class batch_context:
    """Provides the batch vector to layers that are called without one.

    Needed for methods other than ``forward`` (``model.encode(x, edge_index)``) and after a step that changes the nodes
    (pooling). A batch vector passed to the model itself takes precedence.

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
        if isinstance(batch, Batch) and batch.batch is None and batch.num_graphs > 1:
            raise _batch_without_vector()
        if not isinstance(batch, Tensor) and hasattr(batch, "batch"):  # a PyG Batch or Data
            num_graphs = getattr(batch, "num_graphs", num_graphs) if batch.batch is not None else num_graphs
            batch = batch.batch
        if batch is not None and not isinstance(batch, Tensor):
            raise _not_a_batch(batch)
        self.assignment = Assignment(batch, num_graphs)
        self._outer: list[tuple[Any, Any, Any]] = []

    def __enter__(self) -> "batch_context":
        self._outer.append(_enter(self.assignment))
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        _leave(self._outer.pop())


def share_batch(module: nn.Module) -> None:
    """Passes the batch of every call of ``module`` to its layers, in place: see :func:`lrga.provide_batch`."""
    if isinstance(module, torch.jit.ScriptModule):
        raise UnsupportedError(
            "a module that is not compiled by TorchScript",
            type(module).__name__,
            "use torch.compile, or script the model last",
        )
    if getattr(type(module), "_tells_batch", False):
        return
    if "forward" in vars(module):  # replaced on this object alone
        module.forward = functools.partial(_call_with_batch, _names_by_position(module.forward), module.forward)
    kind: Any = type(module)
    module.__class__ = _sharing_class(kind)


def _call_with_batch(names: tuple[str, ...], forward: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Any:
    """``forward(*args, **kwargs)``; while it runs, its layers can read the batch.

    This is part of ``forward`` because a pre-hook may change the batch or move it to another device. Hooks are not
    enough: PyTorch skips them if a call ends by a KeyboardInterrupt or fails during compilation, and the next model
    would then get the batch of this one.
    """
    assignment = _assignment_of_call(names, args, kwargs)
    if assignment is None:
        return forward(*args, **kwargs)
    # The same as _enter and _leave, inlined: after a graph break here a compiler would compile them separately.
    tracing = torch.compiler.is_compiling()
    outer, outer_of_trace = _traced.assignment, _traced.of_trace
    outer_context = None if tracing else _context.get()
    _traced.assignment = assignment
    _traced.of_trace = assignment if tracing else None
    if not tracing:
        _context.set((assignment, torch._C._current_graph_task_id()))
    try:
        return forward(*args, **kwargs)
    finally:
        _traced.assignment = outer
        _traced.of_trace = outer_of_trace
        if outer_context is not None:
            _context.set(outer_context)


def _names_by_position(forward: Callable[..., Any]) -> tuple[str, ...]:
    kinds = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    parameters = inspect.signature(forward).parameters.items()
    return tuple(name for name, parameter in parameters if parameter.kind in kinds)


@functools.cache
def _sharing_class(base: Any) -> type:
    """A subclass whose calls provide their batch to the layers inside."""
    names = _names_by_position(base.forward)[1:]

    @functools.wraps(base.forward)
    def forward(self: nn.Module, *args: Any, **kwargs: Any) -> Any:
        # Not a bound method: after a graph break a compiler would look it up by name on the subclass.
        return _call_with_batch(("self", *_positional_names(self, names)), base.forward, self, *args, **kwargs)

    def __reduce_ex__(self: nn.Module, protocol: Any) -> Any:
        make, arguments, *rest = base.__reduce_ex__(self, protocol)
        if make is not copyreg.__newobj__:  # type: ignore[attr-defined]
            return make, arguments, *rest
        return _new_telling, (base,), *rest  # pickle cannot find a class that is created at run time

    def load_state_dict(self: nn.Module, state_dict: Any, *args: Any, **kwargs: Any) -> Any:
        check_has_attention(self, state_dict, kwargs.get("strict", args[0] if args else True))
        return base.load_state_dict(self, state_dict, *args, **kwargs)

    def __repr__(self: nn.Module) -> str:
        text: str = base.__repr__(self)
        layers = _layers(self).items()
        hidden = [name for name, layer in layers if type(layer).__name__ not in text]  # in a model's own repr
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
    from lrga.nn.lrga_conv import LRGAConv

    return {name: layer for name, layer in module.named_modules() if isinstance(layer, LRGAConv)}


def check_has_attention(module: nn.Module, state_dict: Mapping[str, Any], strict: bool) -> None:
    """With ``strict=True``, raises an error for a checkpoint of the model before :func:`lrga.augment`."""
    wanted = [f"{name}.attention.".lstrip(".") for name in _layers(module)]
    wanted = [prefix for prefix in wanted if any(key.startswith(prefix) for key in module.state_dict())]
    if strict and state_dict and wanted and not any(key.startswith(tuple(wanted)) for key in state_dict):
        raise CheckpointError(
            "a checkpoint of this model with its attention",
            "a checkpoint without attention, for example of the model before lrga.augment",
            "load it into the plain model and augment that, or pass strict=False to load the convolutions only and "
            "keep the weights of the attention",
        )


def _new_telling(base: type) -> Any:
    made: Any = _sharing_class(base)
    return made.__new__(made)


def _positional_names(module: nn.Module, names: tuple[str, ...]) -> tuple[str, ...]:
    declared = getattr(getattr(module, "signature", None), "param_dict", None)
    return names if declared is None else tuple(declared)  # PyG's Sequential, whose forward takes *args


def _assignment_of_call(names: tuple[str, ...], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Assignment | None:
    """The assignment that the arguments of a call determine; ``None`` if there is none."""
    named = dict(zip(names, args, strict=False)) | kwargs
    if isinstance(named.get("batch"), Tensor):
        sizes = [
            named[name] for name in ("num_graphs", "batch_size") if isinstance(named.get(name), int | torch.SymInt)
        ]
        return Assignment(named["batch"], sizes[0] if sizes else None)
    given = [value for value in (*args, *kwargs.values()) if isinstance(value, Data | HeteroData)]
    if given:
        return _assignment_of_data(given)
    if "batch" not in named:
        return None
    return Assignment(None, error=None if named["batch"] is None else _not_a_batch(named["batch"]))


def _assignment_of_data(given: list[Data | HeteroData]) -> Assignment | None:
    if any(isinstance(data, HeteroData) and any("batch" in store for store in data.node_stores) for data in given):
        hetero = UnsupportedError(
            "homogeneous graphs, or a batch vector for each call of a layer",
            "HeteroData with batch vectors, one for each node type",
            "convert it with data.to_homogeneous(), or pass batch_dict=data.batch_dict to a HeteroConv of LRGAConvs",
        )
        return Assignment(None, error=hetero)
    vectors = [None if isinstance(data, HeteroData) else data.batch for data in given]
    pairs = list(zip(given, vectors, strict=True))
    if any(isinstance(data, Batch) and batch is None and data.num_graphs > 1 for data, batch in pairs):
        return Assignment(None, error=_batch_without_vector())
    if all(batch is None for batch in vectors) and _get()[0] is not None:
        return None  # plain Data has no batch vector; an outer context may have one
    first, *others = (
        Assignment(batch, data.num_graphs if isinstance(data, Batch) and batch is not None else None)
        for data, batch in pairs
    )
    if all(first.equals(other) for other in others):
        return first
    several = BatchContextError(
        "the same batch vector in all Data objects of a call",
        f"{len(given)} Data objects with different batch vectors",
        "call each part of the model that uses one of them inside lrga.batch_context(data.batch)",
    )
    return Assignment(None, error=several)


def _batch_without_vector() -> BatchContextError:
    return BatchContextError(
        "a PyG Batch with a batch vector",
        "one without, which PyG returns if data.num_nodes is not known (pairs of graphs)",
        "call each part of the model inside lrga.batch_context(data.x_s_batch); follow_batch=['x_s', …] creates it",
    )


def _not_a_batch(batch: object) -> DTypeError:
    return DTypeError("batch to be a tensor or None", type(batch).__name__, "pass PyG's batch vector, data.batch")


def named_arguments(module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> dict[str, Any]:
    """The arguments of a call, by their names in the module's forward."""
    names = _positional_names(module, ())
    if names:
        return dict(zip(names, args, strict=False)) | kwargs
    try:
        return dict(inspect.signature(module.forward).bind(*args, **kwargs).arguments) | kwargs
    except TypeError:  # the call itself is wrong: the module raises the error
        return kwargs
