"""Whether a run can be trained in captured steps, and if not, why."""

import inspect
from typing import TYPE_CHECKING

import torch
from torch import nn

from lrga.errors import LRGAError
from lrga.training.capture.engine import CHECK_EVERY, Engine

if TYPE_CHECKING:
    from lrga.training.trainer import Trainer


def start_engine(trainer: "Trainer") -> Engine | None:
    """The engine of a trainer, its steps recorded; ``None`` where the plain loop trains, and everybody is told why."""
    reason = why_plain(trainer)
    engine: Engine | None = None
    if reason is None:
        try:
            engine = trainer.problem.make_engine(trainer)
            engine.prepare()
            reason = engine.why_differs()
        except (RuntimeError, LRGAError, NotImplementedError, AssertionError) as error:
            # Whatever cannot be recorded the plain loop can do; what is wrong in itself fails there too.
            reason = f"the step cannot be captured: {_first_line(error)}"
    if reason is not None:
        if trainer.device.type == "cuda":
            torch.cuda.synchronize(trainer.device)
        if trainer.choice == "captured" or trainer.device.type == "cuda":
            trainer.listener.noted(f"trains in the plain loop: {reason}")
        trainer.checkpointer.note(f"trains in the plain loop: {reason}", {"engine": "plain", "why_plain": reason})
        return None
    assert engine is not None
    trainer.guard.every = CHECK_EVERY
    trainer.checkpointer.note(f"trains in {engine.describe()}", {"engine": "captured"})
    return engine


def why_plain(trainer: "Trainer") -> str | None:
    """Why the plain loop must train, as far as that can be seen without trying; ``None`` if it need not."""
    if trainer.choice == "auto" and trainer.device.type != "cuda":
        return "there is no GPU"
    if isinstance(trainer.model, nn.parallel.DistributedDataParallel):
        return "the model is spread over several processes"
    for name, module in trainer.model.named_modules():
        source = getattr(module, "generator", None)
        if isinstance(source, torch.Generator) and source.device.type != trainer.device.type:
            return f"{name or 'the model'} draws random numbers on the {source.device.type.upper()}"
    return trainer.problem.why_not_captured()


def _first_line(error: BaseException) -> str:
    lines = str(error).strip().splitlines()
    return f"{type(error).__name__}: {lines[0] if lines else inspect.getdoc(error) or ''}"[:200]
