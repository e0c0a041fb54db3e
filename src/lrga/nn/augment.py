"""One line that gives every convolution of a model global attention."""

import copy
import functools
import inspect
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
    or an argument named ``batch`` is used, a plain ``Data`` is one graph. Otherwise the layers raise, unless called
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
    single_graph = bool(options.pop("single_graph", False))
    replaced: dict[int, AugmentedConv] = {}
    model = _replace(copy.deepcopy(module), rank, options, replaced)
    if not replaced:
        raise OptionError(
            "a model with at least one PyG convolution (a MessagePassing layer) not yet augmented",
            type(module).__name__,
            "use lrga.LRGAConv around layers of your own",
        )
    model.register_forward_pre_hook(functools.partial(_enter, single_graph=single_graph), with_kwargs=True)
    model.register_forward_hook(_leave, always_call=True)
    return model


class AugmentedConv(LRGAConv):
    """A convolution of a host model with attention beside it, called exactly as the convolution was."""

    def __init__(self, conv: nn.Module, rank: int, **options: Any) -> None:
        nn.Module.__init__(self)
        defaults = {"heads": 1, "skip": True, "dropout": 0.0, "norm": None, "act": None, "backend": "auto"}
        width = input_width(conv)
        self._build(conv, -1 if width is None else width, None, rank, **(defaults | options))
        reference = next((p for p in conv.parameters() if p.is_floating_point()), None)
        if reference is not None:
            self.to(reference.device, reference.dtype)
        self.train(conv.training)

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
        if assignment is None:
            raise BatchContextError(
                "to know which node belongs to which graph",
                "a call with neither a PyG Batch or Data nor an argument named 'batch'",
                "pass batch=… to the model, or call it inside `with lrga.batch_context(batch):` "
                "(batch_context(None) for one graph), or augment with single_graph=True",
            )
        return self._combine(x, self.conv(*args, **kwargs), assignment.segments(x.size(0)))


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


def _enter(module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any], *, single_graph: bool) -> None:
    assignment = _assignment_of_call(module, args, kwargs) or context.current()
    if assignment is None and single_graph:
        assignment = context.Assignment(None)
    context.push(assignment)


def _leave(module: nn.Module, args: tuple[Any, ...], output: Any) -> None:
    del module, args, output
    context.pop()


def _assignment_of_call(module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> context.Assignment | None:
    for value in (*args, *kwargs.values()):
        if isinstance(value, HeteroData):
            raise UnsupportedError("homogeneous graphs", "HeteroData", "convert it with data.to_homogeneous()")
        if isinstance(value, Data):
            num_graphs = value.num_graphs if isinstance(value, Batch) else None
            return context.Assignment(value.batch, num_graphs if value.batch is not None else None)
    named = _named_arguments(module, args, kwargs)
    if "batch" not in named:
        return None
    sizes = (named.get(name) for name in ("num_graphs", "batch_size"))
    num_graphs = next((size for size in sizes if isinstance(size, int)), None)
    return context.Assignment(named["batch"], num_graphs if named["batch"] is not None else None)


def _named_arguments(module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> dict[str, Any]:
    """The arguments of a call by the names that the model gives them."""
    names = getattr(getattr(module, "signature", None), "param_dict", None)
    if names is not None:  # PyG's Sequential, whose forward takes *args
        return dict(zip(names, args, strict=False)) | kwargs
    try:
        return dict(inspect.signature(module.forward).bind(*args, **kwargs).arguments)
    except TypeError:  # the call itself is wrong: let the model say so
        return kwargs
