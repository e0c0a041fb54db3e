"""Input features to hidden features: embeddings of categories, linear maps of numbers."""

import torch
from torch import Tensor, nn
from torch_geometric.nn.inits import reset

from lrga.errors import DataError, DTypeError, ShapeError
from lrga.kernels.checks import check_count, check_dense, may_read_values
from lrga.kernels.embedding import embed
from lrga.nn.linear import apply_linear, is_plain, weight_of

INTEGERS = (torch.int64, torch.int32, torch.int16, torch.int8, torch.uint8)


class CategoryEncoder(nn.Module):
    """An embedding of integer categories, ``[N]`` or ``[N, 1]`` to ``[N, out_channels]``.

    Args:
        num_categories: The categories are ``0 … num_categories - 1``.
        out_channels: Width of the embedding.
        name: What errors call the input.

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
        """Draws the embedding anew."""
        reset(self.embedding)

    def forward(self, x: Tensor) -> Tensor:
        check_dense(self.name, x)
        if x.dim() == 2 and x.size(1) == 1:
            x = x.squeeze(1)
        if x.dim() != 1:
            raise ShapeError(
                f"{self.name} of shape [N] or [N, 1], one category each",
                f"shape {list(x.shape)}",
                "build the model with a linear encoder for features of several columns",
            )
        if x.dtype not in INTEGERS:
            raise DTypeError(
                f"integer categories in {self.name}",
                str(x.dtype),
                "call .long(), or build the model with a linear encoder for real features",
            )
        if x.size(0) and may_read_values(x):
            low, high = int(x.min()), int(x.max())
            if low < 0 or high >= self.num_categories:
                raise DataError(
                    f"categories between 0 and {self.num_categories - 1} in {self.name}",
                    f"category {low if low < 0 else high}",
                    "build the model with as many categories as the data has",
                )
        table = self.embedding
        if not is_plain(table, nn.Embedding) or _has_options(table):
            return table(x.long())
        return embed(x.long(), table.weight)

    def ones(self, rows: int) -> Tensor:
        """The input that stands for absent features: category 1."""
        weight = weight_of(self.embedding)
        return torch.ones(rows, dtype=torch.int64, device=None if weight is None else weight.device)


class LinearEncoder(nn.Module):
    """A linear map of real features, ``[N, in_channels]`` (``[N]`` where that is 1) to ``[N, out_channels]``.

    Args:
        in_channels: Columns of the input.
        out_channels: Width of the result.
        name: What errors call the input.

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
        """Draws the map anew."""
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
        """The input that stands for absent features: ones."""
        weight = weight_of(self.lin)
        if weight is None:
            return torch.ones(rows, self.in_channels)
        return torch.ones(rows, self.in_channels, dtype=weight.dtype, device=weight.device)  # without a copy to the GPU


def _has_options(table: nn.Embedding) -> bool:
    """Whether somebody gave the embedding more to do than to look rows up."""
    return table.padding_idx is not None or table.max_norm is not None or table.scale_grad_by_freq or table.sparse


ENCODERS: dict[str, type[CategoryEncoder] | type[LinearEncoder]] = {
    "embedding": CategoryEncoder,
    "linear": LinearEncoder,
}
