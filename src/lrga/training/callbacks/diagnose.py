"""Where a non-finite number first appears."""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from lrga.data.packed.batch import PackedBatch
from lrga.training.evaluate import run_model


def first_non_finite(model: nn.Module, batch: PackedBatch) -> str | None:
    """Says where NaN or infinity first appears when ``model``, in the mode it is in, is run on ``batch``.

    ``None`` where data and all outputs are finite. What is random is drawn anew: set the random states before.
    """
    return _first_in_data(batch) or _first_layer(model, batch)


def _first_in_data(batch: PackedBatch) -> str | None:
    for name, values in (("x", batch.x), ("edge_attr", batch.edge_attr), ("y", batch.y)):
        if values is not None and values.is_floating_point() and not bool(values.isfinite().all()):
            return f"NaN or infinity in {name} of the batch"
    return None


def _first_layer(model: nn.Module, batch: PackedBatch) -> str | None:
    """The first module, innermost first, that returns something non-finite."""
    found: list[str] = []

    def watch(name: str) -> Callable[[nn.Module, Any, Any], None]:
        def hook(module: nn.Module, _: Any, output: Any) -> None:
            if not found and not _finite(output):
                bad = [key for key, value in module.named_parameters(recurse=False) if not _finite(value)]
                because = f", whose {' and '.join(bad)} already are" if bad else ""
                found.append(
                    f"NaN or infinity first in the output of layer {name!r} ({type(module).__name__}){because}"
                )

        return hook

    hooks = [module.register_forward_hook(watch(name)) for name, module in model.named_modules() if name]
    try:
        with torch.no_grad():
            output = run_model(model, batch)
    finally:
        for hook in hooks:
            hook.remove()
    if not found and not _finite(output):
        found.append("NaN or infinity in the output of the model, of none of its layers")
    return found[0] if found else None


def _finite(value: Any) -> bool:
    if isinstance(value, Tensor):
        return not value.is_floating_point() or bool(value.isfinite().all())
    if isinstance(value, tuple | list):
        return all(_finite(entry) for entry in value)
    return True
