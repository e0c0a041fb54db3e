"""Where a non-finite number first appears."""

from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import Tensor, nn


def first_non_finite(model: nn.Module, run: Callable[[], Any], inputs: Mapping[str, Tensor | None]) -> str | None:
    """Says where NaN or infinity first appears when ``run`` calls ``model``, in the mode it is in.

    ``None`` where ``inputs`` (by name) and all outputs are finite. What is random is drawn anew: set the random states
    before.
    """
    for name, values in inputs.items():
        if values is not None and values.is_floating_point() and not bool(values.isfinite().all()):
            return f"NaN or infinity in {name}"
    return _first_layer(model, run)


def _first_layer(model: nn.Module, run: Callable[[], Any]) -> str | None:
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
            output = run()
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
