"""``augment`` adds global attention to every convolution of a model in one line."""

import copy
import functools
import inspect
from collections.abc import Callable, Iterator, Mapping, Sequence
from fnmatch import fnmatchcase
from itertools import pairwise
from typing import Any

import torch
from torch import Tensor, nn
from torch_geometric.nn import AttentiveFP, HeteroConv, MessagePassing

from lrga.checks import check_choice
from lrga.errors import DTypeError, OptionError, ShapeError, UnsupportedError
from lrga.nn.context import check_has_attention, share_batch
from lrga.nn.lrga_conv import FROM_CONTEXT, LazyMix, LRGAConv, pass_convolution_through
from lrga.nn.probe import input_width

Selector = type | str | Callable[..., bool]
INITIALIZATIONS = ("identity", "paper")
OWN_ATTRIBUTES = ("conv", "attention", "mix", "act", "norm", "skip", "single_graph", "init")


def augment(
    module: nn.Module,
    rank: int,
    *,
    include: Selector | Sequence[Selector] | None = None,
    exclude: Selector | Sequence[Selector] | None = None,
    init: str = "identity",
    **options: Any,
) -> nn.Module:
    """A copy of ``module`` with low-rank global attention in parallel with every PyG convolution.

    The model's own forward code keeps working: each convolution is replaced by a layer that is called in the same way,
    returns features of the same width, and has the attributes of the convolution it wraps. Parameters of the original
    are copied, not shared. Load a checkpoint of the plain model before augmenting it; loading it afterwards requires
    ``strict=False`` and leaves the attention weights unchanged.

    The attention must know the graph of each node. It takes the batch vector from the arguments of the
    model, or of any submodule with augmented layers: a PyG ``Batch`` or an argument named ``batch`` (``batch=None`` is
    one graph, as everywhere in PyG); a plain ``Data`` is one graph. Otherwise the layers raise an error, unless they
    are called inside :func:`lrga.batch_context` or created with ``single_graph=True``.

    Not augmented, unless ``include`` names them (``print(model)`` shows which layers were augmented):

    - convolutions between two node sets: in ``HeteroConv``, in the result of ``to_hetero``, with a pair of input
      widths, and the readout of ``AttentiveFP``;
    - convolutions that score nodes in PyG's pooling layers;
    - convolutions already in an :class:`lrga.LRGAConv`.

    Args:
        module: Any model made of PyG convolutions, or one convolution.
        rank: The paper's κ.
        include: Which convolutions to augment; all by default. A class, a name from ``named_modules()`` (``*`` is a
            wildcard), a function ``f(conv)`` or ``f(name, conv)`` that returns a bool, or a list of these. The class or
            name of an enclosing module selects all convolutions in it.
        exclude: Which convolutions not to augment, in the same form.
        init: With ``"identity"`` each layer initially returns the output of its convolution, so the augmented model
            starts with the outputs of the original. ``"paper"`` initialises :math:`m_5` randomly, as the paper does.
        **options: ``heads``, ``skip``, ``dropout``, ``normalize``, ``qk_norm``, ``gate``, ``backend`` as in
            :class:`lrga.LRGAConv`; ``norm`` and ``act`` (``None`` by default, because the model has its own; they need
            ``init="paper"``); ``single_graph=True`` treats all nodes as one graph if a call has no batch vector.

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
    allowed = ("heads", "skip", "dropout", "normalize", "qk_norm", "gate", "backend", "norm", "act", "single_graph")
    if unknown := [name for name in options if name not in allowed]:
        raise OptionError(f"options among {', '.join(allowed)}", ", ".join(unknown), "see help(lrga.augment)")
    check_choice("init", init, INITIALIZATIONS)
    if init == "identity" and (given := [name for name in ("act", "norm") if options.get(name) is not None]):
        raise OptionError(
            "no act and no norm with init='identity', which initially equals the plain convolution",
            " and ".join(f"{name}={options[name]!r}" for name in given),
            "pass init='paper', or leave act and norm to the model",
        )
    model = copy.deepcopy(module)
    chosen = _select(model, include, exclude)
    reference = next((p for p in model.parameters() if p.is_floating_point()), None)
    replaced: dict[nn.Module, AugmentedConv] = {}
    for conv, name in chosen.items():
        kind: Any = type(conv)
        replaced[conv] = _augmented_class(kind)(conv, name, rank, init=init, reference=reference, **options)
    model = _replace(model, replaced)
    _replace_in_containers(model, replaced)
    return provide_batch(model)


def provide_batch(module: nn.Module) -> nn.Module:
    """Passes the batch vector of every call of ``module`` to the :class:`lrga.LRGAConv` layers inside it.

    The batch vector is taken from the arguments of ``module``, or of any submodule with such layers: a PyG ``Batch`` or
    ``Data``, or an argument named ``batch`` (with ``num_graphs`` or ``batch_size``, if the module has them). In nested
    calls the innermost batch vector is used. The module is modified in place and returned; its parameters and state
    dict do not change. :func:`augment` already does this for the models it returns.

    Example:
        >>> import torch, lrga
        >>> from torch_geometric.nn import GCNConv, GPSConv
        >>> model = lrga.provide_batch(GPSConv(8, lrga.LRGAConv(GCNConv(8, 8), 8, 8, rank=2)))
        >>> model(torch.randn(3, 8), torch.tensor([[0, 1], [1, 0]]), torch.tensor([0, 0, 1])).shape
        torch.Size([3, 8])
    """
    if not isinstance(module, nn.Module):
        raise DTypeError("a torch module", type(module).__name__, "pass the model itself, not its class")
    holders = [m for m in module.modules() if any(isinstance(inner, LRGAConv) for inner in m.modules())]
    if not holders:
        raise OptionError(
            "a model with lrga.LRGAConv layers", type(module).__name__, "add them, or use lrga.augment(model, rank=…)"
        )
    for holder in holders:
        takes_it = isinstance(holder, LRGAConv) and not any(isinstance(m, LRGAConv) for m in holder.conv.modules())
        if not takes_it and type(holder) not in (nn.ModuleList, nn.ModuleDict):
            share_batch(holder)
    return module


class AugmentedConv(LRGAConv):
    """A convolution of a model with attention in parallel; it is called like the convolution.

    Its class also derives from the class of the convolution, so ``isinstance(layer, GCNConv)`` is true. All attributes
    of the convolution can be read and set on it.
    """

    def __init__(
        self,
        conv: nn.Module,
        name: str,
        rank: int,
        *,
        init: str,
        single_graph: bool = False,
        reference: Tensor | None = None,
        **options: Any,
    ) -> None:
        nn.Module.__init__(self)
        self._name, self.init, self.single_graph = name, init, bool(single_graph)
        defaults = {"heads": 1, "skip": True, "dropout": 0.0, "norm": None, "act": None}
        width = input_width(conv)
        self._build(conv, -1 if width is None else width, None, rank, **(defaults | options))
        self._initialize_mix()
        # A convolution without parameters uses the device and dtype of the rest of the model.
        reference = next((p for p in conv.parameters() if p.is_floating_point()), reference)
        if reference is not None:
            self.to(reference.device, reference.dtype)
        self.train(conv.training)

    def reset_parameters(self) -> None:
        """Resets all parameters, including the convolution's, with the same ``init``."""
        super().reset_parameters()
        self._initialize_mix()

    def _initialize_mix(self) -> None:
        if self.init != "identity":
            return
        if isinstance(self.mix, LazyMix):
            self.mix.identity = True
        elif isinstance(self.mix, nn.Linear):  # a module that a user has put here keeps its own initialisation
            pass_convolution_through(self.mix)

    def __reduce_ex__(self, protocol: Any) -> Any:
        return _new_augmented, (type(self.conv),), self.__getstate__()  # the class is created at run time

    # The model may read attributes of its convolution: they take precedence, here and in __getattr__.
    @property
    def in_channels(self) -> Any:
        """The attribute of the convolution."""
        return getattr(self.conv, "in_channels", self.attention.in_channels)

    @property
    def out_channels(self) -> Any:
        """The attribute of the convolution."""
        return getattr(self.conv, "out_channels", self._out_channels)

    @property
    def heads(self) -> int:
        """The attribute of the convolution."""
        return getattr(self.conv, "heads", self.attention.heads)

    @property
    def explain(self) -> bool:
        """``False``: PyG's explainers mask the edges of the inner convolution, and must not mask them again here."""
        return False

    @explain.setter
    def explain(self, value: bool | None) -> None:
        setattr(self.conv, "explain", value)  # noqa: B010

    @property
    def explain_message(self) -> Any:
        """The convolution's attribute. Only PyG's ``GraphMaskExplainer`` sets it, which raises an error."""
        return self.conv.explain_message

    @explain_message.setter
    def explain_message(self, value: Any) -> None:
        raise UnsupportedError(
            "an explainer other than GraphMaskExplainer",
            "GraphMaskExplainer, which would count this layer and its convolution as two layers",
            "use GNNExplainer, PGExplainer or AttentionExplainer",
        )

    def __getattr__(self, name: str) -> Any:
        try:
            return nn.Module.__getattr__(self, name)
        except AttributeError:
            conv = self.__dict__.get("_modules", {}).get("conv")
            if conv is None:
                raise
            return getattr(conv, name)

    def __setattr__(self, name: str, value: Any) -> None:
        own = self.__dict__
        conv = own.get("_modules", {}).get("conv")
        is_own = name in own or name in OWN_ATTRIBUTES or name.startswith("_") or hasattr(type(self), name)
        if conv is None or is_own or not hasattr(conv, name):
            nn.Module.__setattr__(self, name, value)
        else:  # the model replaces a part of its convolution
            setattr(conv, name, value)

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        x = args[0] if args else kwargs.get("x")
        self._check_input(x)
        assert isinstance(x, Tensor)
        if self._conv_takes_batch:
            batch, num_graphs = kwargs.get("batch", FROM_CONTEXT), None
        else:
            batch, num_graphs = kwargs.pop("batch", FROM_CONTEXT), kwargs.pop("num_graphs", None)
        edges = next((value for value in (kwargs.get("edge_index"), *args[1:]) if value is not None), None)
        segments = self._segments(x, edges, args[1:] if self._conv_names[:1] == ("x",) else (), batch, num_graphs)
        return self._combine(x, self.conv(*args, **kwargs), segments)

    def _load_from_state_dict(self, state_dict: dict[str, Any], prefix: str, *args: Any) -> None:
        names = {name: f"{prefix}conv.{name.removeprefix(prefix)}" for name in self.conv.state_dict(prefix=prefix)}
        own = set(names.values()) - set(names)  # the convolution may have a module named conv
        if not any(name in state_dict for name in own):  # a checkpoint of the plain model
            state_dict.update({name: state_dict.pop(plain) for plain, name in names.items() if plain in state_dict})
        nn.Module._load_from_state_dict(self, state_dict, prefix, *args)

    def load_state_dict(self, state_dict: Mapping[str, Any], strict: bool = True, assign: bool = False) -> Any:
        """As in every module; a checkpoint of the plain convolution needs ``strict=False``."""
        check_has_attention(self, state_dict, strict)
        return nn.Module.load_state_dict(self, state_dict, strict, assign)

    def _check_input(self, x: Any) -> None:
        if x is None or (isinstance(x, Tensor) and not x.is_nested and x.dim() != 2):
            got = "None" if x is None else f"shape {list(x.shape)}"
            raise ShapeError("x of shape [N, D] for the attention", got, self._remedy_for_pairs())
        super()._check_input(x)

    _remedies = (
        "pass a PyG Batch or batch=data.batch (batch=None for one graph) to the model; if it is wrapped, for example "
        "in DistributedDataParallel, call lrga.provide_batch(wrapper) once; if its forward has no argument named "
        "`batch`, call the model, for example model.encode(…), inside `with lrga.batch_context(data.batch):`; or "
        "augment it with single_graph=True if it always sees one graph"
    )

    def _remedy_for_pairs(self) -> str:
        return f"do not augment this convolution: lrga.augment(model, rank=…, exclude={self._name!r})"


