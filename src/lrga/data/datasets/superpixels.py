"""MNIST and CIFAR10 as graphs of superpixels (at most 75 and 150 per image), with edges by the benchmark's rule.

The superpixels are read from the benchmark's files or from prepared files of sums (:func:`read_prepared`). The former
are pickles of (labels, list of images); an image is (mean colours [n, C] in 0..1, mean positions [n, 2] in pixels, …).

Let D be the distances between the positions of the n superpixels of an image. The edges are:

    s_i  = (sum of the 9 smallest D_ij, i itself included) / 8 + 1e-8
    A_ij = (exp(-(D_ij / s_i)^2) + exp(-(D_ij / s_j)^2)) / 2,  A_ii = 0

Node i is joined to 8 of the 9 nodes with the largest A_ij: ``np.argpartition`` puts these 9 last, in no particular
order, and the very last one is dropped. This is exactly the benchmark's published rule. Which of the nine comes last
depends on numpy's algorithm. The one used here is the one the benchmark's files were made with: numpy < 2, and numpy 2
for complex numbers. It drops the nearest node at 1 in 4 nodes, the second nearest at 1 in 5, and so on. For real
numbers numpy 2 has vector instructions of AVX2 and AVX-512 and almost always drops the nearest.

The superpixels of a file are first packed as graphs without edges, with the attributes ``colour``, ``position`` (both
in 0..1) and y.

Letters: I images, R superpixels of all images, C colour channels.
"""

from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch

from lrga.data.datasets import BENCHMARK, RECIPE
from lrga.data.datasets.source import BuildContext, demand, read_arrays
from lrga.data.datasets.spec import SPLITS, DatasetSpec, Inputs, Schedule, TaskSpec, spec_of
from lrga.data.packed.arrays import pack_arrays
from lrga.data.packed.graphs import PackedGraphs
from lrga.io.download import RemoteFile
from lrga.io.limits import reading
from lrga.io.progress import Progress, silent
from lrga.io.unpickle import load_pickle

VALIDATION = 5_000  # the first images of the official training set, as in the benchmark
NEIGHBOURS = 8
PARTS = ("train", "test")
WIDTH = {"MNIST": 28, "CIFAR10": 32}  # width and height of an image in pixels
CHANNELS = {"MNIST": 1, "CIFAR10": 3}
PUBLISHED = {"MNIST": "mnist_75sp", "CIFAR10": "cifar10_150sp"}
_PREPARED_ARRAYS = ("label", "count", "size", "pix_q", "pix_r", "pos_q", "pos_r")


def build(name: str, context: BuildContext, *, sizes: list[int]) -> dict[str, PackedGraphs]:
    """Builds the first ``sizes`` graphs of each split, from the user's folder, else from the benchmark's archive."""
    spec, channels = spec_of(name), CHANNELS[name]
    published = [f"{PUBLISHED[name]}_{part}.pkl" for part in PARTS]
    prepared = [f"{name.lower()}_sp_{part}.npz" for part in PARTS]
    paths, form = context.locate(spec.files, prepared, published, below=("superpixels",))
    read = (read_prepared, read_published)[form]
    train, test = (read(path, WIDTH[name], channels) for path in paths)
    for part, found, least in (("train", train, VALIDATION + 1), ("test", test, 1)):
        demand(len(found) >= least, paths[0].parent, f"at least {least:,} images of {part}", len(found))
    chosen = train[VALIDATION : VALIDATION + sizes[0]], train[: sizes[1]], test[: sizes[2]]
    packed = {}
    for split, found in zip(SPLITS, chosen, strict=True):
        count = found.nodes_per_graph.numpy()
        colour, position = (found.columns[name].values for name in ("colour", "position"))
        edges, index, weight = superpixel_edges(
            count, position.numpy(), progress=context.progress, label=f"edges of {name} {split}"
        )
        packed[split] = pack_arrays(
            num_nodes=count,
            num_edges=edges,
            edge_index=index,
            x=torch.cat([colour, position], dim=1).float(),
            edge_attr=weight[:, None],
            y=found.y,
            y_level="graph",
            keep_edge_order=False,
        )
    mean = sum(graphs.num_nodes for graphs in packed.values()) / sum(map(len, packed.values()))
    whole = {split: len(graphs) for split, graphs in packed.items()} == spec.splits
    fits = not whole or abs(mean - spec.mean_nodes) <= 0.006
    demand(fits, paths[0].parent, f"{spec.mean_nodes} superpixels per image of {name}", f"{mean:.3f}")
    return packed


