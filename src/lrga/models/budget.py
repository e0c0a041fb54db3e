"""The width of a network for a given number of parameters."""

import math
from collections.abc import Callable

import torch
from torch import nn

from lrga.checks import check_choice, check_count
from lrga.errors import LRGAError, OptionError
from lrga.io.limits import check_memory

LAYER_BYTES = 4 << 20
PREFERENCES = ("nearest", "below")


def count_parameters(module: nn.Module) -> int:
    """Number of parameters of a module; shared parameters count once.

    Example:
        >>> from torch import nn
        >>> count_parameters(nn.Linear(3, 2))
        8
    """
    return sum(parameter.numel() for parameter in module.parameters())


def count_of(build: Callable[[], nn.Module]) -> int:
    """Number of parameters of the network that ``build`` returns, without allocating them (on torch's meta device)."""
    with torch.device("meta"):
        return count_parameters(build())


def check_layers(layers: int) -> None:
    """Raises an error if ``layers`` layers of 4 MB each exceed the memory, before time is spent on building them."""
    what = f"a network of {layers:,} layers"
    check_memory(layers * LAYER_BYTES, what, remedy="use fewer layers", error=OptionError)


def checked_size(build: Callable[[], nn.Module], layers: int) -> int:
    """Number of parameters of the network that ``build`` returns; an error if the network does not fit into memory.

    The estimate counts weights, gradients, the two moments of Adam, and 4 MB for each of ``layers`` layers. Nothing is
    allocated before the check.

    Example:
        >>> from torch import nn
        >>> checked_size(lambda: nn.Linear(3, 2), 1)
        8
        >>> checked_size(lambda: nn.Linear(10**8, 10**8), 1)
        Traceback (most recent call last):
        ...
        lrga.errors.OptionError: expected a network of 10,000,000,100,000,000 parameters to fit into memory (...
    """
    check_layers(layers)
    try:
        count = count_of(build)
    except LRGAError:
        raise
    except (RuntimeError, OverflowError) as error:  # more elements than an int64 can count
        got = (str(error).splitlines() or [""])[0]
        raise OptionError("a network that can be built", got, "choose a smaller width") from error
    what = f"a network of {count:,} parameters"
    check_memory(4 * 4 * count, what, remedy="choose a smaller network", error=OptionError)
    return count


def solve_width(
    target_parameters: int,
    build: Callable[[int], nn.Module],
    *,
    multiple_of: int = 1,
    prefer: str = "nearest",
    largest: int = 1 << 16,
) -> int:
    """The width at which a network has about ``target_parameters`` parameters.

    Args:
        target_parameters: The budget.
        build: Builds the network for a given width. It is called on the meta device, where nothing is allocated. The
            number of parameters must grow with the width.
        multiple_of: The width is a multiple of this, e.g. of the number of heads.
        prefer: ``"below"`` never exceeds the budget; ``"nearest"`` may exceed it if the result is closer. A budget that
            the smallest width exceeds (for ``"nearest"``: more than twice) is an error.
        largest: Widths above this are not tried.

    Example:
        >>> from torch import nn
        >>> solve_width(10_000, lambda width: nn.Linear(width, width))
        99
    """
    check_count("target_parameters", target_parameters, minimum=1)
    check_count("multiple_of", multiple_of, minimum=1)
    check_count("largest", largest, minimum=multiple_of)
    check_choice("prefer", prefer, PREFERENCES)
    counts: dict[int, int] = {}

    def count(steps: int) -> int:
        if steps not in counts:
            counts[steps] = count_of(lambda: build(steps * multiple_of))
        return counts[steps]

    top = largest // multiple_of
    low, high = 1, min(max(2, 64 // multiple_of), top)
    if count(low) > target_parameters:
        if prefer == "nearest" and count(low) <= 2 * target_parameters:
            return multiple_of
        raise OptionError(
            f"a budget of at least {count(low):,} parameters, the size of the smallest width {multiple_of}",
            f"{target_parameters:,}",
            "raise the budget or use fewer layers",
        )
    while high < top and count(high) <= target_parameters:
        low, high = high, min(2 * high, top)
    if count(high) < target_parameters:
        raise OptionError(
            f"a budget that a width of at most {largest} can reach",
            f"{target_parameters:,} parameters, more than width {high * multiple_of} has ({count(high):,})",
            "lower the budget, use more layers or raise largest",
        )
    if count(high) == target_parameters:
        return high * multiple_of
    halve = False
    while high - low > 1:  # count(low) <= target < count(high)
        # Parameters grow with the square of the width, so interpolate between square roots; every other step bisects.
        roots = [math.sqrt(number) for number in (count(low), target_parameters, count(high))]
        share = 0.5 if halve else (roots[1] - roots[0]) / (roots[2] - roots[0])
        middle, halve = min(max(low + round(share * (high - low)), low + 1), high - 1), not halve
        low, high = (middle, high) if count(middle) <= target_parameters else (low, middle)
    if prefer == "below" or target_parameters - count(low) <= count(high) - target_parameters:
        return low * multiple_of
    return high * multiple_of