@functools.cache
def _augmented_class(kind: Any) -> type[AugmentedConv]:
    """A subclass of :class:`AugmentedConv` and of this class of convolutions.

    Attributes that the class of the convolution defines are read from the convolution, except those of every module.
    """
    body: dict[str, Any] = {}
    for parent in kind.__mro__[: kind.__mro__.index(nn.Module)]:
        for name in vars(parent):
            if hasattr(AugmentedConv, name):
                body[name] = inspect.getattr_static(AugmentedConv, name)
            elif name in OWN_ATTRIBUTES:
                body[name] = _own_attribute(name)
            elif not name.startswith("__"):
                body[name] = _attribute_of_conv(name)
    for name in ("__dict__", "__weakref__"):
        body.pop(name, None)
    body |= {"__module__": AugmentedConv.__module__, "__doc__": AugmentedConv.__doc__}
    return type(f"Augmented{kind.__name__}", (AugmentedConv, kind), body)


def _attribute_of_conv(name: str) -> property:
    return property(lambda self: getattr(self.conv, name), lambda self, value: setattr(self.conv, name, value))


def _own_attribute(name: str) -> property:
    """An attribute of the layer that the convolution's class also has, for example a method."""
    return property(
        lambda self: self._modules[name] if name in self._modules else self.__dict__[name],
        lambda self, value: self.__dict__.__setitem__(name, value),
    )


