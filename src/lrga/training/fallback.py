"""Whether a run can be trained in captured steps, and if not, why."""

import inspect
from typing import TYPE_CHECKING

import torch
from torch import nn
from torch.nn.modules.batchnorm import _NormBase

from lrga.data.fixed import why_not_fixed
from lrga.errors import LRGAError
from lrga.kernels.padding import padded
from lrga.kernels.segments import known_segments
from lrga.nn.norm import BatchNorm
from lrga.training.determinism import random_states, restore_random_states
from lrga.training.engine import CHECK_EVERY, Engine
from lrga.training.evaluate import autocast, in_mode, run_model

if TYPE_CHECKING:
    from lrga.training.trainer import Trainer

_ROW_BY_ROW = (nn.LayerNorm, nn.GroupNorm)  # statistics within a row, where padding is never seen
_KNOWN = ("lrga.", "torch.nn.", "torch_geometric.nn.dense.linear.")


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
        if (why := why_not_fixed(graphs)) is not None:
            return f"{why} in {split}"
    return None


def _sees_padding(module: nn.Module) -> bool:
    """Whether a module normalises over rows without knowing which of them are real."""
    if type(module) is BatchNorm or isinstance(module, _ROW_BY_ROW):
        return False
    return isinstance(module, _NormBase) or type(module).__module__.startswith("torch_geometric.nn.norm")


def _why_differs(trainer: "Trainer", engine: Engine) -> str | None:
    """Compares a batch with padding to the same without, for models with modules that are neither ours nor PyTorch's.

    Such a module may well look at all rows at once. A model that is random even in evaluation is not compared.
    """
    outside = [m for m in trainer.model.modules() if not f"{type(m).__module__}.".startswith(_KNOWN)]
    if not outside:
        return None
    work = engine.train.of(torch.arange(min(len(trainer.splits["train"]), engine.train.batch_size)))[0]
    batch = engine.train.fixed.gather(work.graphs, work.capacity)
    plain = trainer.splits["train"].batch(slice(0, int(batch.real["graph"])))
    random = random_states(trainer.device)
    with torch.no_grad(), in_mode(trainer.model, training=False), autocast(trainer.device, trainer.options.precision):
        expected, again = run_model(trainer.model, plain), run_model(trainer.model, plain)
        with padded(batch.capacities()), known_segments(batch.segments):
            got = run_model(trainer.model, batch)[: expected.size(0)]
    restore_random_states(random, trainer.device)
    if not torch.allclose(expected, again, rtol=1e-3):
        return None
    tolerance = 1e-4 if trainer.options.precision == "float32" else 3e-2
    scale = float(expected.abs().max()) if expected.numel() else 0.0
    if got.shape == expected.shape and bool(((got - expected).abs() <= tolerance * max(scale, 1e-6)).all()):
        return None
    return f"padding changes what {type(outside[0]).__name__} computes"


def _first_line(error: BaseException) -> str:
    lines = str(error).strip().splitlines()
    return f"{type(error).__name__}: {lines[0] if lines else inspect.getdoc(error) or ''}"[:200]
