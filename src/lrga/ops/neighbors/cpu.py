"""The sums of :mod:`lrga.ops.neighbors.reduce` over an :class:`EdgeLayout` as sparse matrix products.

No message is written to memory: the product of a sparse matrix (rows are targets, columns sources) with the node
features reads the rows directly. Gradients are products with the transposed layout, so nothing is scattered
either. All functions are differentiable to any order: a differentiable gradient is computed by the
plain formula.
"""

import warnings
from typing import Any

import torch
from torch import Tensor
from torch.autograd import Function

from lrga.ops._triton import differentiates_otherwise
from lrga.ops.neighbors.edges import EdgeLayout

with warnings.catch_warnings():  # torch warns once per process that such matrices are in beta or unchecked
    warnings.filterwarnings("ignore", message="Sparse CSR tensor support is in beta")
    warnings.filterwarnings("ignore", message="Sparse invariant checks are implicitly disabled")
    with torch.device("cpu"):  # in case the user has set another default device
        _none = torch.tensor([], dtype=torch.int64)
        torch.sparse_csr_tensor(torch.tensor([0, 0]), _none, torch.tensor([]), (1, 1), check_invariants=False)


WORTH_A_THREAD = 1 << 15  # numbers; the threshold of torch for simple operations


def is_supported(*tensors: Tensor | None) -> bool:
    """Whether this version supports the tensors: float32 or float64 on a CPU, outside a compiler, and no
    derivatives other than backward."""
    if torch.compiler.is_compiling() or differentiates_otherwise():
        return False
    return all(t is None or (t.device.type == "cpu" and t.dtype in (torch.float32, torch.float64)) for t in tensors)


def product(ptr: Tensor, columns: Tensor, values: Tensor, dense: Tensor, reduce: str = "sum") -> Tensor:
    """The sparse matrix ``(ptr, columns, values)`` times ``dense``; rows without entries are zero.

    ``reduce`` is ``"sum"`` or ``"amax"``. A product too small to share among threads runs on one thread: waking
    threads would take longer, especially if other processes use the cores.
    """
    if columns.size(0) * dense.size(1) < WORTH_A_THREAD:
        rows = torch.repeat_interleave(ptr.diff(), output_size=columns.size(0))
        terms = values.unsqueeze(-1) * dense.index_select(0, columns)
        zeros = terms.new_zeros(ptr.size(0) - 1, terms.size(1))
        if reduce == "sum":
            return zeros.index_add_(0, rows, terms)
        return zeros.scatter_reduce_(0, rows.unsqueeze(-1).expand_as(terms), terms, reduce, include_self=False)
    size = (ptr.size(0) - 1, dense.size(0))
    matrix = torch.sparse_csr_tensor(ptr, columns, values, size, check_invariants=False)
    return torch.sparse.mm(matrix, dense.contiguous(), reduce)


def sum_sources(x: Tensor, layout: EdgeLayout, weight: Tensor | None = None) -> Tensor:
    """Σ over the edges j → i of ``weight[E]`` (or one) times ``x_j``: ``[N, D]`` to ``[N, D]``."""
    if weight is not None:
        dtype = torch.promote_types(x.dtype, weight.dtype)
        x, weight = x.to(dtype), weight.to(dtype)
    return _SumSources.apply(x, weight, layout)


def max_sources(x: Tensor, layout: EdgeLayout) -> Tensor:
    """The largest ``x_j`` over the edges j → i in each channel: ``[N, D]`` to ``[N, D]``."""
    return _MaxSources.apply(x, layout)


class _SumSources(Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor | None, layout: EdgeLayout) -> Tensor:
        ctx.layout = layout
        ctx.save_for_backward(None if weight is None else x, weight)
        values = layout.ones.to(x.dtype) if weight is None else weight.contiguous()
        return product(layout.in_ptr, layout.source, values, x)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, Tensor | None, None]:
        (grad,) = grads
        x, weight = ctx.saved_tensors
        layout: EdgeLayout = ctx.layout
        grad_x = grad_weight = None
        if ctx.needs_input_grad[0]:
            transposed = None if weight is None else weight.index_select(0, layout.out_order)
            grad_x = _SumSources.apply(grad, transposed, layout.transposed)
        if ctx.needs_input_grad[1]:
            grad_weight = dot_of_endpoints(x, grad, layout)
        return grad_x, grad_weight, None


def dot_of_endpoints(x: Tensor, y: Tensor, layout: EdgeLayout) -> Tensor:
    """⟨x of the source, y of the target⟩ for each edge: two ``[N, D]`` to ``[E]``."""
    if torch.is_grad_enabled():
        return (x.index_select(0, layout.source) * y.index_select(0, layout.target)).sum(-1)
    result = x.new_empty(layout.num_edges)
    for _, _, first, end in layout.chunks:
        at_source = x.index_select(0, layout.source[first:end])
        at_source *= y.index_select(0, layout.target[first:end])
        torch.sum(at_source, -1, out=result[first:end])
    return result


class _MaxSources(Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, layout: EdgeLayout) -> Tensor:
        highest = product(layout.in_ptr, layout.source, layout.ones.to(x.dtype), x, "amax")
        ctx.layout = layout
        ctx.save_for_backward(x, highest)
        return highest

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, None]:
        """Equal maxima share the gradient; if a neighbour is NaN, no value equals the maximum, and 0/0 is NaN."""
        (grad,) = grads
        x, highest = ctx.saved_tensors
        layout: EdgeLayout = ctx.layout
        if torch.is_grad_enabled():
            is_highest = (x.index_select(0, layout.source) == highest.index_select(0, layout.target)).to(x.dtype)
            ties = torch.zeros_like(highest).index_add(0, layout.target, is_highest).clamp(min=1)
            share = grad / ties.masked_fill(highest.isnan(), 0.0)
            messages = is_highest * share.index_select(0, layout.target)
            return torch.zeros_like(x).index_add(0, layout.source, messages), None
        grad_x = torch.zeros_like(x)
        for first_node, end_node, first, end in layout.chunks:
            source, target = layout.source[first:end], layout.target[first:end] - first_node
            is_highest = x.index_select(0, source)
            here = highest[first_node:end_node]
            is_highest = (is_highest == here.index_select(0, target)).to(x.dtype)
            ties = torch.zeros_like(here).index_add_(0, target, is_highest)
            is_highest *= (grad[first_node:end_node] / ties).index_select(0, target)
            grad_x.index_add_(0, source, is_highest)
        return grad_x, None
