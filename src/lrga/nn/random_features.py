"""Random graph neural networks: models with random node features (the paper's RGNN)."""

import copy
import inspect
import math
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn
from torch_geometric.data import Data
from torch_geometric.nn.inits import reset

from lrga.checks import check_choice, check_count, check_dense
from lrga.errors import DTypeError, OptionError, ShapeError
from lrga.nn.context import named_arguments
from lrga.ops.attention.segments import Segments

Sampler = Callable[..., Tensor]
MODES = ("concat", "replace")
_HELD_BLOCK = 4096  # rows of fixed features drawn at once


def normal(num_nodes: int, channels: int, **factory: Any) -> Tensor:
    """Normal with mean 0 and variance 1 / channels, as in the paper's experiment."""
    return torch.randn(num_nodes, channels, **factory) / math.sqrt(channels)


def uniform(num_nodes: int, channels: int, **factory: Any) -> Tensor:
    """Uniform with mean 0 and variance 1 / channels; bounded, as Proposition 1 requires."""
    return (2 * torch.rand(num_nodes, channels, **factory) - 1) * math.sqrt(3 / channels)


def rademacher(num_nodes: int, channels: int, **factory: Any) -> Tensor:
    """±1 / √channels with equal probability: mean 0, variance 1 / channels, bounded."""
    signs = torch.randint(0, 2, (num_nodes, channels), **factory)
    return (2 * signs - 1) / math.sqrt(channels)


DISTRIBUTIONS: dict[str, Sampler] = {"normal": normal, "uniform": uniform, "rademacher": rademacher}


class RandomFeatures(nn.Module):
    r"""Gives a model random node features :math:`[X, R]`, drawn in every forward pass (the paper's RGNN).

    Args:
        model: Called as ``model(x, …)`` or ``model(data, …)`` with a PyG ``Data`` or ``Batch``.
        channels: Number of random columns, the paper's d.
        distribution: ``"normal"``, ``"uniform"`` or ``"rademacher"``, each of mean 0 and variance 1/d, or a function
            ``sampler(num_nodes, channels, *, generator, dtype, device)``; any of the keywords may be missing.
        mode: ``"concat"`` appends the random columns to x; ``"replace"`` replaces x by them.
        samples: In evaluation the output is averaged over this many draws. This estimates the expectation, which is
            equivariant; the output of a single draw is not.
        resample: ``False`` fixes the features: node j of every graph has the same ones in every pass. They are computed
            from a seed that is drawn once and saved with the weights.
        generator: Source of randomness, for reproducible draws; PyTorch's own by default.

    Example:
        >>> import torch, lrga
        >>> from torch_geometric.nn import GCN
        >>> model = lrga.RandomFeatures(GCN(16 + 8, 32, num_layers=2, out_channels=4), channels=8, samples=10)
        >>> model(torch.randn(3, 16), torch.tensor([[0, 1], [1, 2]])).shape
        torch.Size([3, 4])
    """

    held_seed: Tensor

    def __init__(
        self,
        model: nn.Module,
        channels: int,
        *,
        distribution: str | Sampler = "normal",
        mode: str = "concat",
        samples: int = 1,
        resample: bool = True,
        generator: torch.Generator | None = None,
    ) -> None:
        super().__init__()
        if not isinstance(model, nn.Module):
            raise DTypeError("a torch module", type(model).__name__, "pass the model itself, not its class")
        check_count("channels", channels, minimum=1)
        check_count("samples", samples, minimum=1)
        check_choice("mode", mode, MODES)
        if not callable(distribution):
            check_choice("distribution", distribution, tuple(DISTRIBUTIONS))
        if not resample and samples > 1:
            raise OptionError(
                "samples=1 with resample=False", f"samples={samples}", "use samples=1; fixed features are drawn once"
            )
        self.model, self.channels, self.distribution, self.mode = model, channels, distribution, mode
        self.samples, self.resample, self.generator = samples, bool(resample), generator
        if not resample:
            self.register_buffer("held_seed", _draw_seed(generator))

    def reset_parameters(self) -> None:
        """Reinitialises the model's parameters and the seed of fixed features."""
        reset(self.model)
        if not self.resample:
            self.held_seed.copy_(_draw_seed(self.generator))

    def forward(self, x: Tensor | Data, *args: Any, **kwargs: Any) -> Any:
        """Calls the model with random features; all other arguments are passed unchanged."""
        batch = named_arguments(self.model, (x, *args), kwargs).get("batch")
        mean = self.model(self._randomized(x, batch), *args, **kwargs)
        for done in range(1, 1 if self.training else self.samples):
            more = self.model(self._randomized(x, batch), *args, **kwargs)
            mean = _weighted_sum(_weighted_sum(mean, mean, -1 / (done + 1)), more, 1 / (done + 1))
        return mean

    def _randomized(self, x: Tensor | Data, batch: Any) -> Tensor | Data:
        if isinstance(x, Data):
            reference = x.x if x.x is not None else x.edge_index
            device = torch.device("cpu") if reference is None else reference.device
            data = copy.copy(x)
            data.x = self._features(x.x, int(x.num_nodes or 0), device, x.batch)
            return data
        if not isinstance(x, Tensor):
            raise DTypeError("x as a tensor or a PyG Data", type(x).__name__, "pass node features [N, D] or data")
        return self._features(x, x.size(0), x.device, batch if isinstance(batch, Tensor) else None)

    def _features(self, x: Tensor | None, num_nodes: int, device: torch.device, batch: Tensor | None) -> Tensor:
        floating = x is not None and x.is_floating_point()
        dtype = x.dtype if x is not None and floating else torch.get_default_dtype()
        draw = self._draw if self.resample else self._fixed_features
        features = draw(num_nodes, device, dtype, batch)
        if self.mode == "replace" or x is None:
            return features
        if not floating or x.dim() != 2:
            raise DTypeError(
                "floating-point features [N, D] to concatenate to",
                f"{x.dtype} of shape {list(x.shape)}",
                "embed categories first, or use mode='replace'",
            )
        check_dense("x", x)
        return torch.cat([x, features], dim=-1)

    def _draw(self, num_nodes: int, device: torch.device, dtype: torch.dtype, batch: Tensor | None) -> Tensor:
        del batch  # fresh features do not depend on the graph
        source = device if self.generator is None else self.generator.device
        return self._sample(num_nodes, self.generator, source).to(device, dtype)

    def _fixed_features(self, num_nodes: int, device: torch.device, dtype: torch.dtype, batch: Tensor | None) -> Tensor:
        """Fixed features: row j of a table for node j of each graph. The table is drawn from the seed in blocks."""
        position = positions_in_graphs(Segments.from_batch(batch, num_nodes), device)
        rows = int(position.max()) + 1 if num_nodes else 0
        generator, blocks = torch.Generator(), []
        for block in range(math.ceil(rows / _HELD_BLOCK)):
            generator.manual_seed(int(self.held_seed) + block)
            with torch.random.fork_rng(devices=[]):  # for samplers without the argument generator
                torch.manual_seed(int(self.held_seed) + block)
                blocks.append(self._sample(_HELD_BLOCK, generator, torch.device("cpu")))
        table = torch.cat(blocks) if blocks else torch.empty(0, self.channels)
        return table.to(device, dtype).index_select(0, position)

    def _sample(self, num_nodes: int, generator: torch.Generator | None, device: torch.device) -> Tensor:
        sampler = DISTRIBUTIONS[self.distribution] if isinstance(self.distribution, str) else self.distribution
        options: dict[str, Any] = {"dtype": torch.get_default_dtype(), "device": device}
        drawn = sampler(num_nodes, self.channels, **_accepted(sampler, options, generator))
        if not isinstance(drawn, Tensor) or tuple(drawn.shape) != (num_nodes, self.channels):
            got = f"shape {list(drawn.shape)}" if isinstance(drawn, Tensor) else type(drawn).__name__
            raise ShapeError(
                f"the sampler to return features [{num_nodes}, {self.channels}]", got, "return one row per node"
            )
        return drawn

    def extra_repr(self) -> str:
        return f"channels={self.channels}, mode={self.mode!r}, samples={self.samples}, resample={self.resample}"


