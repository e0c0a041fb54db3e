"""Superpixels as the benchmark cut them: the SLIC of scikit-image before version 0.17.

The published superpixels have 70.57 (MNIST) and 117.63 (CIFAR10) regions an image; the ``slic`` of today's scikit-image
gives 67.5 and 109 under the same settings. Two things changed since: it now stretches every image to [0, 1], and it
derives the smallest and largest admitted region from the number of seeds that fit the image instead of from the number
of regions asked for. Neither can be switched off, so the two compiled steps of scikit-image, clustering and the
joining of stray pixels, are called here directly, around them the old rules.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np

from lrga.errors import DTypeError, MissingDependencyError, ShapeError

ITERATIONS = 10  # of the clustering; scikit-image's default, which the benchmark kept
MIN_SIZE, MAX_SIZE = 0.5, 3.0  # admitted size of a region over area / regions asked for; the defaults likewise


@dataclass(frozen=True)
class SlicSettings:
    """At most ``limit`` regions: ``limit + extra`` are asked for, then one less until the limit holds."""

    limit: int
    extra: int
    compactness: float


MNIST_SETTINGS = SlicSettings(limit=75, extra=20, compactness=0.25)
CIFAR10_SETTINGS = SlicSettings(limit=150, extra=50, compactness=10.0)


@cache
def _kernels() -> tuple[Callable[..., Any], ...]:
    """Clustering, joining of stray pixels, the grid of seeds, and the change to the colour space of distances."""
    remedy = 'pip install "lrga[superpixels]" (scikit-image 0.24 to 0.26 are known to work)'
    try:
        from skimage.color import rgb2lab
        from skimage.segmentation._slic import _enforce_label_connectivity_cython, _slic_cython
        from skimage.util import regular_grid
    except ImportError as error:
        raise MissingDependencyError(
            "scikit-image with its compiled SLIC, to cut images", str(error), remedy
        ) from error
    return _slic_cython, _enforce_label_connectivity_cython, regular_grid, rgb2lab


def slic_labels(image: np.ndarray, settings: SlicSettings) -> np.ndarray:
    """The region of every pixel.

    Args:
        image: ``[H, W]`` grey or ``[H, W, 3]`` red, green, blue; bytes.
        settings: :data:`MNIST_SETTINGS`, :data:`CIFAR10_SETTINGS` or other ones.

    Returns:
        ``[H, W]`` integers ``0 .. R - 1``, every number in use, ``R <= settings.limit``.

    Example:
        >>> image = np.zeros((28, 28), np.uint8)
        >>> image[8:20, 12:16] = 255
        >>> labels = slic_labels(image, MNIST_SETTINGS)
        >>> labels.shape, int(labels.max()) + 1 == len(np.unique(labels)) <= 75
        ((28, 28), True)
    """
    cluster, connect, regular_grid, to_lab = _kernels()
    volume = _as_volume(image, to_lab)
    area = image.shape[0] * image.shape[1]
    clustered: dict[tuple[tuple[int | None, int | None, int | None], ...], np.ndarray] = {}
    seen: set[tuple[object, int, int]] = set()
    for asked in range(settings.limit + settings.extra, 0, -1):
        slices = regular_grid(volume.shape[:3], asked)
        grid = tuple((s.start, s.stop, s.step) for s in slices)
        smallest, largest = int(MIN_SIZE * area / asked), int(MAX_SIZE * area / asked)
        # Neighbouring requests mostly lead to the same seeds and the same bounds, thus to the same regions.
        if (grid, smallest, largest) in seen:
            continue
        seen.add((grid, smallest, largest))
        if grid not in clustered:
            clustered[grid] = _cluster(volume, slices, settings.compactness, cluster)
        labels = np.asarray(connect(clustered[grid], smallest, largest, start_label=0))[0]
        used, labels = np.unique(labels, return_inverse=True)
        if len(used) <= settings.limit:
            return labels.reshape(image.shape[:2])
    return np.zeros(image.shape[:2], dtype=np.int64)  # reached only by a limit of 0: one region is the least there is


def _as_volume(image: np.ndarray, to_lab: Callable[..., Any]) -> np.ndarray:
    """``[1, H, W, C]`` in the colour space in which distances are measured."""
    if image.dtype != np.uint8:
        raise DTypeError("an image of bytes (uint8)", str(image.dtype), "convert the image to 0 .. 255")
    if image.ndim not in (2, 3) or (image.ndim == 3 and image.shape[2] != 3):
        raise ShapeError("an image of shape [H, W] or [H, W, 3]", f"shape {list(image.shape)}", "move the colours last")
    values = (image / 255.0).astype(np.float32).astype(np.float64)  # the recipe rounds to float32 on the way
    return values[None, :, :, None] if image.ndim == 2 else np.asarray(to_lab(values[None]))


def _cluster(
    volume: np.ndarray, slices: tuple[slice, ...], compactness: float, cluster: Callable[..., Any]
) -> np.ndarray:
    axes = np.meshgrid(*(np.arange(n) for n in volume.shape[:3]), indexing="ij")
    where = np.stack([axis[slices].ravel() for axis in axes], axis=1)
    seeds = np.zeros((len(where), 3 + volume.shape[3]))  # position, colour
    seeds[:, :3] = where
    step = max(float(s.step or 1) for s in slices)
    try:
        labels = cluster(
            np.ascontiguousarray(volume * (1.0 / compactness)),
            None,
            seeds,
            step,
            ITERATIONS,
            np.ones(3),
            False,
            ignore_color=False,
            start_label=0,
        )
    except TypeError as error:  # the compiled function is internal to scikit-image and may change
        raise MissingDependencyError(
            "the SLIC of scikit-image 0.24 to 0.26",
            f"one that is called differently ({error})",
            'pip install "scikit-image<0.27"',
        ) from error
    return np.ascontiguousarray(labels)
