"""Graphs in which neighbours mostly differ in class (Platonov et al.): one ``.npz`` file each, with ten splits.

``node_features`` [N, F], ``node_labels`` [N], ``edges`` [E, 2] with each edge once, ``{train,val,test}_masks`` [10, N].
"""

from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from lrga.data.datasets.masked import Graph, masked_graph
from lrga.data.datasets.source import BuildContext, demand, read_arrays
from lrga.data.datasets.spec import SPLITS, DatasetSpec, Inputs, Schedule, TaskSpec, spec_of
from lrga.data.packed.graphs import PackedGraphs
from lrga.io.download import RemoteFile
from lrga.io.files import FileFacts

NUM_SPLITS = 10
_PAPER = (
    "Platonov, Kuznedelev, Diskin, Babenko, Prokhorenkova: A Critical Look at the Evaluation of GNNs under "
    "Heterophily: Are We Really Making Progress? ICLR 2023. arXiv:2302.11640"
)


def build(name: str, context: BuildContext, *, split: int) -> PackedGraphs:
    """Builds the graph from the file in the user's folder, else from the official file."""
    spec = spec_of(name)
    (file,) = spec.files
    stem = file.name.removesuffix(".npz")
    below = ("raw", "data", f"{stem}/raw", f"heterophilous/{stem}/raw")
    (path,), _ = context.locate(spec.files, [file.name], below=below)
    return masked_graph(spec, path, read(path, split), sizes=spec.splits if split == 0 else None)


def read(path: Path, split: int) -> Graph:
    """Reads the graph, with both directions of every edge, and one of the splits."""
    masks = [f"{part}_masks" for part in SPLITS]
    arrays = read_arrays(path, ["node_features", "node_labels", "edges", *masks])
    x, y, edges = arrays["node_features"], arrays["node_labels"], arrays["edges"]
    whole = x.ndim == 2 and y.shape == (len(x),) and edges.ndim == 2 and edges.shape[1] == 2
    whole = whole and all(arrays[m].shape == (NUM_SPLITS, len(x)) and arrays[m].dtype == bool for m in masks)
    got = {name: f"{array.dtype} {array.shape}" for name, array in arrays.items()}
    demand(whole, path, "arrays of matching shapes, bool masks,", got)
    splits = {part: np.flatnonzero(arrays[mask][split]) for part, mask in zip(SPLITS, masks, strict=True)}
    return Graph(x, y, np.concatenate([edges, edges[:, ::-1]]).T, splits)


def _spec(
    name: str,
    facts: FileFacts,
    counts: tuple[int, int, int, int],
    splits: tuple[int, int, int],
    *,
    metric: str = "accuracy",
    node_features: str,
    what: str,
    citation: tuple[str, ...] = (),
    network: Mapping[str, Any] | None = None,
) -> DatasetSpec:
    nodes, edges, features, classes = counts
    file = f"{name.replace('-', '_')}.npz"
    url = f"https://github.com/yandex-research/heterophilous-graphs/raw/main/data/{file}"
    return DatasetSpec(
        name=name,
        inputs=Inputs("node", classes, "linear", features, "ones"),
        task=TaskSpec("classification", "cross_entropy", metric),
        splits=dict(zip(SPLITS, splits, strict=True)),
        mean_nodes=nodes,
        mean_edges=2 * edges,
        node_features=node_features,
        origin=f"{what}; the file of https://github.com/yandex-research/heterophilous-graphs",
        licence="MIT",
        terms="MIT, as the publisher's repository states",
        citation=(_PAPER, *citation),
        build=partial(build, name),
        files=(RemoteFile(url, file, facts),),
        num_splits=NUM_SPLITS,
        one_graph=True,
        schedule=Schedule(patience=50, batch_size=1),
        network=network or {},
        note="Published numbers are means over the ten splits: build and train with --split 0 to 9.",
    )


_WIKIPEDIA = (
    "Rozemberczki, Allen, Sarkar: Multi-Scale Attributed Node Embedding. Journal of Complex Networks 9(2), 2021",
)
SPECS = (
    _spec(
        "minesweeper",
        FileFacts(135_045, "e664c8dacf1e8ac466c2c09ed4b237bd2c5541f47a6eae9c6092cb87f16412b3"),
        (10_000, 39_402, 7, 2),
        (5_000, 2_500, 2_500),
        metric="roc_auc",
        node_features="number of neighbouring mines (one-hot) or unknown, 7 numbers",
        what="a grid of 100 by 100 cells; the classes are cells with and without a mine",
    ),
    _spec(
        "tolokers",
        FileFacts(1_329_769, "dacf3ac94cec53d03cd2adb5255c08b33dee1656c33ca8164a464bd9450a1667"),
        (11_758, 519_000, 10, 2),
        (5_879, 2_939, 2_940),
        metric="roc_auc",
        node_features="profile and statistics of the worker, 10 numbers",
        what="workers of a crowdsourcing platform, linked if they shared a task; the classes are banned or not",
    ),
    _spec(
        "chameleon-filtered",
        FileFacts(58_924, "bf46f07e1fb5249280447e5fe3100f3e82fc4b93ad1e13ffcfdec924b6ac0bb5"),
        (890, 8_854, 2_325, 5),
        (409, 287, 194),
        node_features="bag of nouns of the page, 2,325 numbers (0 or 1)",
        what="Wikipedia pages on chameleons without duplicates; the five classes are levels of traffic",
        citation=_WIKIPEDIA,
        # Split 0, 2 seeds, 80 epochs: GCN 38.4% and LRGA + GCN 39.7%; with the benchmark's layers 40.5% and 27.3%.
        network={"block": "residual", "norm": "layer", "head_layers": 1, "dropout": 0.5},
    ),
    _spec(
        "squirrel-filtered",
        FileFacts(208_215, "f06370ffb3116c5de8b7a600005400b2293c025e0ce2f6916d8201a825505ac7"),
        (2_223, 46_998, 2_089, 5),
        (1_053, 718, 452),
        node_features="bag of nouns of the page, 2,089 numbers (0 or 1)",
        what="Wikipedia pages on squirrels without duplicates; the five classes are levels of traffic",
        citation=_WIKIPEDIA,
    ),
    _spec(
        "actor",
        FileFacts(252_956, "c350eef06b2c2a9bf8218be2b57cac6d4003d0922eb597a039e9123f75817816"),
        (7_600, 26_659, 932, 5),
        (3_648, 2_432, 1_520),
        node_features="bag of keywords of the actor's page, 932 numbers (0 or 1)",
        what="actors, linked if they occur on the same Wikipedia page; five classes",
        citation=(
            "Pei, Wei, Chang, Lei, Yang: Geom-GCN: Geometric Graph Convolutional Networks. ICLR 2020",
            "Tang, Sun, Wang, Yang: Social Influence Analysis in Large-Scale Networks. KDD 2009",
        ),
    ),
)
