"""One line that gives every convolution of a model global attention."""

import copy
from typing import Any

from torch import Tensor, nn
from torch_geometric.data import Batch, Data, HeteroData
from torch_geometric.nn import MessagePassing

from lrga.errors import BatchContextError, DTypeError, OptionError, UnsupportedError
from lrga.nn import context
from lrga.nn.conv import LRGAConv
from lrga.nn.probe import input_width


def augment(module: nn.Module, rank: int, **options: Any) -> nn.Module:
    """A copy of ``module`` in which every PyG convolution has low-rank global attention beside it.

    The model's own forward code keeps working: each convolution is replaced by a layer that is called in the same way,
    returns features of the same width, and has the attributes of the convolution it wraps. Parameters of the original
    are copied, not shared.

    The attention must know which node belongs to which graph. The call of the returned model tells it: a PyG ``Batch``
    or an argument named ``batch`` is used (``batch=None`` is one graph, as everywhere in PyG), a plain ``Data`` is one
    graph. Otherwise the layers raise, unless called
    inside :func:`lrga.batch_context` or made with ``single_graph=True``.

    Args:
        module: Any model made of PyG convolutions, or one convolution. Convolutions already wrapped in
            :class:`lrga.LRGAConv` stay as they are.
        rank: The paper's κ.
        **options: ``heads``, ``skip``, ``dropout``, ``backend`` as in :class:`lrga.LRGAConv`; ``norm`` and ``act``,
            both ``None`` by default, as the model has its own; ``single_graph=True`` takes all nodes as one graph where
            nothing else is said.

    Example:
        >>> import torch, lrga
        >>> from torch_geometric.nn import GCN
        >>> model = lrga.augment(GCN(16, 32, num_layers=2, out_channels=4), rank=8)
        >>> edge_index = torch.tensor([[0, 1, 2, 3], [1, 0, 3, 2]])
        >>> model(torch.randn(4, 16), edge_index, batch=torch.tensor([0, 0, 1, 1])).shape
        torch.Size([4, 4])
    """
    if not isinstance(module, nn.Module):
        raise DTypeError("a torch module", type(module).__name__, "pass the model itself, not its class")
    allowed = ("heads", "skip", "dropout", "backend", "norm", "act", "single_graph")
    if unknown := [name for name in options if name not in allowed]:
        raise OptionError(f"options among {', '.join(allowed)}", ", ".join(unknown), "see help(lrga.augment)")
    replaced: dict[int, AugmentedConv] = {}
    model = copy.deepcopy(module)
    reference = next((p for p in model.parameters() if p.is_floating_point()), None)
    model = _replace(model, rank, options | {"reference": reference}, replaced)
    if not replaced:
        raise OptionError(
            "a model with at least one PyG convolution (a MessagePassing layer) not yet augmented",
            type(module).__name__,
            "use lrga.LRGAConv around layers of your own",
        )
    model.register_forward_pre_hook(_enter, with_kwargs=True)
    model.register_forward_hook(_leave, always_call=True)
    return model


