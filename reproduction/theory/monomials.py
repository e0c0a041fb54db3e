"""Proposition 3 as an experiment: a two-layer network learns monomials, and its error falls with the samples."""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F

from lrga.nn.heads import MLP


@dataclass(frozen=True, kw_only=True)
class MonomialConfig:
    """A two-layer network learns x^δ, |x_i| ≤ 1 uniform, from different numbers of samples."""

    seeds: tuple[int, ...] = (0, 1)
    monomials: tuple[tuple[int, ...], ...] = ((1, 1), (2, 1), (2, 2), (1, 1, 1))
    samples: tuple[int, ...] = (16, 64, 256, 1024, 4096)
    test_samples: int = 2000
    width: int = 128
    steps: int = 1200
    batch_size: int = 128
    lr: float = 1e-2


def name_of(delta: tuple[int, ...]) -> str:
    """The name of a monomial.

    Example:
        >>> name_of((2, 1, 0))
        'x²y'
    """
    powers = {0: None, 1: "", 2: "²", 3: "³", 4: "⁴"}
    return "".join(f"{letter}{powers[p]}" for letter, p in zip("xyzw", delta, strict=False) if powers[p] is not None)


def learn_monomials(config: MonomialConfig, say: Callable[[str], None]) -> dict[str, Any]:
    """Root mean square test errors, relative to the standard deviation of the monomial."""
    curves: dict[str, list[list[float]]] = {}
    for delta in config.monomials:
        say(f"learning {name_of(delta)}")
        curves[name_of(delta)] = [[_monomial(config, delta, n, s) for n in config.samples] for s in config.seeds]
    return {"x": list(config.samples), "curves": curves}


def _monomial(config: MonomialConfig, delta: tuple[int, ...], count: int, seed: int) -> float:
    torch.manual_seed(seed)
    exponents = torch.tensor(delta)
    x, test = (2 * torch.rand(n, len(delta)) - 1 for n in (count, config.test_samples))
    y, target = x.pow(exponents).prod(dim=1), test.pow(exponents).prod(dim=1)
    # The moments of a power of a uniform variable are known, so the scale does not depend on the samples.
    second, first = (math.prod(1 / (k * p + 1) if (k * p) % 2 == 0 else 0.0 for p in delta) for k in (2, 1))
    scale = math.sqrt(second - first**2)
    network = MLP([len(delta), config.width, 1])
    optimizer = torch.optim.Adam(network.parameters(), lr=config.lr, fused=True)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, config.steps)
    for _ in range(config.steps):
        rows = torch.randint(count, (config.batch_size,))
        loss = F.mse_loss(network(x[rows]).squeeze(1), y[rows] / scale)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        schedule.step()
    with torch.no_grad():
        return float((network(test).squeeze(1) - target / scale).square().mean().sqrt())