def _accepted(sampler: Sampler, options: dict[str, Any], generator: torch.Generator | None) -> dict[str, Any]:
    """The options that the sampler accepts (all, if its signature is unknown). ``generator=None`` is passed only if the
    sampler requires the argument."""
    options = options if generator is None else options | {"generator": generator}
    try:
        parameters = inspect.signature(sampler).parameters
    except ValueError:  # a built-in such as torch.randn
        return options
    if "generator" in parameters and parameters["generator"].default is inspect.Parameter.empty:
        options = options | {"generator": generator}
    if any(p.kind is inspect.Parameter.VAR_KEYWORD for p in parameters.values()):
        return options
    return {name: value for name, value in options.items() if name in parameters}


def _draw_seed(generator: torch.Generator | None) -> Tensor:
    device = "cpu" if generator is None else generator.device
    return torch.randint(2**31, (), generator=generator, device=device).cpu()


def positions_in_graphs(segments: Segments, device: torch.device) -> Tensor:
    """The index of each node within its graph, ``[N]``; reads no value, so it can be captured."""
    position = torch.arange(segments.num_nodes, device=device)
    if segments.batch is None or segments.counts is None:
        return position
    first = segments.counts.cumsum(0) - segments.counts
    if segments.in_order:
        return position - first.index_select(0, segments.batch)
    in_order, order = torch.sort(segments.batch, stable=True)
    return torch.empty_like(position).index_copy(0, order, position - first.index_select(0, in_order))


def _weighted_sum(total: Any, more: Any, weight: float) -> Any:
    """``total + weight * more`` for tensors in tuples, lists and dicts; other outputs of the model are kept."""
    if isinstance(total, Tensor):
        return total + weight * more if total.is_floating_point() or total.is_complex() else total
    if isinstance(total, dict):
        return {key: _weighted_sum(value, more[key], weight) for key, value in total.items()}
    if isinstance(total, tuple) and hasattr(total, "_fields"):
        return type(total)(*(_weighted_sum(a, b, weight) for a, b in zip(total, more, strict=True)))
    if type(total) in (tuple, list):
        return type(total)(_weighted_sum(a, b, weight) for a, b in zip(total, more, strict=True))
    return total
