"""MNIST: 70,000 images of digits as graphs of at most 75 superpixels."""

import gzip
import math
import struct
from pathlib import Path

import numpy as np

from lrga.data.datasets import BENCHMARK
from lrga.data.datasets.source import BuildContext, check_md5, check_sums, find_files, sizes_option
from lrga.data.datasets.spec import DatasetSpec, Inputs, Schedule, TaskSpec
from lrga.data.datasets.superpixels.images import CITATIONS, Images, ImageSet
from lrga.data.datasets.superpixels.slic import MNIST_SETTINGS
from lrga.errors import ChecksumError, DataError
from lrga.io.download import RemoteFile
from lrga.io.files import FileFacts
from lrga.io.limits import check_memory, reading

SIZES = {"train": 55_000, "val": 5_000, "test": 10_000}
_MIRROR = "https://ossci-datasets.s3.amazonaws.com/mnist"
# MD5 of the uncompressed files, as published: the compressed ones differ from mirror to mirror.
MD5 = {
    "train-images-idx3-ubyte": "6bbc9ace898e44ae57da46a324031adb",
    "train-labels-idx1-ubyte": "a25bea736e30d166cdddb491f175f624",
    "t10k-images-idx3-ubyte": "2646ac647ad5339dbf082846283269ea",
    "t10k-labels-idx1-ubyte": "27ae3e4e09519cfbb04c329615203637",
}


def read_images(images: ImageSet, context: BuildContext) -> dict[str, Images]:
    """Both official parts: from the folder the user named, else downloaded."""
    below = ("raw", "mnist/raw", "MNIST/raw")
    if context.source is None:
        paths = context.obtain(SPEC.files)
    else:
        zipped = [f"{name}.gz" for name in MD5]
        paths = find_files(context.source, list(MD5), below=below) or images.find(context, zipped, below=below)
    for path in paths:
        check_sums(path)
    arrays = [read_idx(path, md5=MD5[path.name.removesuffix(".gz")]) for path in paths]
    return {"train": Images(arrays[0], arrays[1]), "test": Images(arrays[2], arrays[3])}


def read_idx(path: Path, *, md5: str | None = None) -> np.ndarray:
    """The array of bytes in an IDX file, compressed by gzip or not; ``md5`` is that of the uncompressed content."""
    remedy = f"delete {path} and get it again from its official source"
    opened = gzip.open if path.suffix == ".gz" else open
    with reading(path, remedy=remedy, damage=ChecksumError), opened(path, "rb") as file:
        begin = file.read(4)
        zeros, kind, dimensions = struct.unpack(">HBB", begin) if len(begin) == 4 else (1, 0, 0)
        begin += file.read(4 * dimensions)
        header = 4 + 4 * dimensions
        if zeros != 0 or kind != 8 or not 1 <= dimensions <= 3 or len(begin) < header:  # 8: unsigned bytes
            raise DataError(f"an IDX file of bytes at {path}", f"a file that begins with {begin[:4]!r}", remedy)
        shape = struct.unpack(f">{dimensions}I", begin[4:])
        check_memory(2 * math.prod(shape), f"{list(shape)} values in {path}")
        content = begin + file.read(math.prod(shape) + 1)  # a byte too many is enough to refuse it
    if md5 is not None:
        check_md5(path, content, md5, what="the published content")
    if len(content) - header != math.prod(shape):
        got = f"{len(content) - header:,} bytes" if len(content) - header < math.prod(shape) else "more"
        raise ChecksumError(f"{list(shape)} values in {path}, as its header says", got, remedy)
    return np.frombuffer(content, np.uint8, offset=header).reshape(shape)


SPEC = DatasetSpec(
    name="MNIST",
    inputs=Inputs("graph", 10, "linear", 3),
    task=TaskSpec("classification", "cross_entropy", "accuracy"),
    splits=SIZES,
    mean_nodes=70.57,
    mean_edges=564.53,
    node_features="mean intensity and position (row, column) of the superpixel, 3 numbers",
    edge_features="closeness of the two superpixels, 1 number",
    obtained="built",
    origin="built here from the MNIST images: SLIC superpixels (at most 75), 8 nearest neighbours",
    licence="not stated",
    terms="images: no licence stated by their authors; the recipe's code is MIT",
    citation=(
        BENCHMARK,
        "LeCun, Bottou, Bengio, Haffner: Gradient-Based Learning Applied to Document Recognition. "
        "Proceedings of the IEEE 86(11), 1998",
        *CITATIONS,
    ),
    options=sizes_option(SIZES),
    build=ImageSet("MNIST", 28, 1, MNIST_SETTINGS, read_images).build,
    files=tuple(
        RemoteFile(f"{_MIRROR}/{name}-ubyte.gz", f"{name}-ubyte.gz", FileFacts(size, sha256))
        for name, size, sha256 in (
            ("train-images-idx3", 9_912_422, "440fcabf73cc546fa21475e81ea370265605f56be210a4024d2ca8f203523609"),
            ("train-labels-idx1", 28_881, "3552534a0a558bbed6aed32b30c495cca23d567ec52cac8be1a0730e8010255c"),
            ("t10k-images-idx3", 1_648_877, "8d422c7b0a1c1c79245a5bcf07fe86e33eeafee792b84584aec276f5a2dbc4e6"),
            ("t10k-labels-idx1", 4_542, "f7ae60f92e00ec6debd23a6088c31dbd2371eca3ffa0defaefb259924204aec6"),
        )
    ),
    schedule=Schedule(variants=(({"preset": "2020"}, {"patience": 5}),)),
)