def _new_augmented(kind: type) -> AugmentedConv:
    made = _augmented_class(kind)
    return made.__new__(made)


def _replace(module: nn.Module, replaced: dict[nn.Module, AugmentedConv]) -> nn.Module:
    if module in replaced:
        return replaced[module]
    if not isinstance(module, LRGAConv):
        for name, child in module._modules.items():
            if child is not None:
                module._modules[name] = _replace(child, replaced)
    return module


def _replace_in_containers(model: nn.Module, replaced: dict[nn.Module, AugmentedConv]) -> None:
    """Replaces convolutions in plain lists, tuples and dictionaries that a model keeps as attributes."""

    def new(value: Any) -> Any:
        if isinstance(value, nn.Module):
            return replaced.get(value, value)
        if type(value) not in (list, tuple, dict):
            return value
        items = list(value.values() if isinstance(value, dict) else value)
        made = [new(item) for item in items]
        if all(a is b for a, b in zip(made, items, strict=True)):
            return value
        return dict(zip(value, made, strict=True)) if isinstance(value, dict) else type(value)(made)

    of_torch = vars(nn.Module())
    inside = {id(conv) for layer in replaced.values() for conv in layer.modules()}
    for module in model.modules():
        if id(module) not in inside:
            for name, value in vars(module).items():
                if name not in of_torch:
                    vars(module)[name] = new(value)


