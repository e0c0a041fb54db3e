"""Whether a test fits into memory, asked before it starts."""

import os
from collections.abc import Callable
from pathlib import Path

import torch

from lrga.errors import OptionError

_GIB = 1024**3
_UNKNOWN = 8 * _GIB  # where the system does not say: what a small machine has


def available_memory(device: torch.device | str = "cpu") -> int:
    """Bytes that a new allocation on the device may hope for."""
    device = torch.device(device)
    if device.type == "cuda":
        return int(torch.cuda.mem_get_info(device)[0])
    bounds = [b for b in (_from_meminfo(), _from_cgroup(), _from_sysconf()) if b is not None]
    return min(bounds) if bounds else _UNKNOWN


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


def _from_meminfo() -> int | None:
    path = Path("/proc/meminfo")
    if not path.exists():
        return None
    for line in path.read_text().splitlines():
        if line.startswith("MemAvailable:"):
            return int(line.split()[1]) * 1024
    return None


def _from_cgroup() -> int | None:
    """What a container may still take."""
    limit, used = Path("/sys/fs/cgroup/memory.max"), Path("/sys/fs/cgroup/memory.current")
    if not (limit.exists() and used.exists()):
        return None
    text = limit.read_text().strip()
    return None if text == "max" else max(int(text) - int(used.read_text()), 0)


def _from_sysconf() -> int | None:
    names = getattr(os, "sysconf_names", {})
    if "SC_PHYS_PAGES" not in names or "SC_PAGE_SIZE" not in names:
        return None
    return int(os.sysconf("SC_PHYS_PAGES")) * int(os.sysconf("SC_PAGE_SIZE"))
