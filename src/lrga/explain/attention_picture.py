"""A figure of one graph's attention: the matrix and its singular values."""

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lrga.errors import OptionError
from lrga.explain.attention import Explanation, LayerFactors
from lrga.explain.style import SEQUENTIAL, WIDTH, colour, plain, save_figure

WHOLE = 1000  # up to this number of nodes every entry is drawn; above it, means over blocks
BLOCKS = 500
ORDERS = ("community", "degree", "prediction", "label", "number")


def order_of(found: Explanation, by: str) -> NDArray[np.int64]:
    """[N]: the nodes in the order in which they are drawn."""
    node_level = found.task.level == "node"
    keys: dict[str, Any] = {
        "community": found.community,
        "degree": -found.degree,
        "prediction": found.predictions if node_level else None,
        "label": found.labels if node_level else None,
        "number": np.zeros(found.num_nodes),
    }
    if keys.get(by) is None:
        known = ", ".join(name for name, values in keys.items() if values is not None)
        raise OptionError(f"an order among {known}", repr(by), "choose one of these")
    second = -found.degree if by == "community" else np.zeros(found.num_nodes)
    return np.asarray(np.lexsort((np.arange(found.num_nodes), second, keys[by])))


def shown_matrix(layer: LayerFactors, head: int, order: NDArray[np.int64]) -> NDArray[np.float64]:
    """The matrix in this order; above :data:`WHOLE` nodes, means over :data:`BLOCKS` × :data:`BLOCKS` blocks.

    The mean of a block of u·vᵀ is the product of the mean rows of u and v, so the whole matrix is never formed.
    """
    count = len(order)
    u, v = (factor[order, head].astype(np.float64) for factor in (layer.u, layer.v))
    if count > WHOLE:
        begin = np.arange(BLOCKS) * count // BLOCKS
        size = np.diff(np.append(begin, count))[:, None]
        u, v = np.add.reduceat(u, begin) / size, np.add.reduceat(v, begin) / size
    return np.asarray(u @ v.T)


def plot_attention(
    found: Explanation, path: str | Path, *, layer: int | None = None, head: int = 1, order: str = "community",
    log: bool = False, width: float = WIDTH, title: str = "",
) -> Path:  # fmt: skip
    """Draws the matrix of a layer and head, and its singular values.

    Args:
        found: The result of :func:`~lrga.explain.attention.explain`.
        path: File to write; its extension selects the format.
        layer: Layer, counted from 1; the last by default.
        head: Head, counted from 1.
        order: Order of rows and columns, one of :data:`ORDERS`.
        log: Whether colours are on a logarithmic scale.
        width: Width in inches.
        title: Title of the figure.
    """
    number = len(found.layers) if layer is None else layer
    if not 1 <= number <= len(found.layers):
        raise OptionError(f"a layer from 1 to {len(found.layers)}", str(layer), "choose one of these")
    factors = found.layers[number - 1]
    if not 1 <= head <= factors.heads:
        raise OptionError(f"a head from 1 to {factors.heads}", str(head), "choose one of these")
    matrix = shown_matrix(factors, head - 1, order_of(found, order))
    values = factors.spectrum(head - 1)

    def draw(figure: Any) -> None:
        left, right = figure.subplots(1, 2, width_ratios=(3, 2))
        shown = np.log10(np.where(matrix > 0, matrix, np.nan)) if log else matrix
        image = left.imshow(shown, cmap=SEQUENTIAL, interpolation="nearest", rasterized=True)
        left.grid(visible=False)
        binned = "" if len(matrix) == found.num_nodes else f", means over {len(matrix)} blocks"
        left.set(xlabel="attended to", ylabel="attends", title=f"layer {number}, head {head}, by {order}{binned}")
        figure.colorbar(image, ax=left, shrink=0.8, label="log₁₀ attention" if log else "attention")
        kept = values > 1e-9 * max(float(values[0]) if len(values) else 0.0, 1e-300)
        right.plot(np.arange(1, len(values) + 1)[kept], values[kept], marker="o", color=colour(0))
        right.set(xlabel="k", ylabel="singular value", title=f"rank spectrum, κ = {factors.rank}")
        if kept.any():
            right.set_yscale("log")
        if title:
            figure.suptitle(plain(title), fontsize=10)

    return save_figure(path, draw, width=width, height=0.48 * width)