def _select(model: nn.Module, include: Any, exclude: Any) -> dict[nn.Module, str]:
    """The convolutions to augment and their names; a convolution used in two places has the first name."""
    paths = list(_convolutions(model, ()))
    wanted, unwanted = _as_list("include", include), _as_list("exclude", exclude)
    for option, selectors in (("include", wanted), ("exclude", unwanted)):
        for selector in selectors or ():
            if paths and not any(_matches(selector, path) for path in paths):
                raise OptionError(
                    f"{option} to match a convolution of the model",
                    repr(selector),
                    f"use a class or a name among these: {_listed(paths)}",
                )
    chosen: dict[nn.Module, str] = {}
    for path in paths:
        name, conv = path[-1]
        if any(_matches(selector, path) for selector in unwanted or ()):
            chosen.pop(conv, None)
        elif (_reason_to_leave(path) is None) if wanted is None else any(_matches(s, path) for s in wanted):
            chosen.setdefault(conv, name)
    if not chosen:
        if not paths and any(isinstance(module, AugmentedConv) for module in model.modules()):
            what = f"{type(model).__name__}, which is augmented already"
            raise OptionError("a model without LRGA to augment", what, "use it as it is, or augment the plain model")
        left = "; ".join(f"{path[-1][0] or 'it'}: {_reason_to_leave(path) or 'excluded'}" for path in paths)
        raise OptionError(
            "a model with at least one PyG convolution (a MessagePassing layer) to augment",
            type(model).__name__ + (f", whose convolutions are not augmented ({left})" if left else ""),
            "name convolutions in include, or wrap your own layers in lrga.LRGAConv",
        )
    return chosen


