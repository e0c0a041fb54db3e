"""Encoders of input features: embeddings of categories, linear maps of numbers, a learned vector per node."""

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.autograd import Function
from torch_geometric.nn.inits import reset

from lrga.checks import check_count, check_dense, may_read_values
from lrga.errors import DataError, DTypeError, OptionError, ShapeError
from lrga.nn.linear import apply_linear, is_plain, weight_of
from lrga.ops._triton import differentiates_otherwise

INTEGERS = (torch.int64, torch.int32, torch.int16, torch.int8, torch.uint8)
MAX_CATEGORIES, MIN_ROWS = 256, 1024  # of tables whose gradient is a matrix product


class CategoryEncoder(nn.Module):
    """An embedding of integer categories, ``[N]`` or ``[N, 1]`` to ``[N, out_channels]``.

    Args:
        num_categories: The categories are ``0 … num_categories - 1``.
        out_channels: Width of the embedding.
        name: Name of the input in error messages.

    Example:
        >>> import torch
        >>> CategoryEncoder(28, 8)(torch.tensor([0, 5, 27])).shape
        torch.Size([3, 8])
    """

    def __init__(self, num_categories: int, out_channels: int, *, name: str = "x") -> None:
        super().__init__()
        check_count("num_categories", num_categories, minimum=1)
        self.num_categories, self.name = num_categories, name
        self.embedding = nn.Embedding(num_categories, out_channels)

    def reset_parameters(self) -> None:
        """Reinitialises the embedding."""
        reset(self.embedding)

    def forward(self, x: Tensor) -> Tensor:
        check_dense(self.name, x)
        if x.dim() == 2 and x.size(1) == 1:
            x = x.squeeze(1)
        if x.dim() != 1:
            raise ShapeError(
                f"{self.name} of shape [N] or [N, 1], one category each",
                f"shape {list(x.shape)}",
                "for several columns, build the model with encoder='linear' or encoder='embeddings'",
            )
        _check_integers(self.name, x)
        if x.size(0) and may_read_values(x):
            low, high = int(x.min()), int(x.max())
            if low < 0 or high >= self.num_categories:
                raise DataError(
                    f"categories between 0 and {self.num_categories - 1} in {self.name}",
                    f"category {low if low < 0 else high}",
                    "build the model with as many categories as the data has",
                )
        return look_up(self.embedding, x.long())

    def ones(self, rows: int) -> Tensor:
        """The input used if features are absent: category 1."""
        weight = weight_of(self.embedding)
        return torch.ones(rows, dtype=torch.int64, device=None if weight is None else weight.device)


class CategoriesEncoder(nn.Module):
    """The sum of embeddings of several columns of categories, ``[N, C]`` to ``[N, out_channels]``.

    Args:
        sizes: The categories of column c are ``0 … sizes[c] - 1``.
        out_channels: Width of the embeddings.
        name: Name of the input in error messages.

    Example:
        >>> import torch
        >>> CategoriesEncoder([119, 5, 12], 8)(torch.tensor([[6, 0, 3], [7, 4, 11]])).shape
        torch.Size([2, 8])
    """

    offset: Tensor

    def __init__(self, sizes: Sequence[int], out_channels: int, *, name: str = "x") -> None:
        super().__init__()
        if not isinstance(sizes, Sequence) or not sizes:
            raise OptionError(
                f"the number of categories of each column of {name}", repr(sizes), "pass for example (119, 5)"
            )
        for size in sizes:
            check_count("the number of categories", size, minimum=1)
        self.sizes, self.name = tuple(sizes), name
        # One table for all columns; the categories of column c begin at offset[c]: one lookup, one gradient.
        self.embedding = nn.Embedding(sum(sizes), out_channels)
        first = torch.tensor([0, *sizes[:-1]]).cumsum(0)
        self.register_buffer("offset", first, persistent=False)

    def reset_parameters(self) -> None:
        """Reinitialises the embeddings."""
        reset(self.embedding)

    def forward(self, x: Tensor) -> Tensor:
        check_dense(self.name, x)
        if x.dim() != 2 or x.size(1) != len(self.sizes):
            raise ShapeError(
                f"{self.name} of shape [N, {len(self.sizes)}], one category in each column",
                f"shape {list(x.shape)}",
                "build the model with the number of categories of each column of the data",
            )
        _check_integers(self.name, x)
        if x.size(0) and may_read_values(x):
            for column, (low, high) in enumerate(zip(x.amin(0).tolist(), x.amax(0).tolist(), strict=True)):
                if low < 0 or high >= self.sizes[column]:
                    raise DataError(
                        f"categories between 0 and {self.sizes[column] - 1} in column {column} of {self.name}",
                        f"category {low if low < 0 else high}",
                        "build the model with as many categories as the data has",
                    )
        rows = look_up(self.embedding, (x.long() + self.offset).view(-1))
        return rows.view(x.size(0), len(self.sizes), rows.size(-1)).sum(1)

    def ones(self, rows: int) -> Tensor:
        """The input used if features are absent: category 0 in each column."""
        return torch.zeros(rows, len(self.sizes), dtype=torch.int64, device=self.offset.device)