def read_published(path: Path, width: int, channels: int) -> PackedGraphs:
    """Reads and checks one of the benchmark's pickles ``{mnist_75sp,cifar10_150sp}_{train,test}.pkl``."""
    what = f"labels and images of (colours [n, {channels}], positions [n, 2]) in"
    with reading(path, what, remedy="download the file again from its official source"):
        labels, images = load_pickle(path)
        colour = [np.asarray(image[0]).reshape(-1, channels) for image in images]
        position = [(image[1] / width).reshape(-1, 2) for image in images]
        count, label = np.array([len(rows) for rows in colour], np.int64), np.asarray(labels, np.int64)
        sound = label.shape == count.shape and [len(rows) for rows in position] == count.tolist()
        places = np.concatenate(position).astype(np.float64)
        return _packed(path, count, label, np.concatenate(colour), places, sound=sound)


def read_prepared(path: Path, width: int, channels: int) -> PackedGraphs:
    """Reads and checks a prepared ``{mnist,cifar10}_sp_{train,test}.npz``.

    The file holds ``label`` and ``count`` [I], ``size`` [R], and quotient and remainder of the mean colour and
    position: ``pix_q``, ``pix_r`` [R, C], ``pos_q``, ``pos_r`` [R, 2]. The superpixels of an image must tile it.
    """
    arrays = {name: array.astype(np.int64) for name, array in read_arrays(path, _PREPARED_ARRAYS).items()}
    count, size = arrays["count"], arrays["size"]
    widths = {"pix_q": channels, "pix_r": channels, "pos_q": 2, "pos_r": 2}
    shapes = {name: (len(size), columns) for name, columns in widths.items()} | {"label": count.shape}
    fits = all(arrays[name].shape == shape for name, shape in shapes.items()) and count.sum() == len(size)
    got = {name: array.shape for name, array in arrays.items()}
    demand(fits, path, f"one row per superpixel, with {channels} channels,", got)
    sound = not (count == 0).any() and not (size == 0).any()
    rows = np.maximum(size, 1)[:, None]
    colour = (arrays["pix_q"] + arrays["pix_r"] / rows) / 255
    position = (arrays["pos_q"] + arrays["pos_r"] / rows) / width
    found = _packed(path, count, arrays["label"], colour, position, sound=sound)
    area = np.add.reduceat(size, np.cumsum(count) - count)
    image = int(np.argmax(area != width**2))
    expected = f"superpixels that tile images of {width**2} pixels"
    demand(area[image] == width**2, path, expected, f"{area[image]} in image {image}")
    return found


def _packed(
    path: Path, count: np.ndarray, label: np.ndarray, colour: np.ndarray, position: np.ndarray, *, sound: bool
) -> PackedGraphs:
    fits = sound and np.isfinite(colour).all() and np.isfinite(position).all() and len(count)
    fits = fits and (count > 0).all() and (label <= 9).all()
    got = "an image without superpixels, an empty superpixel, NaN or infinity, or a label above 9"
    demand(fits, path, "images, superpixels and labels 0..9", got)
    return pack_arrays(num_nodes=count, node={"colour": colour, "position": position}, y=label, y_level="graph")