Path = tuple[tuple[str, nn.Module], ...]


def _convolutions(module: nn.Module, path: Path, name: str = "") -> Iterator[Path]:
    """The path of each convolution that is not augmented yet: names and modules from the model down to it."""
    path = (*path, (name, module))
    if isinstance(module, LRGAConv):
        return
    if isinstance(module, MessagePassing):
        yield path
        return
    for child_name, child in module._modules.items():
        if child is not None:
            yield from _convolutions(child, path, f"{name}.{child_name}" if name else child_name)


def _reason_to_leave(path: Path) -> str | None:
    """Why a convolution is not augmented by default; ``None`` if it is."""
    conv = path[-1][1]
    if isinstance(getattr(conv, "in_channels", None), tuple | list | dict):
        return "for two node sets or several node types"
    if next(iter(inspect.signature(conv.forward).parameters), None) == "edge_index":
        return "takes no node features"
    for (_, parent), (child_name, child) in pairwise(path):
        if isinstance(parent, HeteroConv) or _is_hetero_transformed(parent):
            return "in a model of several node types"
        if any(kind.__module__.startswith("torch_geometric.nn.pool") for kind in type(parent).__mro__):
            return f"scores the nodes for {type(parent).__name__}"
        if isinstance(parent, AttentiveFP) and child is getattr(parent, "mol_conv", None):
            return f"{child_name} connects nodes with graphs"
    return None


def _is_hetero_transformed(module: nn.Module) -> bool:
    """Whether the module is the result of PyG's ``to_hetero`` or ``to_hetero_with_bases``."""
    if not isinstance(module, torch.fx.GraphModule):
        return False
    used = [node.target for node in module.graph.nodes if node.op == "call_function"]
    used += [type(inner) for inner in module.modules()]
    return any(getattr(target, "__module__", "").startswith("torch_geometric.nn.to_hetero") for target in used)


def _as_list(option: str, selectors: Any) -> list[Selector] | None:
    if selectors is None:
        return None
    listed = list(selectors) if isinstance(selectors, list | tuple | set | frozenset) else [selectors]
    for selector in listed:
        if isinstance(selector, nn.Module) or not (isinstance(selector, type | str) or callable(selector)):
            raise DTypeError(
                f"{option} as a class, a name, a function or a list of these", repr(selector), "see help(lrga.augment)"
            )
    return listed


def _matches(selector: Selector, path: Path) -> bool:
    if isinstance(selector, str):
        return any(fnmatchcase(name, selector) for name, _ in path[1:]) or (len(path) == 1 and selector == path[0][0])
    if isinstance(selector, type):
        return any(isinstance(module, selector) for _, module in path)
    name, conv = path[-1]
    return bool(selector(name, conv) if _takes_two(selector) else selector(conv))


def _takes_two(function: Callable[..., Any]) -> bool:
    try:
        parameters = inspect.signature(function).parameters.values()
    except ValueError:  # a function written in C
        return False
    return sum(p.default is inspect.Parameter.empty for p in parameters) > 1


def _listed(paths: list[Path]) -> str:
    return ", ".join(f"{path[-1][0] or 'the model'} ({type(path[-1][1]).__name__})" for path in paths)
