"""Forward and backward of a module, and the sizes for measurements; works with any version of lrga."""

from collections.abc import Iterable
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import torch
from torch import Tensor, nn

LARGE = {"nodes": 576_289, "width": 256, "rank": 50}
SMALL = {"nodes": 14_384, "graphs": 128, "width": 60, "rank": 30}


class Pass:
    """Forward and backward of a module on one input, with a given gradient of its result."""

    def __init__(self, module: nn.Module, x: Tensor, arguments: Iterable[Any] = (), *, autocast: bool = False) -> None:
        self.module, self.x, self.arguments, self.autocast = module, x, tuple(arguments), autocast
        with torch.no_grad():
            shape = self.forward()
        self.upstream = torch.randn(shape.shape, generator=_draw(x.device), device=x.device).to(shape.dtype)

    def forward(self) -> Tensor:
        with self._context():
            return self.module(self.x, *self.arguments)

    def inference(self) -> Tensor:
        with torch.no_grad():
            return self.forward()

    def both(self) -> list[Tensor]:
        """The result and the gradients of x and of every parameter."""
        out = self.forward()
        return [out, *torch.autograd.grad(out, [self.x, *self.module.parameters()], self.upstream)]

    def _context(self) -> AbstractContextManager[Any]:
        return torch.autocast(self.x.device.type, torch.bfloat16) if self.autocast else nullcontext()


def _draw(device: torch.device) -> torch.Generator:
    return torch.Generator(device).manual_seed(1)


def use_tf32(allowed: bool) -> None:
    torch.backends.cuda.matmul.allow_tf32 = allowed


def features(nodes: int, width: int, device: str, dtype: torch.dtype = torch.float32) -> Tensor:
    x = torch.randn(nodes, width, generator=_draw(torch.device(device)), device=device)
    return x.to(dtype).requires_grad_()


def small_sizes(graphs: int = SMALL["graphs"], nodes: int = SMALL["nodes"]) -> list[int]:
    """Sizes of graphs of about 40 to 190 nodes, with ``nodes`` nodes in total."""
    sizes = torch.randint(40, 191, (graphs,), generator=torch.Generator().manual_seed(0)).tolist()
    step = 1 if sum(sizes) < nodes else -1
    for i in range(abs(nodes - sum(sizes))):
        sizes[i % graphs] += step
    return sizes