def superpixel_edges(
    count: np.ndarray, position: np.ndarray, *, progress: Progress = silent, label: str = "edges"
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Joins every superpixel to 8 of its nearest neighbours.

    Args:
        count: [G] number of superpixels of each graph.
        position: [N, 2] mean positions, all graphs concatenated, float64.
        progress: Called with the number of finished graphs, under the name ``label``.

    Returns:
        Number of edges of each graph [G]; edge index [2, E] int16, with node numbers inside the graph, ordered by
        source; A of the edges [E].

    Example:
        >>> line = np.stack([np.arange(12.0), np.zeros(12)], axis=1)
        >>> num_edges, index, weight = superpixel_edges(np.array([12]), line)
        >>> num_edges.tolist(), index.shape, weight.dtype
        ([96], (2, 96), dtype('float32'))
    """
    targets, weights = [], []
    for done, own in enumerate(np.split(position, np.cumsum(count)[:-1])):
        target, closeness = _neighbours(own)
        targets.append(target)
        weights.append(closeness)
        progress(label, done + 1, len(count))
    source = [np.repeat(np.arange(len(rows)), rows.shape[1]) for rows in targets]
    index = np.stack([np.concatenate(source), np.concatenate([rows.ravel() for rows in targets])])
    return np.array([rows.size for rows in targets]), index, np.concatenate([rows.ravel() for rows in weights])


def _neighbours(position: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Neighbours [n, k] int16 of the nodes of a graph at ``position`` [n, 2], and their A, float32."""
    n = len(position)
    difference = position[:, None] - position
    distance = np.sqrt(difference[..., 0] ** 2 + difference[..., 1] ** 2)
    scale = np.ones((n, 1))  # the benchmark's rule for images with few superpixels
    if n > NEIGHBOURS:
        nearest = np.sort(distance)[:, : NEIGHBOURS + 1]  # in order, for the same rounding of the sum on every CPU
        scale = nearest.sum(axis=1, keepdims=True) / NEIGHBOURS
    closeness = np.exp(-((distance / (scale + 1e-8)) ** 2))
    closeness = 0.5 * (closeness + closeness.T)
    np.fill_diagonal(closeness, 0)
    if n > NEIGHBOURS + 1:
        # as numbers that numpy has no vector instructions for, see above
        chosen = np.argpartition(closeness.astype(complex), n - NEIGHBOURS - 2)[:, n - NEIGHBOURS - 1 : -1]
    else:  # all others
        chosen = np.nonzero(~np.eye(n, dtype=bool))[1].reshape(n, n - 1)
    return chosen.astype(np.int16), np.take_along_axis(closeness, chosen, axis=1).astype(np.float32)


def _spec(
    name: str, sizes: tuple[int, int, int], means: tuple[float, float], colour: str, citation: str
) -> DatasetSpec:
    splits: dict[str, Any] = dict(zip(SPLITS, sizes, strict=True))
    features = CHANNELS[name] + 2
    return DatasetSpec(
        name=name,
        inputs=Inputs("graph", 10, "linear", features),
        task=TaskSpec("classification", "cross_entropy", "accuracy"),
        splits=splits,
        mean_nodes=means[0],
        mean_edges=means[1],
        node_features=f"mean {colour} and position (row, column) of the superpixel, {features} numbers",
        edge_features="closeness of the two superpixels, 1 number",
        origin=f"the SLIC superpixels of the {name} images of {RECIPE}, joined here to 8 nearest neighbours",
        licence="not stated",
        terms="images: no licence stated by their authors; the recipe's code is MIT",
        citation=(
            BENCHMARK,
            citation,
            "Knyazev, Taylor, Amer: Understanding Attention and Generalization in Graph Neural Networks. NeurIPS 2019",
            "Achanta, Shaji, Smith, Lucchi, Fua, Süsstrunk: SLIC Superpixels Compared to State-of-the-Art Superpixel "
            "Methods. IEEE TPAMI 34(11), 2012",
        ),
        build=partial(build, name),
        recipe_version=2,
        files=(RemoteFile("https://www.dropbox.com/s/y2qwa77a0fxem47/superpixels.zip?dl=1", "superpixels.zip"),),
        schedule=Schedule(variants=(({"preset": "2020"}, {"patience": 5}),)),
    )


SPECS = (
    _spec(
        "MNIST",
        (55_000, 5_000, 10_000),
        (70.57, 564.53),
        "intensity",
        "LeCun, Bottou, Bengio, Haffner: Gradient-Based Learning Applied to Document Recognition. "
        "Proceedings of the IEEE 86(11), 1998",
    ),
    _spec(
        "CIFAR10",
        (45_000, 5_000, 10_000),
        (117.63, 941.07),
        "red, green, blue",
        "Krizhevsky: Learning Multiple Layers of Features from Tiny Images. Technical report, Toronto, 2009",
    ),
)
