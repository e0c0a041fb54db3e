"""Images as graphs of superpixels: what MNIST and CIFAR10 share.

Superpixels come either from the images (SLIC, :mod:`lrga.data.datasets.superpixels.slic`) or from prepared files that
hold them already; edges and features are made from them in the same way (:mod:`lrga.data.datasets.superpixels.edges`).
"""

import hashlib
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from lrga.data.datasets.place import SPLITS, BuildPlace
from lrga.data.datasets.prepared import find_files, missing_files
from lrga.data.datasets.shards import Shard, make_shards
from lrga.data.datasets.spec import DatasetSpec
from lrga.data.datasets.superpixels.edges import superpixel_edges
from lrga.data.datasets.superpixels.regions import ARRAYS, Regions, join, read_prepared
from lrga.data.datasets.superpixels.slic import SlicSettings
from lrga.data.packed.arrays import pack_arrays
from lrga.data.packed.graphs import PackedGraphs
from lrga.errors import DataError, DataMissingError
from lrga.io.files import atomic_path

VALIDATION = 5_000  # the first images of the official training set, as in the benchmark
PART_IMAGES = 1_000
CITATIONS = (
    "Knyazev, Taylor, Amer: Understanding Attention and Generalization in Graph Neural Networks. NeurIPS 2019",
    "Achanta, Shaji, Smith, Lucchi, Fua, Süsstrunk: SLIC Superpixels Compared to State-of-the-Art Superpixel "
    "Methods. IEEE TPAMI 34(11), 2012",
)


@dataclass(frozen=True)
class Images:
    """``pixels`` [I, H, W] or [I, H, W, 3] bytes and ``label`` [I] of the official ``"train"`` or ``"test"`` part."""

    pixels: np.ndarray
    label: np.ndarray


@dataclass(frozen=True)
class ImageSet:
    """What tells MNIST and CIFAR10 apart.

    Attributes:
        spec: The data set.
        width: Of an image, in pixels; it is as high.
        channels: Of a pixel.
        settings: How it is cut.
        read: Finds, or downloads, the official images and reads both parts.
    """

    spec: DatasetSpec
    width: int
    channels: int
    settings: SlicSettings
    read: Callable[[BuildPlace], dict[str, Images]]

    @property
    def name(self) -> str:
        """Name of the data set."""
        return self.spec.name


def build_superpixels(images: ImageSet, place: BuildPlace, sizes: list[int]) -> dict[str, PackedGraphs]:
    """The splits of ``images``, the first ``sizes`` graphs of each."""
    wanted = dict(zip(SPLITS, sizes, strict=True))
    prepared = _prepared_files(images, place)
    if prepared is not None:
        found = {part: read_prepared(path, pixels=images.width**2, channels=images.channels) for part, path in prepared}
        ranges = _ranges(found["train"][1], found["test"][1], wanted)
        splits = {
            split: (found[part][0].between(begin, end), found[part][1][begin:end])
            for split, (part, begin, end) in ranges.items()
        }
        origin = "prepared superpixels"
    else:
        splits = _from_images(images, place, wanted)
        origin = "images cut here by SLIC"
    packed = {
        split: _graphs(images, *splits[split], place, f"edges of {images.name} {split}", {"origin": origin})
        for split in SPLITS
    }
    _check_counts(images, packed)
    return packed


def _prepared_files(images: ImageSet, place: BuildPlace) -> list[tuple[str, Path]] | None:
    paths = find_files(place.source or place.raw, _prepared_names(images.name), below=("superpixels",))
    return None if paths is None else list(zip(("train", "test"), paths, strict=True))


def _prepared_names(name: str) -> list[str]:
    return [f"{name.lower()}_sp_{part}.npz" for part in ("train", "test")]


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
    images: ImageSet, place: BuildPlace, wanted: Mapping[str, int]
) -> dict[str, tuple[Regions, np.ndarray]]:
    official = images.read(place)
    stacks = {part: _store(official[part].pixels, place.work / f"images_{part}.npy") for part in official}
    digests = {part: hashlib.sha256(official[part].pixels.tobytes()).hexdigest()[:12] for part in official}
    jobs: dict[str, list[Shard]] = {}
    labels: dict[str, np.ndarray] = {}
    for split, (part, begin, end) in _ranges(official["train"].label, official["test"].label, wanted).items():
        labels[split] = official[part].label[begin:end]
        jobs[split] = [
            _part(images, stacks[part], f"{split}-{digests[part]}-{first:05d}", first, min(first + PART_IMAGES, end))
            for first in range(begin, end, PART_IMAGES)
        ]
    label = f"cutting the images of {images.name}"
    everything = [part for split in SPLITS for part in jobs[split]]
    paths = make_shards(everything, place.work, workers=place.workers, progress=place.progress, label=label)
    by_name = {part.name: path for part, path in zip(everything, paths, strict=True)}
    return {split: (join([by_name[part.name] for part in jobs[split]]), labels[split]) for split in SPLITS}


def _store(pixels: np.ndarray, path: Path) -> Path:
    """The images where several processes can read them without each a copy."""
    with atomic_path(path, error=DataError) as temporary, open(temporary, "wb") as file:
        np.save(file, pixels, allow_pickle=False)
    return path


def _part(images: ImageSet, stack: Path, name: str, first: int, stop: int) -> Shard:
    settings = images.settings
    arguments = {
        "images": str(stack),
        "first": first,
        "stop": stop,
        "limit": settings.limit,
        "extra": settings.extra,
        "compactness": settings.compactness,
    }
    return Shard(name, "regions", arguments, stop - first, ARRAYS)


def _graphs(
    images: ImageSet, regions: Regions, label: np.ndarray, place: BuildPlace, step: str, meta: Mapping[str, str]
) -> PackedGraphs:
    colour, position = regions.features(images.width)
    edges = superpixel_edges(regions.count, position, workers=place.workers, progress=place.progress, label=step)
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


def _check_counts(images: ImageSet, packed: Mapping[str, PackedGraphs]) -> None:
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


def missing_images(images: str, place: BuildPlace, names: list[str], *, below: Iterable[str] = ()) -> DataMissingError:
    """The error for a folder that the user named and that holds neither all images nor all superpixels."""
    assert place.source is not None
    prepared = _prepared_names(images)
    got = missing_files(place.source, names, below=below)
    return DataMissingError(
        f"the {images} images ({', '.join(names)}) or their superpixels ({' and '.join(prepared)}) in {place.source}",
        f"{got}, and {missing_files(place.source, prepared, below=('superpixels',))}",
        f"put them into {place.source}, or leave the source out to download the images",
    )
