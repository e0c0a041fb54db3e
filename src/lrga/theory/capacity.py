"""Whether a test fits into memory, asked before it starts."""

from collections.abc import Callable

import torch

from lrga.errors import OptionError
from lrga.io import limits

_GIB = 1024**3


def available_memory(device: torch.device | str = "cpu") -> int:
    """Bytes that a new allocation on the device may hope for."""
    device = torch.device(device)
    if device.type == "cuda":
        return int(torch.cuda.mem_get_info(device)[0])
    return limits.available_memory()


def check_fits(
    num_nodes: int,
    need: Callable[[int], int],
    *,
    what: str,
    device: torch.device | str = "cpu",
    memory_limit: int | None = None,
) -> None:
    """Raises when ``need(num_nodes)`` bytes are not there, naming the largest number of nodes for which they are."""
    limit = available_memory(device) if memory_limit is None else memory_limit
    if need(num_nodes) <= limit:
        return
    low, high = 0, num_nodes  # need(low) fits, need(high) does not
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if need(middle) <= limit else (low, middle)
    raise OptionError(
        f"{what} to fit into {limit / _GIB:.2f} GiB, which holds up to {low} nodes",
        f"{num_nodes} nodes, which need {need(num_nodes) / _GIB:.2f} GiB",
        "use smaller graphs or fewer at a time, free memory, or (for tests on pairs) use the test '1-wl'",
    )
