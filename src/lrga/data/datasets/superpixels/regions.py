"""Images cut into superpixels: how large each is, and the sums of its colours and positions, all exact integers.

Letters: I images, R superpixels of all of them, C colour channels.
"""

from dataclasses import dataclass
from pathlib import Path

import numpy as np

from lrga.data.datasets.prepared import read_arrays
from lrga.data.datasets.superpixels.slic import SlicSettings, slic_labels
from lrga.errors import DataError

ARRAYS = ("count", "size", "colour", "position")
PREPARED_ARRAYS = ("label", "count", "size", "pix_q", "pix_r", "pos_q", "pos_r")


@dataclass(frozen=True)
class Regions:
    """Superpixels of a list of images.

    Attributes:
        count: [I] superpixels of each image.
        size: [R] pixels of each superpixel.
        colour: [R, C] sum of its pixels' values 0..255.
        position: [R, 2] sum of its pixels' (row, column).
    """

    count: np.ndarray
    size: np.ndarray
    colour: np.ndarray
    position: np.ndarray

    def features(self, image_width: int) -> tuple[np.ndarray, np.ndarray]:
        """Mean colour [R, C] in 0..1 and mean position [R, 2] over ``image_width``, float64."""
        size = self.size[:, None]
        # Whole and rest apart, as the prepared files keep them: equal to the last bit whichever way we came.
        colour = (self.colour // size + self.colour % size / size) / 255
        position = (self.position // size + self.position % size / size) / image_width
        return colour, position

    def between(self, begin: int, end: int) -> "Regions":
        """Those of the images ``begin`` to ``end - 1``."""
        ends = np.concatenate([[0], np.cumsum(self.count)])
        rows = slice(int(ends[begin]), int(ends[min(end, len(self.count))]))
        return Regions(self.count[begin:end], self.size[rows], self.colour[rows], self.position[rows])


def cut_images(images: str, first: int, stop: int, limit: int, extra: int, compactness: float) -> dict[str, np.ndarray]:
    """Cuts the images ``first`` to ``stop - 1`` of the ``.npy`` file ``images``; the arrays of :class:`Regions`."""
    stack = np.load(images, mmap_mode="r", allow_pickle=False)
    settings = SlicSettings(limit, extra, compactness)
    found = [_describe(np.asarray(image), slic_labels(np.asarray(image), settings)) for image in stack[first:stop]]
    return {
        "count": np.array([len(size) for size, _, _ in found], np.uint8),
        "size": np.concatenate([size for size, _, _ in found]).astype(np.uint16),
        "colour": np.concatenate([colour for _, colour, _ in found]).astype(np.uint32),
        "position": np.concatenate([position for _, _, position in found]).astype(np.uint32),
    }


def _describe(image: np.ndarray, labels: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    flat = labels.ravel()
    rows, columns = np.divmod(np.arange(flat.size), image.shape[1])
    channels = image.reshape(flat.size, -1).T
    # Sums of integers below 2^53: exact in the float64 that bincount adds in.
    colour = np.stack([np.bincount(flat, weights=channel) for channel in channels], axis=1)
    position = np.stack([np.bincount(flat, weights=axis) for axis in (rows, columns)], axis=1)
    return np.bincount(flat), colour, position


def join(parts: list[Path]) -> Regions:
    """The superpixels of several files made by :func:`cut_images`, in that order."""
    loaded = [read_arrays(path, ARRAYS) for path in parts]
    return Regions(**{name: np.concatenate([part[name] for part in loaded]).astype(np.int64) for name in ARRAYS})


def read_prepared(path: Path, *, pixels: int, channels: int) -> tuple[Regions, np.ndarray]:
    """Superpixels and labels of a prepared ``{mnist,cifar10}_sp_{train,test}.npz``, checked.

    The file holds ``label`` and ``count`` [I], ``size`` [R], and whole part and rest of the mean colour and position:
    ``pix_q``, ``pix_r`` [R, C], ``pos_q``, ``pos_r`` [R, 2].

    Args:
        path: The file.
        pixels: Pixels of an image; the superpixels of each must tile it.
        channels: C.
    """
    arrays = {name: array.astype(np.int64) for name, array in read_arrays(path, PREPARED_ARRAYS).items()}
    count, size, label = arrays["count"], arrays["size"], arrays["label"]
    remedy = f"make {path.name} again, or name the folder of the right files"
    widths = {"pix_q": channels, "pix_r": channels, "pos_q": 2, "pos_r": 2}
    shapes = {name: (len(size), width) for name, width in widths.items()} | {"label": count.shape}
    wrong = [name for name, shape in shapes.items() if arrays[name].shape != shape]
    if wrong or count.sum() != len(size):
        got = ", ".join(f"{name} {list(array.shape)}" for name, array in arrays.items())
        raise DataError(f"superpixels of {channels} channels in {path}, one row each", got, remedy)
    starts = np.concatenate([[0], np.cumsum(count)])[:-1]
    if len(count) == 0 or (count == 0).any() or (size == 0).any() or (label > 9).any():
        got = "an image without superpixels, an empty superpixel or a label above 9"
        raise DataError(f"images, superpixels and labels 0..9 in {path}", got, remedy)
    area = np.add.reduceat(size, starts)
    if (area != pixels).any():
        image = int(np.argmax(area != pixels))
        raise DataError(
            f"superpixels that tile images of {pixels} pixels in {path}", f"{area[image]} in image {image}", remedy
        )
    colour = arrays["pix_q"] * size[:, None] + arrays["pix_r"]
    position = arrays["pos_q"] * size[:, None] + arrays["pos_r"]
    return Regions(count, size, colour, position), label
