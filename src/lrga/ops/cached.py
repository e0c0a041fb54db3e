"""Cached tensors that stay valid after inference mode and CUDA graph capture.

Tensors created under :class:`torch.inference_mode` cannot be used in a training step. Tensors created during CUDA graph
capture live in the graph's memory pool: each replay overwrites them, and they are freed with the graph.
"""

from collections.abc import Callable
from functools import wraps
from typing import Any, Generic, ParamSpec, TypeVar

import torch

P = ParamSpec("P")
T = TypeVar("T")


def outside_inference(function: Callable[P, T]) -> Callable[P, T]:
    """Wraps a function so that it returns normal tensors under :class:`torch.inference_mode` too.

    Example:
        >>> with torch.inference_mode():
        ...     torch.ones(1).is_inference(), outside_inference(torch.ones)(1).is_inference()
        (True, False)
    """

    @wraps(function)
    def in_normal_mode(*args: P.args, **kwargs: P.kwargs) -> T:
        if torch.compiler.is_compiling() or not torch.is_inference_mode_enabled():
            return function(*args, **kwargs)
        with torch.inference_mode(False), torch.no_grad():
            return function(*args, **kwargs)

    return in_normal_mode


def is_capturing() -> bool:
    """Whether the current computation is being captured in a CUDA graph."""
    return torch.cuda.is_initialized() and torch.cuda.is_current_stream_capturing()


class Cacheable:
    """Base of frozen dataclasses with :class:`cached` properties; records whether it was created during capture.

    Such an object is recomputed by each replay, together with its cached properties.
    """

    _is_recorded = False

    def __post_init__(self) -> None:
        if not torch.compiler.is_compiling() and is_capturing():
            object.__setattr__(self, "_is_recorded", True)


class cached(Generic[T]):
    """A property of a :class:`Cacheable` that is computed once, like :func:`functools.cached_property`.

    During the capture of a CUDA graph, only objects that are part of the capture cache it.
    """

    def __init__(self, function: Callable[[Any], T]) -> None:
        self.function, self.__doc__ = outside_inference(function), function.__doc__

    def __set_name__(self, owner: type, name: str) -> None:
        self.name = name

    def __get__(self, instance: Cacheable | None, owner: type) -> T:
        if instance is None:
            return self  # type: ignore[return-value]  # accessed on the class, for documentation
        value = self.function(instance)
        if instance._is_recorded or not is_capturing():
            vars(instance)[self.name] = value  # later accesses find it there, not this descriptor
        return value
