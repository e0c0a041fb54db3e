"""Images as graphs of superpixels: what MNIST and CIFAR10 share.

Superpixels come either from the images (SLIC, :mod:`lrga.data.datasets.superpixels.slic`) or from prepared files that
hold them already; edges and features are made from them in the same way (:mod:`lrga.data.datasets.superpixels.edges`).

Letters: I images, R superpixels of all of them, C colour channels.
"""

import hashlib
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from lrga.data.datasets.shards import Shard, make_shards
from lrga.data.datasets.source import BuildContext, find_files, read_arrays
from lrga.data.datasets.spec import SPLITS, DatasetSpec, spec_of
from lrga.data.datasets.superpixels.edges import superpixel_edges
from lrga.data.datasets.superpixels.slic import SlicSettings, slic_labels
from lrga.errors import DataError
from lrga.io.files import atomic_path

if TYPE_CHECKING:
    from lrga.data.packed.graphs import PackedGraphs

VALIDATION = 5_000  # the first images of the official training set, as in the benchmark
SHARD_IMAGES = 1_000
CITATIONS = (
    "Knyazev, Taylor, Amer: Understanding Attention and Generalization in Graph Neural Networks. NeurIPS 2019",
    "Achanta, Shaji, Smith, Lucchi, Fua, Süsstrunk: SLIC Superpixels Compared to State-of-the-Art Superpixel "
    "Methods. IEEE TPAMI 34(11), 2012",
)
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


@dataclass(frozen=True)
class Images:
    """``pixels`` [I, H, W] or [I, H, W, 3] bytes and ``label`` [I] of the official ``"train"`` or ``"test"`` part."""

    pixels: np.ndarray
    label: np.ndarray


@dataclass(frozen=True)
class ImageSet:
    """What tells MNIST and CIFAR10 apart.

    Attributes:
        name: The data set.
        width: Of an image, in pixels; it is as high.
        channels: Of a pixel.
        settings: How it is cut.
        read: Finds, or downloads, the official images and reads both parts.
    """

    name: str
    width: int
    channels: int
    settings: SlicSettings
    read: Callable[["ImageSet", BuildContext], dict[str, Images]]

    @property
    def spec(self) -> DatasetSpec:
        """What is known of it."""
        return spec_of(self.name)

    @property
    def prepared(self) -> list[str]:
        """Names of the files of superpixels, of the official train and test parts."""
        return [f"{self.name.lower()}_sp_{part}.npz" for part in ("train", "test")]

    def find(self, context: BuildContext, names: list[str], *, below: tuple[str, ...]) -> list[Path]:
        """The images in the folder that the user named."""
        remedy = f"put them or {' and '.join(self.prepared)} there, or leave the source out to download the images"
        return context.find(names, remedy, below=below)

    def build(self, context: BuildContext, *, sizes: list[int]) -> "dict[str, PackedGraphs]":
        """The first ``sizes`` graphs of each split, from prepared superpixels where there are some, else cut here."""
        wanted = dict(zip(SPLITS, sizes, strict=True))
        prepared = find_files(context.source or context.raw, self.prepared, below=("superpixels",))
        if prepared is not None:
            train, test = (read_prepared(path, pixels=self.width**2, channels=self.channels) for path in prepared)
            found = {"train": train, "test": test}
            splits = {
                split: (found[part][0].between(begin, end), found[part][1][begin:end])
                for split, (part, begin, end) in _ranges(train[1], test[1], wanted).items()
            }
        else:
            splits = _from_images(self, context, wanted)
        meta = {"origin": "images cut here by SLIC" if prepared is None else "prepared superpixels"}
        packed = {
            split: _graphs(self, *splits[split], context, f"edges of {self.name} {split}", meta) for split in SPLITS
        }
        _check_counts(self, packed)
        return packed


def _ranges(train: np.ndarray, test: np.ndarray, wanted: Mapping[str, int]) -> dict[str, tuple[str, int, int]]:
    """Split → (official part, its first image, the one after its last), given the labels of both parts."""
    for name, label, least in (("train", train, VALIDATION + 1), ("test", test, 1)):
        if len(label) < least:
            expected = f"at least {least:,} images in the official {name} part"
            raise DataError(expected, f"{len(label):,}", "get the complete files")
    return {
        "train": ("train", VALIDATION, min(VALIDATION + wanted["train"], len(train))),
        "val": ("train", 0, min(wanted["val"], VALIDATION)),
        "test": ("test", 0, min(wanted["test"], len(test))),
    }


def _from_images(
    images: ImageSet, context: BuildContext, wanted: Mapping[str, int]
) -> dict[str, tuple[Regions, np.ndarray]]:
    official = images.read(images, context)
    shards: dict[str, list[Shard]] = {}
    labels: dict[str, np.ndarray] = {}
    stacks: dict[str, tuple[str, str]] = {}
    for part, found in official.items():  # where several processes can read them without each a copy
        path = context.work / f"images_{part}.npy"
        with atomic_path(path, error=DataError) as temporary, open(temporary, "wb") as file:
            np.save(file, found.pixels, allow_pickle=False)
        stacks[part] = str(path), hashlib.sha256(found.pixels.tobytes()).hexdigest()[:12]
    for split, (part, begin, end) in _ranges(official["train"].label, official["test"].label, wanted).items():
        labels[split], (stack, digest) = official[part].label[begin:end], stacks[part]
        shards[split] = []
        for first in range(begin, end, SHARD_IMAGES):
            stop = min(first + SHARD_IMAGES, end)
            arguments = {"images": stack, "first": first, "stop": stop, **asdict(images.settings)}
            shards[split].append(Shard(f"{split}-{digest}-{first:05d}", "regions", arguments, stop - first, ARRAYS))
    label = f"cutting the images of {images.name}"
    every = [shard for split in SPLITS for shard in shards[split]]
    make_shards(every, context.work, workers=context.workers, progress=context.progress, label=label)
    return {split: (join([shard.path(context.work) for shard in shards[split]]), labels[split]) for split in SPLITS}


def _graphs(
    images: ImageSet, regions: Regions, label: np.ndarray, context: BuildContext, step: str, meta: Mapping[str, str]
) -> "PackedGraphs":
    from lrga.data.packed.arrays import pack_arrays  # PyTorch, which the processes that cut images do without

    colour, position = regions.features(images.width)
    edges = superpixel_edges(regions.count, position, workers=context.workers, progress=context.progress, label=step)
    return pack_arrays(
        num_nodes=regions.count.astype(np.int64),
        num_edges=edges.count,
        edge_index=edges.index,
        x=np.concatenate([colour, position], axis=1).astype(np.float32),
        edge_attr=edges.weight[:, None],
        y=label.astype(np.int64),
        y_level="graph",
        keep_edge_order=False,
        meta=meta,
    )


def _check_counts(images: ImageSet, packed: "Mapping[str, PackedGraphs]") -> None:
    """A complete set has the published mean number of superpixels, or it was cut differently."""
    facts = images.spec
    if {split: len(graphs) for split, graphs in packed.items()} != facts.splits:
        return
    mean = sum(graphs.num_nodes for graphs in packed.values()) / sum(facts.splits.values())
    if abs(mean - facts.mean_nodes) > 0.006:
        raise DataError(
            f"{facts.mean_nodes} superpixels an image of {images.name}, as the benchmark has",
            f"{mean:.3f}",
            "install another scikit-image (0.24 to 0.26 are known to work), or bring prepared superpixels",
        )


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
    ``pix_q``, ``pix_r`` [R, C], ``pos_q``, ``pos_r`` [R, 2]. The superpixels of an image must tile its ``pixels``.
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
