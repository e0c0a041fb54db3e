"""Cora, CiteSeer and PubMed with the public split, from the files of Planetoid or from a prepared file.

Planetoid's ``ind.NAME.*`` are pickles: ``x``, ``tx``, ``allx`` sparse features of train, test and all other nodes,
``y``, ``ty``, ``ally`` their classes, one-hot, ``graph`` lists of neighbours; ``test.index`` is text.
"""

from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from scipy.sparse import csr_matrix

from lrga.data.datasets.masked import Graph, masked_graph
from lrga.data.datasets.source import BuildContext, demand, read_arrays
from lrga.data.datasets.spec import SPLITS, DatasetSpec, Inputs, Schedule, TaskSpec, no_options, spec_of
from lrga.data.packed.graphs import PackedGraphs
from lrga.errors import DataError
from lrga.io.download import RemoteFile
from lrga.io.limits import check_memory
from lrga.io.numeric_csv import read_numbers
from lrga.io.unpickle import load_pickle

PARTS = ("x", "tx", "allx", "y", "ty", "ally", "graph", "test.index")
VALIDATION = 500  # nodes, those after the ones of train
_ARRAYS = ("x_indptr", "x_indices", "x_data", "x_shape", "y", "edge_index", *SPLITS)


def build(name: str, context: BuildContext) -> PackedGraphs:
    """The graph, from the prepared file or Planetoid's own in the folder the user names, else downloaded."""
    spec = spec_of(name)
    below = ("raw", f"{name}/raw", "planetoid", "data")
    paths, form = context.locate(spec.files, [f"{name.lower()}.npz"], [file.name for file in spec.files], below=below)
    graph = read_prepared(paths[0]) if form == 0 else read_raw(dict(zip(PARTS, paths, strict=True)))
    return masked_graph(spec, paths[0].parent, graph, sizes=spec.splits)


def read_prepared(path: Path) -> Graph:
    """The graph in ``cora.npz`` and the like: features as a sparse matrix, edges both ways, nodes of each split."""
    arrays = read_arrays(path, _ARRAYS)
    sparse = {name: arrays[f"x_{name}"] for name in ("data", "indices", "indptr")}
    x = _dense(sparse | {"shape": tuple(arrays["x_shape"].tolist())}, path)
    splits = {split: arrays[split].astype(np.int64) for split in SPLITS}
    return Graph(x, arrays["y"].astype(np.int64), arrays["edge_index"].astype(np.int64), splits)


def read_raw(paths: Mapping[str, Path]) -> Graph:
    """The graph in Planetoid's files, by the names of :data:`PARTS`, with the nodes numbered as they are there."""
    test = read_numbers(paths["test.index"], columns=1)[:, 0]
    tx, allx = (_dense(load_pickle(paths[part], encoding="latin1"), paths[part]) for part in ("tx", "allx"))
    y, ty, ally = (_classes(load_pickle(paths[part], encoding="latin1"), paths[part]) for part in ("y", "ty", "ally"))
    num_nodes = max(len(allx), int(test.max(initial=-1)) + 1)
    fits = len(allx) == len(ally) and len(tx) == len(ty) == len(test) and tx.shape[1:] == allx.shape[1:]
    got = f"{len(allx)} and {len(ally)} nodes, {len(tx)}, {len(ty)} and {len(test)} of the test"
    demand(fits, paths["allx"].parent, "files that fit each other", got)
    features = np.zeros((num_nodes, allx.shape[1]), np.float32)  # a node that no file but the graph has stays zero
    classes = np.zeros(num_nodes, np.int64)
    features[: len(allx)], features[test] = allx, tx
    classes[: len(ally)], classes[test] = ally, ty
    splits = {"train": np.arange(len(y)), "val": np.arange(len(y), len(y) + VALIDATION), "test": test}
    return Graph(features, classes, _edges(load_pickle(paths["graph"], encoding="latin1"), paths["graph"]), splits)