class AugmentedConv(LRGAConv):
    """A convolution of a host model with attention beside it, called exactly as the convolution was."""

    def __init__(
        self, conv: nn.Module, rank: int, *, single_graph: bool = False, reference: Tensor | None = None, **options: Any
    ) -> None:
        nn.Module.__init__(self)
        self.single_graph = bool(single_graph)
        defaults = {"heads": 1, "skip": True, "dropout": 0.0, "norm": None, "act": None, "backend": "auto"}
        width = input_width(conv)
        self._build(conv, -1 if width is None else width, None, rank, **(defaults | options))
        # A convolution without parameters follows the rest of the model.
        reference = next((p for p in conv.parameters() if p.is_floating_point()), reference)
        if reference is not None:
            self.to(reference.device, reference.dtype)
        self.train(conv.training)

    @property  # type: ignore[misc]
    def __class__(self) -> type:
        """That of the convolution, so that a host model which asks ``isinstance(layer, GCNConv)`` is answered yes."""
        conv = self.__dict__.get("_modules", {}).get("conv")
        return type(self) if conv is None else type(conv)

    def __reduce__(self) -> Any:
        return _blank, (), self.__getstate__()  # pickle would look the class above up instead

    # The host model may read its convolution's attributes: those come first, here and in __getattr__.
    @property
    def in_channels(self) -> Any:
        """As the convolution has it."""
        return getattr(self.conv, "in_channels", self.attention.in_channels)

    @property
    def out_channels(self) -> Any:
        """As the convolution has it."""
        return getattr(self.conv, "out_channels", self._out_channels)

    @property
    def heads(self) -> int:
        """As the convolution has it."""
        return getattr(self.conv, "heads", self.attention.heads)

    def __getattr__(self, name: str) -> Any:
        try:
            return super().__getattr__(name)
        except AttributeError:
            conv = self.__dict__.get("_modules", {}).get("conv")
            if conv is None:
                raise
            return getattr(conv, name)

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        x = args[0] if args else kwargs.get("x")
        self._check_input(x)
        assert isinstance(x, Tensor)
        assignment = context.current()
        if assignment is None and self.single_graph:
            assignment = context.Assignment(None)
        if assignment is None:
            raise BatchContextError(
                "to know which node belongs to which graph",
                "a call with neither a PyG Batch or Data nor an argument named 'batch'",
                "pass batch=… to the model, or call it inside `with lrga.batch_context(batch):` "
                "(batch_context(None) for one graph; with activation checkpointing the backward pass too), or augment "
                "with single_graph=True",
            )
        return self._combine(x, self.conv(*args, **kwargs), assignment.segments(x))


def _blank() -> AugmentedConv:
    return AugmentedConv.__new__(AugmentedConv)


def _replace(module: nn.Module, rank: int, options: dict[str, Any], replaced: dict[int, AugmentedConv]) -> nn.Module:
    if isinstance(module, LRGAConv):
        return module
    if isinstance(module, MessagePassing):
        if id(module) not in replaced:  # a convolution used in two places stays one
            replaced[id(module)] = AugmentedConv(module, rank, **options)
        return replaced[id(module)]
    for name, child in module._modules.items():
        if child is not None:
            module._modules[name] = _replace(child, rank, options, replaced)
    return module


def _enter(module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
    outer = context.current()
    context.push(outer)  # first, since _leave pops whatever happens below
    assignment = _assignment_of_call(module, args, kwargs)
    if assignment is not None:
        context.pop()
        context.push(assignment)


def _leave(module: nn.Module, args: tuple[Any, ...], output: Any) -> None:
    del module, args, output
    context.pop()


def _assignment_of_call(module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> context.Assignment | None:
    given = [value for value in (*args, *kwargs.values()) if isinstance(value, Data | HeteroData)]
    if any(isinstance(value, HeteroData) for value in given):
        raise UnsupportedError("homogeneous graphs", "HeteroData", "convert it with data.to_homogeneous()")
    if len(given) > 1 and any(not _same(value.batch, given[0].batch) for value in given):
        raise BatchContextError(
            "one assignment of nodes to graphs in a call",
            f"{len(given)} Data objects with different ones",
            "put lrga.batch_context(data.batch) around each part of the model that works on one of them",
        )
    if given:
        num_graphs = given[0].num_graphs if isinstance(given[0], Batch) else None
        return context.Assignment(given[0].batch, num_graphs if given[0].batch is not None else None)
    named = context.named_arguments(module, args, kwargs)
    if "batch" not in named:
        return None
    sizes = (named.get(name) for name in ("num_graphs", "batch_size"))
    num_graphs = next((size for size in sizes if isinstance(size, int)), None)
    return context.Assignment(named["batch"], num_graphs if named["batch"] is not None else None)


def _same(a: Tensor | None, b: Tensor | None) -> bool:
    return a is b or (a is not None and b is not None and a.shape == b.shape and bool((a == b).all()))