class LinearEncoder(nn.Module):
    """A linear map of real features, ``[N, in_channels]`` (or ``[N]`` if it is 1) to ``[N, out_channels]``.

    Args:
        in_channels: Columns of the input.
        out_channels: Width of the result.
        name: Name of the input in error messages.

    Example:
        >>> import torch
        >>> LinearEncoder(1, 8, name="edge_attr")(torch.rand(5)).shape
        torch.Size([5, 8])
    """

    def __init__(self, in_channels: int, out_channels: int, *, name: str = "x") -> None:
        super().__init__()
        check_count("in_channels", in_channels, minimum=1)
        self.in_channels, self.name = in_channels, name
        self.lin = nn.Linear(in_channels, out_channels)

    def reset_parameters(self) -> None:
        """Reinitialises the linear map."""
        reset(self.lin)

    def forward(self, x: Tensor) -> Tensor:
        check_dense(self.name, x)
        if x.dim() == 1 and self.in_channels == 1:
            x = x.unsqueeze(1)
        if x.dim() != 2 or x.size(1) != self.in_channels:
            raise ShapeError(
                f"{self.name} of shape [N, {self.in_channels}]",
                f"shape {list(x.shape)}",
                "build the model with as many channels as the data has",
            )
        if not x.is_floating_point():
            raise DTypeError(
                f"floating-point {self.name}",
                str(x.dtype),
                "call .float(), or build the model with an embedding for categories",
            )
        weight = weight_of(self.lin)
        return apply_linear(self.lin, x if weight is None else x.to(weight.dtype))

    def ones(self, rows: int) -> Tensor:
        """The input used if features are absent: ones."""
        weight = weight_of(self.lin)
        if weight is None:
            return torch.ones(rows, self.in_channels)
        return torch.ones(rows, self.in_channels, dtype=weight.dtype, device=weight.device)  # made on the device


def look_up(table: nn.Embedding, index: Tensor) -> Tensor:
    """``table(index)`` for ``index`` ``[N]``, with a faster gradient if many rows have few categories on a GPU.

    PyTorch's gradient sorts the indices on a GPU, in a dozen kernels. A product with their one-hot matrix takes five.

    Example:
        >>> look_up(nn.Embedding(3, 8), torch.tensor([0, 2])).shape
        torch.Size([2, 8])
    """
    small = index.is_cuda and index.size(0) >= MIN_ROWS and table.num_embeddings <= MAX_CATEGORIES
    traced = torch.compiler.is_compiling() or torch.jit.is_tracing() or differentiates_otherwise()
    if not small or traced or not _is_usual(table):
        rows: Tensor = table(index)
        return rows
    return _LookUp.apply(index, table.weight)


class _LookUp(Function):
    """Rows of a table; the gradient can be differentiated again."""

    @staticmethod
    def forward(ctx: Any, index: Tensor, weight: Tensor) -> Tensor:
        ctx.save_for_backward(index)
        ctx.categories = weight.size(0)
        return nn.functional.embedding(index, weight)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[None, Tensor]:
        (index,), (grad,) = ctx.saved_tensors, grads
        with torch.autocast(grad.device.type, enabled=False):
            one_hot = index == torch.arange(ctx.categories, device=index.device).unsqueeze(1)
            return None, one_hot.to(grad.dtype) @ grad


def _is_usual(table: nn.Embedding) -> bool:
    options = table.padding_idx is not None or table.max_norm is not None or table.scale_grad_by_freq or table.sparse
    return is_plain(table, nn.Embedding) and not options


def _check_integers(name: str, x: Tensor) -> None:
    if x.dtype not in INTEGERS:
        raise DTypeError(
            f"integer categories in {name}",
            str(x.dtype),
            "call .long(), or build the model with a linear encoder for real features",
        )


ENCODERS: dict[str, Any] = {
    "embedding": CategoryEncoder,
    "embeddings": CategoriesEncoder,
    "linear": LinearEncoder,
}


class NodeEmbedding(nn.Embedding):
    """:class:`torch.nn.Embedding` whose row i belongs to node i of the training graph.

    If the graph is partitioned between processes, these rows are partitioned too: see
    :func:`~lrga.distributed.partition_model`.

    Example:
        >>> NodeEmbedding(5, 8).weight.shape
        torch.Size([5, 8])
    """


def all_rows(embedding: nn.Embedding) -> Tensor:
    """The vectors of all nodes, ``[N, D]``, by a call of the module.

    Example:
        >>> all_rows(NodeEmbedding(5, 8)).shape
        torch.Size([5, 8])
    """
    if type(embedding).forward is nn.Embedding.forward and is_plain(embedding, type(embedding)):
        return embedding.weight
    rows: Tensor = embedding(torch.arange(embedding.num_embeddings, device=embedding.weight.device))
    return rows
