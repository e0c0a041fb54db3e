"""Memory between pages that nobody may touch: one number too far, read or written, ends the process.

Run by test_bounds.py as a script, ``python guarded_memory.py front|back|broken``: kernels in Triton's interpreter with
every tensor at the very beginning (or end) of its pages. ``broken`` is a kernel that reads one number too far.
"""

import ctypes
import mmap
import os
import sys
from unittest.mock import patch

if __name__ == "__main__":  # pytest imports this module too, to look for doctests
    os.environ["TRITON_INTERPRET"] = "1"

import torch
import triton
import triton.language as tl

from lrga.ops.attention.batched import fused_attention
from lrga.ops.attention.segments import Segments, Tiles
from lrga.ops.gat import definition as gat
from lrga.ops.gated import gpu as gated_gpu
from lrga.ops.gated.definition import gated_edges_fused
from lrga.ops.neighbors import reduce
from lrga.ops.neighbors.edges import EdgeLayout
from lrga.ops.norm import gpu as norm_ops
from lrga.ops.norm.definition import BatchNormState
from tests.helpers.kernels import padded

PAGE = mmap.PAGESIZE
NO_ACCESS, READ_AND_WRITE, PRIVATE_ANONYMOUS = 0, 3, 0x22
libc = ctypes.CDLL(None)
libc.mmap.restype = ctypes.c_void_p
libc.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, *[ctypes.c_int] * 3, ctypes.c_long]
libc.mprotect.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]
plain_empty = torch.empty
kept = []


class Guarded:
    """Makes tensors whose first or last number lies at the guarded edge of their pages."""

    def __init__(self, side):
        self.front = side == "front"

    def empty(self, shape, dtype):
        size = plain_empty(0, dtype=dtype).element_size() * torch.Size(shape).numel()
        if not size:
            return plain_empty(shape, dtype=dtype)
        pages = -(-size // PAGE)
        start = libc.mmap(None, (pages + 2) * PAGE, READ_AND_WRITE, PRIVATE_ANONYMOUS, -1, 0)
        for guard in (start, start + (pages + 1) * PAGE):
            assert libc.mprotect(guard, PAGE, NO_ACCESS) == 0
        place = (ctypes.c_char * size).from_address(start + PAGE + (0 if self.front else pages * PAGE - size))
        kept.append(place)
        return torch.frombuffer(place, dtype=dtype).view(shape)

    def copy(self, tensor, *, learned=False):
        return self.empty(tensor.shape, tensor.dtype).copy_(tensor).requires_grad_(learned)

    def __enter__(self):
        """What operators allocate themselves is guarded, too."""

        def sizes(shape):
            return tuple(shape[0]) if len(shape) == 1 and not isinstance(shape[0], int) else shape

        self.before = torch.empty, torch.empty_like, torch.Tensor.new_empty
        torch.empty = lambda *shape, dtype=None, **_: self.empty(sizes(shape), dtype or torch.float32)
        torch.empty_like = lambda t, dtype=None, **_: self.empty(tuple(t.shape), dtype or t.dtype)
        torch.Tensor.new_empty = lambda t, *shape, dtype=None, **_: self.empty(sizes(shape), dtype or t.dtype)

    def __exit__(self, *error):
        torch.empty, torch.empty_like, torch.Tensor.new_empty = self.before


@triton.jit
def too_far(x, y, LENGTH: tl.constexpr):
    tl.store(y, tl.load(x + LENGTH))


def over_edges(memory, nodes, heads, depth, edges):
    def noise(*shape):
        return memory.copy(torch.randn(shape), learned=True)

    layout = EdgeLayout.from_edge_index(torch.randint(0, nodes, (2, edges)), nodes)[0].map(memory.copy)
    x, vectors, flat = noise(nodes, heads, depth), [noise(heads, depth) for _ in range(2)], noise(nodes, heads * depth)
    chosen = [patch.object(module, "runs_on_gpu", lambda *tensors: True) for module in (gat, reduce)]
    with memory, chosen[0], chosen[1]:
        terms = gat.node_scores(x, *vectors)
        gat.attention_sum(x, *terms, layout, negative_slope=0.2).backward(noise(nodes, heads, depth))
        reduce.max_sources(flat, layout).backward(noise(nodes, heads * depth))
        factors = {"dst_scale": memory.copy(torch.rand(nodes)), "src_scale": memory.copy(torch.rand(nodes))}
        reduce.sum_sources(flat, layout, noise(edges), **factors).backward(noise(nodes, heads * depth))
        for after, training in (("relu", True), ("elu", False)):
            state = BatchNormState(*(memory.copy(torch.ones(heads * depth)) for _ in range(4)), torch.tensor(0))
            y = norm_ops.batch_norm(flat, state, training=training, count=None, after=after, residual=flat)
            y.backward(noise(nodes, heads * depth))
        norm_ops.UnitRows.apply(flat, 1e-12).backward(noise(nodes, heads * depth))


def gated(memory, nodes, width, edges, spare):
    """Products by the library and by our kernel, whose last rows are padding."""
    layout = EdgeLayout.from_edge_index(torch.randint(0, nodes, (2, edges)), nodes)[0]
    layout = padded(layout, 1, spare, counted=True).map(memory.copy)
    shapes = [(edges + spare, width), (width, width), (width,), *[(nodes + 1, width)] * 3]
    for own in (False, True):
        gated_gpu.product_is_supported = lambda weight, own=own: own
        tensors = [memory.copy(torch.randn(shape), learned=True) for shape in shapes]
        norm = BatchNormState(*(memory.copy(torch.ones(width)) for _ in range(4)), None)
        with memory:
            mean, new = gated_edges_fused(*tensors, layout, norm=norm)
            torch.autograd.backward((mean, new), [memory.copy(torch.randn(t.shape)) for t in (mean, new)])


def attention(memory, sizes, channels, rank):
    batch = torch.repeat_interleave(torch.arange(len(sizes)), torch.tensor(sizes))
    tiles = Tiles.of(Segments.from_batch(batch, len(batch), len(sizes)), batch.device)
    x, weight, bias = (
        memory.copy(torch.randn(shape), learned=True)
        for shape in ((len(batch), channels), (4 * rank, channels), (4 * rank,))
    )
    with memory:
        y = fused_attention(x, weight, bias, tiles, heads=1, rank=rank, eps=1e-6, dtype=torch.float32)
        y.backward(memory.copy(torch.randn(y.shape)))


if __name__ == "__main__":
    memory = Guarded(sys.argv[1])
    if sys.argv[1] == "broken":
        too_far[(1,)](memory.copy(torch.ones(5)), memory.copy(torch.zeros(1)), LENGTH=5)
    torch.manual_seed(0)
    shapes = ((3, 8, 22, 5), (3, 1, 1, 0)) if memory.front else ((3, 3, 7, 5), (2, 5, 33, 4))
    for shape in shapes:
        over_edges(memory, *shape)
    gated(memory, 5, 20, 41, 34)
    attention(memory, (17, 0, 1), 13, 5)
    print("nothing out of bounds")
