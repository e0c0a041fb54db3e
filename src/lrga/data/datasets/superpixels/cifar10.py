"""CIFAR10: 60,000 colour images of ten kinds of things as graphs of at most 150 superpixels."""

from pathlib import Path

import numpy as np

from lrga.data.datasets import BENCHMARK
from lrga.data.datasets.source import BuildContext, check_md5, check_sums, find_files, sizes_option
from lrga.data.datasets.spec import DatasetSpec, Inputs, Schedule, TaskSpec
from lrga.data.datasets.superpixels.images import CITATIONS, Images, ImageSet
from lrga.data.datasets.superpixels.slic import CIFAR10_SETTINGS
from lrga.errors import DataError
from lrga.io.archive import extract
from lrga.io.download import RemoteFile
from lrga.io.files import FileFacts
from lrga.io.limits import read_bytes
from lrga.io.unpickle import load_pickle

SIZES = {"train": 45_000, "val": 5_000, "test": 10_000}
ARCHIVE = "cifar-10-python.tar.gz"
FOLDER = "cifar-10-batches-py"
ARCHIVE_MD5 = "c58f30108f718f92721af3b95e74349a"
# MD5 of the batches inside, as published.
BATCHES = {
    "data_batch_1": "c99cafc152244af753f735de768cd75f",
    "data_batch_2": "d4bba439e000b95fd0a9bffe97cbabec",
    "data_batch_3": "54ebc095f3ab1f0389bbae665268c751",
    "data_batch_4": "634d18415352ddfa80567beed471001a",
    "data_batch_5": "482c414d41f54cd18b22e5b47cb7c3cb",
    "test_batch": "40351d587109b95175f43aff81a1287e",
}


def read_images(images: ImageSet, context: BuildContext) -> dict[str, Images]:
    """Both official parts: from the folder the user named, else downloaded."""
    *train, test = [read_batch(path, md5=BATCHES[path.name]) for path in _batch_files(images, context)]
    pixels, labels = np.concatenate([b.pixels for b in train]), np.concatenate([b.label for b in train])
    return {"train": Images(pixels, labels), "test": test}


def _batch_files(images: ImageSet, context: BuildContext) -> list[Path]:
    if context.source is None:
        (archive,) = context.obtain(SPEC.files)
    else:
        folders = (FOLDER, "raw", f"raw/{FOLDER}", f"cifar10/{FOLDER}")
        if (unpacked := find_files(context.source, list(BATCHES), below=folders)) is not None:
            return unpacked
        (archive,) = images.find(context, [ARCHIVE], below=("raw", "cifar10", "cifar10/raw"))
        check_sums(archive)
    check_md5(archive, read_bytes(archive), ARCHIVE_MD5, what=ARCHIVE)
    members = [f"{FOLDER}/{name}" for name in BATCHES]
    extract(archive, context.work, members=members)
    return [context.work / member for member in members]


def read_batch(path: Path, *, md5: str | None = None) -> Images:
    """The images of one official batch: a pickle of Python 2 with ``data`` [I, 3072] and ``labels``."""
    content = read_bytes(path)
    if md5 is not None:
        check_md5(path, content, md5, what="the published batch")
    batch = load_pickle(content, encoding="bytes", name=str(path))
    expected = f"a batch of CIFAR10 at {path}: data [I, 3072] in bytes and I labels 0..9"
    remedy = f"delete {path} and get {ARCHIVE} again from its official source"
    data, labels = (batch.get(key) for key in (b"data", b"labels")) if isinstance(batch, dict) else (None, None)
    if isinstance(labels, list):  # lists within lists could be endless
        labels = np.asarray(labels if all(type(label) is int for label in labels) else [])
    if not isinstance(data, np.ndarray) or not isinstance(labels, np.ndarray):
        raise DataError(expected, f"a {type(batch).__name__} without data or labels", remedy)
    fits = data.dtype == np.uint8 and data.shape == (len(labels), 3072) and labels.ndim == 1
    if not fits or labels.dtype.kind not in "iu" or ((labels < 0) | (labels > 9)).any():
        got = f"data of shape {list(data.shape)}, labels of shape {list(labels.shape)} or outside 0..9"
        raise DataError(expected, got, remedy)
    pixels = np.ascontiguousarray(data.reshape(-1, 3, 32, 32).transpose(0, 2, 3, 1))
    return Images(pixels, labels.astype(np.uint8))


SPEC = DatasetSpec(
    name="CIFAR10",
    inputs=Inputs("graph", 10, "linear", 5),
    task=TaskSpec("classification", "cross_entropy", "accuracy"),
    splits=SIZES,
    mean_nodes=117.63,
    mean_edges=941.07,
    node_features="mean red, green, blue and position (row, column) of the superpixel, 5 numbers",
    edge_features="closeness of the two superpixels, 1 number",
    obtained="built",
    origin="built here from the CIFAR-10 images: SLIC superpixels (at most 150), 8 nearest neighbours",
    licence="not stated",
    terms="images: no licence stated by their authors; the recipe's code is MIT",
    citation=(
        BENCHMARK,
        "Krizhevsky: Learning Multiple Layers of Features from Tiny Images. Technical report, Toronto, 2009",
        *CITATIONS,
    ),
    options=sizes_option(SIZES),
    build=ImageSet("CIFAR10", 32, 3, CIFAR10_SETTINGS, read_images).build,
    files=(
        RemoteFile(
            f"https://www.cs.toronto.edu/~kriz/{ARCHIVE}",
            ARCHIVE,
            FileFacts(170_498_071, "6d958be074577803d12ecdefd02955f39262c83c16fe9348329d7fe0b5c001ce"),
        ),
    ),
    schedule=Schedule(variants=(({"preset": "2020"}, {"patience": 5}),)),
)
