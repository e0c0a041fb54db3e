"""The memory of a computation on a CPU, counted tensor by tensor."""

import weakref
from typing import Any

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves


class LiveBytes(TorchDispatchMode):
    """Counts the bytes of the tensors made inside the block and still alive, and their peak."""

    def __init__(self) -> None:
        super().__init__()
        self.now = self.peak = 0
        self._seen: set[int] = set()

    def __torch_dispatch__(
        self, function: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        out = function(*args, **(kwargs or {}))
        known = {leaf.untyped_storage()._cdata for leaf in tree_leaves((args, kwargs)) if _has_storage(leaf)}
        for leaf in tree_leaves(out):
            if _has_storage(leaf) and (storage := leaf.untyped_storage())._cdata not in known | self._seen:
                key, size = storage._cdata, storage.nbytes()
                self._seen.add(key)
                self.now += size
                self.peak = max(self.peak, self.now)
                weakref.finalize(storage, self._freed, key, size)
        return out

    def _freed(self, key: int, size: int) -> None:
        self._seen.discard(key)
        self.now -= size


def _has_storage(value: Any) -> bool:
    return isinstance(value, Tensor) and value.layout == torch.strided