def _dense(matrix: Any, path: Path) -> np.ndarray:
    """A sparse matrix as :func:`load_pickle` gives it, as [N, F] float32."""
    try:
        rows, columns = (int(n) for n in matrix["shape"])
        check_memory(4 * rows * columns, f"the features in {path}")
        parts = (matrix["data"].astype(np.float32), matrix["indices"], matrix["indptr"])
        sparse = csr_matrix(parts, shape=(rows, columns))
        sparse.check_format(full_check=True)
        return np.asarray(sparse.toarray())
    except (KeyError, TypeError, AttributeError, ValueError, IndexError) as error:
        raise DataError(
            f"a sparse matrix of features in {path}", f"another object ({error})", "get it again"
        ) from error


def _classes(one_hot: Any, path: Path) -> np.ndarray:
    is_matrix = isinstance(one_hot, np.ndarray) and one_hot.ndim == 2 and one_hot.dtype.kind in "biuf"
    demand(is_matrix, path, "classes, one-hot,", f"a {type(one_hot).__name__}")
    return one_hot.argmax(1)


def _edges(neighbours: Any, path: Path) -> np.ndarray:
    """[2, E] the edges of lists of neighbours, each once, without loops, ordered by (destination, source)."""
    lists: list[Any] = list(neighbours.values()) if isinstance(neighbours, dict) else [None]
    are_lists = all(isinstance(own, list) and all(type(node) is int for node in own) for own in lists)
    demand(are_lists, path, "lists of neighbours by node", "another object")
    counts = [len(own) for own in lists]
    source = np.repeat(np.array(list(neighbours), np.int64), counts)
    target = np.array([node for own in lists for node in own], np.int64)
    pairs = np.stack([target, source])[:, target != source]
    return np.unique(pairs, axis=1)[::-1]


def _spec(name: str, nodes: int, edges: int, features: int, classes: int, train: int, words: str) -> DatasetSpec:
    site = "https://github.com/kimiyoung/planetoid/raw/master/data"
    return DatasetSpec(
        name=name,
        inputs=Inputs("node", classes, "linear", features, "ones"),
        task=TaskSpec("classification", "cross_entropy", "accuracy"),
        splits={"train": train, "val": VALIDATION, "test": 1_000},
        mean_nodes=nodes,
        mean_edges=edges,
        node_features=f"{words} of the publication, {features:,} numbers, as published (not normalised)",
        edge_features="none",
        obtained="downloaded",
        origin="publications that cite each other, in classes; the files of https://github.com/kimiyoung/planetoid",
        licence="MIT",
        terms="files MIT, as the publisher's repository states; terms of the citation data are not stated there",
        citation=(
            "Yang, Cohen, Salakhutdinov: Revisiting Semi-Supervised Learning with Graph Embeddings. ICML 2016. "
            "arXiv:1603.08861",
            "Sen, Namata, Bilgic, Getoor, Galligher, Eliassi-Rad: Collective Classification in Network Data. "
            "AI Magazine 29(3), 2008",
        ),
        options=no_options,
        build=partial(build, name),
        files=tuple(RemoteFile(f"{site}/ind.{name.lower()}.{part}", f"ind.{name.lower()}.{part}") for part in PARTS),
        one_graph=True,
        schedule=Schedule(lr=0.01, weight_decay=5e-4, patience=50, batch_size=1, max_epochs=500),
        # With so few labels a network fits all of them in 10 epochs. LRGA + GCN (width 64, 2 layers, 60 epochs)
        # then has 48% in validation on Cora, with this dropout 58%. Fresh BatchNorm statistics change that by 2 points.
        dropout=0.5,
        note="The public split; duplicate edges and loops of the files are left out, as in PyG.",
    )


SPECS = (
    _spec("Cora", 2_708, 10_556, 1_433, 7, 140, "which words occur in the text"),
    _spec("CiteSeer", 3_327, 9_104, 3_703, 6, 120, "which words occur in the text"),
    _spec("PubMed", 19_717, 88_648, 500, 3, 60, "TF-IDF of the words"),
)
