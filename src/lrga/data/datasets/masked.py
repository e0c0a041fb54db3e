"""One graph whose nodes are split: stored once, as three splits that share memory."""

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np

from lrga.data.datasets.source import demand
from lrga.data.datasets.spec import SPLITS, DatasetSpec
from lrga.data.packed.arrays import pack_arrays
from lrga.data.packed.graphs import PackedGraphs


class Graph(NamedTuple):
    """Features [N, F], classes [N], directed edges [2, E] and the node indices of each split."""

    x: np.ndarray
    y: np.ndarray
    edge_index: np.ndarray
    splits: dict[str, np.ndarray]


def masked_graph(
    spec: DatasetSpec, where: object, graph: Graph, *, sizes: Mapping[str, int] | None = None
) -> PackedGraphs:
    """The graph with ``train_mask``, ``val_mask`` and ``test_mask``, compared with the published totals.

    Args:
        spec: The data set; it gives the expected numbers of nodes, edges, features and classes.
        where: The file or folder that was read, for errors.
        graph: The graph that was read.
        sizes: Expected number of nodes of each split.
    """
    x, y, edge_index, splits = graph
    num_nodes = len(y)
    demand(np.isfinite(x).all(), where, "finite node features", "NaN or infinity")
    for name, values in {"class": y, "end of an edge": edge_index, **splits}.items():
        whole = values.dtype.kind in "iu" and values.min(initial=0) >= 0
        demand(whole, f"every {name} of {where}", "integers from 0", f"{values.dtype} from {values.min(initial=0)}")
    masks = {split: np.zeros(num_nodes, bool) for split in SPLITS}
    for split, nodes in splits.items():
        fits = 0 <= nodes.min(initial=0) <= nodes.max(initial=0) < num_nodes
        demand(fits, f"{split} of {where}", f"nodes 0 to {num_nodes - 1}", f"node {nodes.max(initial=0)}")
        masks[split][nodes] = True
    apart = np.stack(list(masks.values())).sum(0).max(initial=0) <= 1
    demand(apart, where, "splits that do not overlap", "a node in two of them")
    names, inputs = ("nodes", "edges", "features", "classes", *(sizes or {})), spec.inputs
    chosen = [int(masks[split].sum()) for split in sizes or {}]
    counts = num_nodes, edge_index.shape[1], x.shape[1], int(y.max(initial=0)) + 1
    found = dict(zip(names, (*counts, *chosen), strict=True))
    totals = int(spec.mean_nodes), int(spec.mean_edges), inputs.in_channels, inputs.out_channels
    published = dict(zip(names, (*totals, *(sizes or {}).values()), strict=True))
    demand(found == published, where, f"{spec.name} of {_listed(published)}", _listed(found))
    return pack_arrays(
        num_nodes=np.array([num_nodes]),
        num_edges=np.array([edge_index.shape[1]]),
        edge_index=edge_index.astype(np.int64),
        x=x.astype(np.float32),
        y=y.astype(np.int64),
        y_level="node",
        node={f"{split}_mask": mask for split, mask in masks.items()},
        keep_edge_order=False,
    )


def masked_splits(graph: PackedGraphs) -> dict[str, PackedGraphs]:
    """The splits of such a graph, in shared memory, each with its ``mask``."""
    masks = {split: graph.columns[f"{split}_mask"] for split in SPLITS}
    kept = {name: column for name, column in graph.columns.items() if not name.endswith("_mask")}
    splits = {}
    for split, mask in masks.items():
        splits[split] = graph.with_column("mask", mask)
        splits[split].columns = kept | {"mask": mask}
        splits[split].meta = graph.meta | {"split": split}
    return splits


def _listed(counts: Mapping[str, object]) -> str:
    return ", ".join(f"{name} {count:,}" for name, count in counts.items())
