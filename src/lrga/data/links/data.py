"""One large graph and the edges to predict in it.

Letters: N nodes, E directed edges of the graph, P positive and M negative pairs of a split.
"""

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from lrga.data.datasets.spec import SPLITS as SPLITS
from lrga.data.packed.segments import narrow
from lrga.errors import DataError, NonFiniteError, ShapeError
from lrga.io.safetensors import load_data, save_data
from lrga.ops.neighbors.edges import EdgeLayout

FORMAT = 1
HEADER = "lrga-link"
_PLAIN = ("num_nodes", "undirected", "metric", "node_ids", "meta")


@dataclass(frozen=True, eq=False)
class LinkSplit:
    """Pairs of one split.

    Attributes:
        edge: Pairs that are edges, ``[P, 2]`` int64.
        edge_neg: Pairs that are not edges, ``[M, 2]``; ``None`` for training, where they are sampled.
        weight: Weights of the edges, ``[P]`` float32.
        time: Times of the edges, ``[P]`` int64: years, seconds or any other order.
    """

    edge: Tensor
    edge_neg: Tensor | None = None
    weight: Tensor | None = None
    time: Tensor | None = None

    def to(self, device: torch.device | str) -> "LinkSplit":
        """Moves the tensors to ``device``."""
        moved: dict[str, Any] = {key: None if v is None else v.to(device) for key, v in vars(self).items()}
        return LinkSplit(**moved)


@dataclass(frozen=True, kw_only=True, eq=False)
class LinkData:
    """A graph for link prediction.

    Attributes:
        num_nodes: N.
        edge: Edges of the training graph, ``[E', 2]`` int64; if ``undirected``, each edge once.
        splits: ``train``, ``val`` and ``test``.
        undirected: Whether every edge stands for both directions.
        x: Node features ``[N, F]`` float32.
        edge_weight: ``[E']`` float32.
        edge_time: ``[E']`` int64, as in :class:`LinkSplit`.
        metric: Reported metric: ``"hits@20"``, ``"mrr"``, ``"auc"``.
        node_ids: Names of nodes 0, 1, … in the user's own data.
        meta: Facts about the data, as JSON values.

    Example:
        >>> edge = torch.tensor([[0, 1], [1, 2]])
        >>> split = LinkSplit(edge=edge)
        >>> data = LinkData(num_nodes=3, edge=edge, splits={"train": split, "val": split, "test": split})
        >>> data.edge_index.tolist()
        [[0, 1, 1, 2], [1, 0, 2, 1]]
    """

    num_nodes: int
    edge: Tensor
    splits: Mapping[str, LinkSplit]
    undirected: bool = True
    x: Tensor | None = None
    edge_weight: Tensor | None = None
    edge_time: Tensor | None = None
    metric: str = "hits@50"
    node_ids: tuple[str, ...] | None = None
    meta: dict[str, Any] = field(default_factory=dict)

    @property
    def edge_index(self) -> Tensor:
        """The edges in PyG's format, ``[2, E]``; an undirected edge is followed by its inverse."""
        return as_edge_index(self.edge, undirected=self.undirected)

    @property
    def num_features(self) -> int | None:
        """F; ``None`` without node features."""
        return None if self.x is None else self.x.size(1)

    @property
    def device(self) -> torch.device:
        """The device of the tensors."""
        return self.edge.device

    def to(self, device: torch.device | str) -> "LinkData":
        """Moves the tensors to ``device``."""
        moved: dict[str, Any] = {key: v.to(device) for key, v in vars(self).items() if isinstance(v, Tensor)}
        return replace(self, **moved, splits={name: split.to(device) for name, split in self.splits.items()})

    def graph(self, *, with_validation: bool = False, weighted: bool = True) -> "LinkGraph":
        """The sorted edges for message passing, with the validation edges if the test may use them.

        Validation edges without a weight get weight 1.
        """
        edge, weight = self.edge, self.edge_weight if weighted else None
        if with_validation:
            more = self.splits["val"]
            edge = torch.cat([edge, more.edge])
            if weight is not None:
                added = more.weight if more.weight is not None else weight.new_ones(more.edge.size(0))
                weight = torch.cat([weight, added])
        index = as_edge_index(edge, undirected=self.undirected)
        layout, order = EdgeLayout.from_edge_index(index, self.num_nodes, check=False)
        if weight is not None:
            weight = (weight.repeat_interleave(2) if self.undirected else weight).index_select(0, order)
        return LinkGraph(layout, weight, bool((layout.source == layout.target).any()))

    def fingerprint(self) -> str:
        """A checksum of graph and splits, so that a run is not resumed on other data."""
        digest = hashlib.sha256(f"{self.num_nodes} {self.undirected} {self.metric}".encode())
        for name, tensor in self.tensors().items():
            name = {"edge_weight": "weight", "edge_year": "year"}.get(name, name)
            digest.update(f"{name} {tensor.dtype} {list(tensor.shape)}".encode())
            digest.update(tensor.detach().cpu().contiguous().view(-1).view(torch.uint8).numpy().data)
        return digest.hexdigest()

    def tensors(self) -> dict[str, Tensor]:
        """All tensors by their names in files."""
        found = {"edge": self.edge, "x": self.x, "edge_weight": self.edge_weight, "edge_year": self.edge_time}
        for name in SPLITS:
            own = self.splits[name]
            values = {"edge": own.edge, "edge_neg": own.edge_neg, "weight": own.weight, "year": own.time}
            found |= {f"{name}.{key}": value for key, value in values.items()}
        return {name: tensor for name, tensor in found.items() if tensor is not None}

    def check(self, where: str) -> None:
        """Raises an error if splits or attributes do not fit the graph."""
        remedy = "download all files again from one source: they do not fit together"
        if missing := [name for name in SPLITS if name not in self.splits]:
            raise DataError(f"the splits train, val and test in {where}", f"no {missing[0]}", remedy)
        pairs = {"the graph": self.edge} | {f"the edges of {name}": self.splits[name].edge for name in SPLITS}
        pairs |= {f"the negative pairs of {n}": e for n in SPLITS if (e := self.splits[n].edge_neg) is not None}
        for what, edge in pairs.items():
            if edge.dim() != 2 or edge.size(1) != 2 or edge.dtype != torch.int64:
                got = f"{edge.dtype} of shape {list(edge.shape)}"
                raise ShapeError(f"{what} in {where} as rows of two nodes in int64", got, remedy)
            if edge.numel() and not 0 <= int(edge.min()) <= int(edge.max()) < self.num_nodes:
                bad = int(edge.max()) if int(edge.min()) >= 0 else int(edge.min())
                raise DataError(f"nodes 0 to {self.num_nodes - 1:,} in {what} in {where}", f"node {bad:,}", remedy)
        for name, use in (("val", "predict in 'val'"), ("test", "predict in 'test'"), ("train", "train on")):
            if self.splits[name].edge.size(0) == 0:
                raise DataError(f"edges to {use} in {where}", "none", "choose another split")
            if name != "train" and len(pairs.get(f"the negative pairs of {name}", ())) == 0:
                # otherwise every metric would be perfect
                raise DataError(f"negative pairs of {name!r} in {where}", "none", "provide pairs that are not edges")
        x = self.x
        if x is not None and (x.dim() != 2 or x.size(0) != self.num_nodes or x.dtype != torch.float32):
            expected, got = f"[{self.num_nodes}, F] in {where}", f"{x.dtype} of shape {list(x.shape)}"
            raise ShapeError(f"node features in float32 of shape {expected}", got, "pass one row per node")
        weights = {"the graph": (self.edge_weight, self.edge)}
        weights |= {f"{name!r}": (split.weight, split.edge) for name, split in self.splits.items()}
        for what, (weight, edge) in weights.items():
            if weight is not None and weight.shape != edge.shape[:1]:
                expected = f"a weight for each of {edge.size(0):,} edges of {what} in {where}"
                raise ShapeError(expected, f"shape {list(weight.shape)}", "pass one weight per edge")
        for what, values in {"node features": x, "edge weights": self.edge_weight}.items():
            if values is not None and not bool(values.isfinite().all()):
                remedy = "replace missing values, and scale values that are too large for float32"
                raise NonFiniteError(f"finite {what} in {where}", "NaN or infinity", remedy)


