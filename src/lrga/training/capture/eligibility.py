"""Whether a run can be trained in captured steps, and if not, why."""

import inspect
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _NormBase
from torch.nn.modules.dropout import _DropoutNd as _Dropout

from lrga.data.packed.padded import why_not_padded
from lrga.errors import LRGAError
from lrga.kernels.padding import padded
from lrga.kernels.segments import known_segments
from lrga.nn.norm import BatchNorm
from lrga.training.capture.engine import CHECK_EVERY, Engine
from lrga.training.determinism import random_states, restore_random_states
from lrga.training.evaluate import autocast, in_mode, run_model

if TYPE_CHECKING:
    from lrga.training.trainer import Trainer

_ROW_BY_ROW = (nn.LayerNorm, nn.GroupNorm)  # statistics within a row, where padding is never seen
_KNOWN = ("lrga.", "torch.nn.", "torch_geometric.nn.dense.linear.")
_Output = tuple[str, Tensor]  # the class of a module and what it returned


def start_engine(trainer: "Trainer") -> Engine | None:
    """The engine of a trainer, its steps recorded; ``None`` where the plain loop trains, and everybody is told why."""
    reason = why_plain(trainer)
    engine: Engine | None = None
    if reason is None:
        try:
            engine = Engine(trainer)
            engine.prepare()
            reason = _why_differs(trainer, engine)
        except (RuntimeError, LRGAError, NotImplementedError, AssertionError) as error:
            # Whatever cannot be recorded the plain loop can do; what is wrong in itself fails there too.
            reason = f"the step cannot be captured: {_first_line(error)}"
    if reason is not None:
        engine = None
        if trainer.device.type == "cuda":
            torch.cuda.synchronize(trainer.device)
        if trainer.choice == "captured" or trainer.device.type == "cuda":
            trainer.listener.noted(f"trains in the plain loop: {reason}")
        trainer.keeper.note(f"trains in the plain loop: {reason}", {"engine": "plain", "why_plain": reason})
        return None
    trainer.guard.every = CHECK_EVERY
    assert engine is not None
    sizes = ", ".join(f"{capacity.nodes:,} nodes and {capacity.edges:,} edges" for capacity in engine.train.capacities)
    trainer.keeper.note(f"trains in captured steps for {sizes}", {"engine": "captured"})
    return engine


def why_plain(trainer: "Trainer") -> str | None:
    """Why the plain loop must train, as far as that can be seen without trying; ``None`` if it need not."""
    if trainer.choice == "auto" and trainer.device.type != "cuda":
        return "there is no GPU"
    if isinstance(trainer.model, nn.parallel.DistributedDataParallel):
        return "the model is spread over several processes"
    for name, module in trainer.model.named_modules():
        if _sees_padding(module):
            return f"{name or 'the model'} ({type(module).__name__}) takes statistics over padding too"
        source = getattr(module, "generator", None)
        if isinstance(source, torch.Generator) and source.device.type != trainer.device.type:
            return f"{name or 'the model'} draws random numbers on the {source.device.type.upper()}"
    for split, graphs in trainer.splits.items():
        if (why := why_not_padded(graphs)) is not None:
            return f"{why} in {split}"
    return None


def _sees_padding(module: nn.Module) -> bool:
    """Whether a module normalises over rows without knowing which of them are real."""
    if type(module) is BatchNorm or isinstance(module, _ROW_BY_ROW):
        return False
    return isinstance(module, _NormBase) or type(module).__module__.startswith("torch_geometric.nn.norm")


def _why_differs(trainer: "Trainer", engine: Engine) -> str | None:
    """Compares a batch with much padding to the same without, for models with modules that are neither ours nor
    PyTorch's, in evaluation and in training, dropout aside.

    Such a module may well look at all rows at once. A model that is random beyond its dropout is not compared.
    """
    outside = [m for m in trainer.model.modules() if not f"{type(m).__module__}.".startswith(_KNOWN)]
    if not outside:
        return None
    size = min(len(trainer.splits["train"]), engine.train.batch_size)
    (work,) = engine.train.of(torch.arange(max(size // 2, min(size, 2))))
    usual = engine.train.capacities
    batch = engine.train.padded.gather(work.graphs, usual[-1] if work.capacity in usual else work.capacity)
    plain = trainer.splits["train"].batch(slice(0, int(batch.real["graph"])))
    tolerance = 1e-3 if trainer.options.precision == "float32" else 3e-2
    for training in (False, True):
        with _undone(trainer), in_mode(trainer.model, training=training), _seen(outside) as seen:
            expected, again = _outputs(trainer, plain, seen), _outputs(trainer, plain, seen)
            with padded(batch.capacities()), known_segments(batch.segments):
                got = _outputs(trainer, batch, seen)
        if _first_differing(again, expected, 1e-3) is None:
            culprit = _first_differing(got, expected, tolerance)
            if culprit is not None:
                return f"padding changes what {culprit} computes"
    return None


def _outputs(trainer: "Trainer", batch: Any, seen: list[_Output]) -> list[_Output]:
    """What each module that is watched gives for a batch, and the model."""
    seen.clear()
    with torch.no_grad(), autocast(trainer.device, trainer.options.precision):
        result = run_model(trainer.model, batch)
    return [*seen, (type(trainer.model).__name__, result)]


def _first_differing(got: list[_Output], expected: list[_Output], tolerance: float) -> str | None:
    """The first output whose first rows are not those expected; the last where there are more or fewer of them."""
    for (name, one), (_, other) in zip(got, expected, strict=False):
        if not _begins_with(one, other, tolerance):
            return name
    return None if len(got) == len(expected) else expected[-1][0]


def _begins_with(got: Tensor, expected: Tensor, tolerance: float) -> bool:
    if expected.dim() and got.dim():
        got = got[: expected.size(0)]
    if got.shape != expected.shape:
        return False
    scale = float(expected.abs().max()) if expected.numel() else 0.0
    return bool(((got - expected).abs() <= tolerance * max(scale, 1e-6)).all())


@contextmanager
def _seen(modules: list[nn.Module]) -> Iterator[list[_Output]]:
    """Notes the tensors that modules return while it lasts."""
    outputs: list[_Output] = []

    def note(module: nn.Module, _: Any, result: Any) -> None:
        if isinstance(result, Tensor) and result.is_floating_point():
            outputs.append((type(module).__name__, result.detach().clone()))

    with ExitStack() as stack:
        for module in modules:
            stack.callback(module.register_forward_hook(note).remove)
        yield outputs


@contextmanager
def _undone(trainer: "Trainer") -> Iterator[None]:
    """Without dropout while it lasts; buffers and random states come back."""
    rates = [
        (module, name, rate)
        for module in trainer.model.modules()
        for name in ("p", "dropout")
        if isinstance(rate := getattr(module, name, None), float)
        and (name == "dropout" or isinstance(module, _Dropout))
    ]
    buffers = [(buffer, buffer.clone()) for buffer in trainer.model.buffers()]
    random = random_states(trainer.device)
    try:
        for module, name, _ in rates:
            setattr(module, name, 0.0)
        yield
    finally:
        for module, name, rate in rates:
            setattr(module, name, rate)
        with torch.no_grad():
            for buffer, value in buffers:
                buffer.copy_(value)
        restore_random_states(random, trainer.device)


def _first_line(error: BaseException) -> str:
    lines = str(error).strip().splitlines()
    return f"{type(error).__name__}: {lines[0] if lines else inspect.getdoc(error) or ''}"[:200]
