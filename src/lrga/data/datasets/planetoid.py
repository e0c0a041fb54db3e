"""Cora, CiteSeer and PubMed with the public split, from the files of Planetoid or from a prepared file.

Planetoid's ``ind.NAME.*`` are pickles: ``x``, ``tx``, ``allx`` sparse features of train, test and all other nodes,
``y``, ``ty``, ``ally`` their one-hot classes, ``graph`` lists of neighbours; ``test.index`` is text.
"""

from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from scipy.sparse import csr_matrix

from lrga.data.datasets.masked import Graph, masked_graph
from lrga.data.datasets.source import BuildContext, demand, read_arrays, read_numbers
from lrga.data.datasets.spec import SPLITS, DatasetSpec, Inputs, Schedule, TaskSpec, spec_of
from lrga.data.packed.graphs import PackedGraphs
from lrga.io.download import RemoteFile
from lrga.io.limits import check_memory, reading
from lrga.io.unpickle import load_pickle

PARTS = ("x", "tx", "allx", "y", "ty", "ally", "graph", "test.index")
VALIDATION = 500  # number of nodes, directly after those of train
_ARRAYS = ("x_indptr", "x_indices", "x_data", "x_shape", "y", "edge_index", *SPLITS)


def build(name: str, context: BuildContext) -> PackedGraphs:
    """Builds the graph from the prepared file or Planetoid's files in the user's folder, else from downloads."""
    spec = spec_of(name)
    below = ("raw", f"{name}/raw", "planetoid", "data")
    paths, form = context.locate(spec.files, [f"{name.lower()}.npz"], [file.name for file in spec.files], below=below)
    graph = read_prepared(paths[0]) if form == 0 else read_raw(dict(zip(PARTS, paths, strict=True)))
    return masked_graph(spec, paths[0].parent, graph, sizes=spec.splits)


def read_prepared(path: Path) -> Graph:
    """Reads ``cora.npz`` and similar files: sparse features, both directions of every edge, nodes of each split."""
    arrays = read_arrays(path, _ARRAYS)
    sparse = {name: arrays[f"x_{name}"] for name in ("data", "indices", "indptr")}
    x = _dense(sparse | {"shape": tuple(arrays["x_shape"].tolist())}, path)
    return Graph(x, arrays["y"], arrays["edge_index"], {split: arrays[split] for split in SPLITS})


def read_raw(paths: Mapping[str, Path]) -> Graph:
    """Reads the graph from Planetoid's files, by the names of :data:`PARTS`; nodes keep their numbers."""
    test = read_numbers(paths["test.index"], columns=1)[:, 0]
    tx, allx = (_dense(load_pickle(paths[part], encoding="latin1"), paths[part]) for part in ("tx", "allx"))
    y, ty, ally = (_classes(load_pickle(paths[part], encoding="latin1"), paths[part]) for part in ("y", "ty", "ally"))
    num_nodes = max(len(allx), int(test.max(initial=-1)) + 1)
    fits = len(allx) == len(ally) and len(tx) == len(ty) == len(test) and tx.shape[1:] == allx.shape[1:]
    got = f"allx {len(allx)}, ally {len(ally)}, tx {len(tx)}, ty {len(ty)} and test.index {len(test)} rows"
    demand(fits, paths["allx"].parent, "files of matching sizes", got)
    features = np.zeros((num_nodes, allx.shape[1]), np.float32)  # nodes that occur only in the graph file stay zero
    classes = np.zeros(num_nodes, np.int64)
    features[: len(allx)], features[test] = allx, tx
    classes[: len(ally)], classes[test] = ally, ty
    splits = {"train": np.arange(len(y)), "val": np.arange(len(y), len(y) + VALIDATION), "test": test}
    with reading(paths["graph"], "lists of neighbours by node in", remedy="download it again"):
        neighbours = load_pickle(paths["graph"], encoding="latin1")
        pairs = [(target, source) for source, own in neighbours.items() for target in own]
        ends = np.array(pairs, np.int64).reshape(-1, 2)
        # without duplicates and loops, ordered by (destination, source)
        edges = np.unique(ends[ends[:, 0] != ends[:, 1]], axis=0).T[::-1]
    return Graph(features, classes, edges, splits)


def _dense(matrix: Any, path: Path) -> np.ndarray:
    """Converts a sparse matrix from :func:`load_pickle` to [N, F] float32."""
    with reading(path, "a sparse matrix of features in", remedy="download it again"):
        rows, columns = (int(n) for n in matrix["shape"])
        check_memory(4 * rows * columns, f"the features in {path}")
        parts = (matrix["data"].astype(np.float32), matrix["indices"], matrix["indptr"])
        sparse = csr_matrix(parts, shape=(rows, columns))
        sparse.check_format(full_check=True)
        return np.asarray(sparse.toarray())


def _classes(one_hot: Any, path: Path) -> np.ndarray:
    is_matrix = isinstance(one_hot, np.ndarray) and one_hot.ndim == 2 and one_hot.dtype.kind in "biuf"
    demand(is_matrix, path, "one-hot classes", f"a {type(one_hot).__name__}")
    return one_hot.argmax(1)


# With so few labels a network fits all of them in 10 epochs. On Cora the benchmark's layers (BatchNorm, an MLP of three
# layers as head) reach 73% with GCN and 56% with LRGA + GCN: the layer's input, which LRGA's linear map also reads,
# suffices to fit the labels. These settings reach 80.3% and 79.6% (60 epochs, 3 seeds).
_NETWORK = {"budget": "500K", "layers": 3, "block": "residual", "norm": "layer", "head_layers": 1, "dropout": 0.5}


def _spec(name: str, nodes: int, edges: int, features: int, classes: int, train: int, words: str) -> DatasetSpec:
    site = "https://github.com/kimiyoung/planetoid/raw/master/data"
    return DatasetSpec(
        name=name,
        inputs=Inputs("node", classes, "linear", features, "ones"),
        task=TaskSpec("classification", "cross_entropy", "accuracy"),
        splits={"train": train, "val": VALIDATION, "test": 1_000},
        mean_nodes=nodes,
        mean_edges=edges,
        node_features=f"{words}, {features:,} numbers, not normalised",
        origin="publications linked by citations, in classes by topic; the files of https://github.com/kimiyoung/planetoid",
        licence="MIT",
        terms="files MIT, as the publisher's repository states; terms of the citation data are not stated there",
        citation=(
            "Yang, Cohen, Salakhutdinov: Revisiting Semi-Supervised Learning with Graph Embeddings. ICML 2016. "
            "arXiv:1603.08861",
            "Sen, Namata, Bilgic, Getoor, Galligher, Eliassi-Rad: Collective Classification in Network Data. "
            "AI Magazine 29(3), 2008",
        ),
        build=partial(build, name),
        files=tuple(RemoteFile(f"{site}/ind.{name.lower()}.{part}", f"ind.{name.lower()}.{part}") for part in PARTS),
        one_graph=True,
        schedule=Schedule(lr=5e-3, weight_decay=2e-2, patience=50, batch_size=1, max_epochs=200),
        network=_NETWORK,
        note="The public split; duplicate edges and loops of the files are left out, as in PyG.",
    )


SPECS = (
    _spec("Cora", 2_708, 10_556, 1_433, 7, 140, "bag of words"),
    _spec("CiteSeer", 3_327, 9_104, 3_703, 6, 120, "bag of words"),
    _spec("PubMed", 19_717, 88_648, 500, 3, 60, "TF-IDF of words"),
)