@dataclass(frozen=True, eq=False)
class LinkGraph:
    """Sorted edges, their weights in the same order, and whether there are self-loops."""

    layout: EdgeLayout
    weight: Tensor | None
    has_loops: bool


def as_edge_index(edge: Tensor, *, undirected: bool) -> Tensor:
    """Converts pairs ``[E', 2]`` to ``[2, E]``; if ``undirected``, each edge is followed by its inverse, as in OGB."""
    if not undirected:
        return edge.t().contiguous()
    result = edge.new_empty(2, 2 * edge.size(0))
    result[0, 0::2], result[1, 0::2] = edge[:, 0], edge[:, 1]
    result[0, 1::2], result[1, 1::2] = edge[:, 1], edge[:, 0]
    return result


def save_link_data(data: LinkData, path: Path) -> None:
    """Writes ``data`` to ``path`` atomically. Training edges that equal the graph's edges are written once."""
    tensors = {name: narrow(tensor) for name, tensor in data.tensors().items()}
    shared = data.splits["train"].edge is data.edge or torch.equal(data.splits["train"].edge, data.edge)
    if shared:
        del tensors["train.edge"]
    header = {key: getattr(data, key) for key in _PLAIN} | {"format": FORMAT, "train_is_graph": shared}
    save_data(path, tensors, header, key=HEADER)


def load_link_data(path: Path) -> LinkData:
    """Reads a file of :func:`save_link_data`."""
    with load_data(path, key=HEADER, version=FORMAT, what="a graph for link prediction") as (stored, header):
        tensors = {name: tensor if tensor.is_floating_point() else tensor.long() for name, tensor in stored.items()}
        if header["train_is_graph"]:
            tensors["train.edge"] = tensors["edge"]
        more = ("edge_neg", "weight", "year")
        splits = {n: LinkSplit(tensors[f"{n}.edge"], *(tensors.get(f"{n}.{key}") for key in more)) for n in SPLITS}
        plain = {key: header[key] for key in _PLAIN}
        return LinkData(
            edge=tensors["edge"],
            splits=splits,
            x=tensors.get("x"),
            edge_weight=tensors.get("edge_weight"),
            edge_time=tensors.get("edge_year"),
            **plain | {"node_ids": plain["node_ids"] and tuple(plain["node_ids"])},
        )
