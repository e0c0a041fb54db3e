"""A graph for link prediction in one ``safetensors`` file, node numbers in 32 bits."""

from pathlib import Path

import torch
from torch import Tensor

from lrga.data.links.data import SPLITS, LinkData, LinkSplit
from lrga.io.safetensors import load_data, save_data

FORMAT = 1
HEADER = "lrga-link"
_PLAIN = ("num_nodes", "undirected", "metric", "node_ids", "meta")


def save_link_data(data: LinkData, path: Path) -> None:
    """Writes ``data`` to ``path``, atomically. Training edges that are the graph's own are written once."""
    shared = data.splits["train"].edge is data.edge or torch.equal(data.splits["train"].edge, data.edge)
    tensors: dict[str, Tensor | None] = {
        "edge": data.edge, "x": data.x, "edge_weight": data.edge_weight, "edge_year": data.edge_time,
    }  # fmt: skip
    for name in SPLITS:
        for key, value in data.splits[name].tensors().items():
            if not (shared and name == "train" and key == "edge"):
                tensors[f"{name}.{key}"] = value
    header = {key: getattr(data, key) for key in _PLAIN} | {"format": FORMAT, "train_is_graph": shared}
    flat = {name: _narrow(value, data.num_nodes) for name, value in tensors.items() if value is not None}
    save_data(path, flat, header, key=HEADER)


def load_link_data(path: Path) -> LinkData:
    """Reads what :func:`save_link_data` wrote."""
    stored, header = load_data(path, key=HEADER, version=FORMAT, what="a graph for link prediction")
    tensors = {name: _widen(tensor) for name, tensor in stored.items()}
    if header["train_is_graph"]:
        tensors["train.edge"] = tensors["edge"]
    more = ("edge_neg", "weight", "year")
    splits = {
        name: LinkSplit(tensors[f"{name}.edge"], *(tensors.get(f"{name}.{key}") for key in more)) for name in SPLITS
    }
    ids = header["node_ids"]
    return LinkData(
        num_nodes=header["num_nodes"],
        edge=tensors["edge"],
        splits=splits,
        undirected=header["undirected"],
        x=tensors.get("x"),
        edge_weight=tensors.get("edge_weight"),
        edge_time=tensors.get("edge_year"),
        metric=header["metric"],
        node_ids=None if ids is None else tuple(ids),
        meta=header["meta"],
    )


def _narrow(tensor: Tensor, num_nodes: int) -> Tensor:
    small = tensor.dtype == torch.int64 and num_nodes < 2**31 and _fits(tensor)
    return tensor.int() if small else tensor


def _fits(tensor: Tensor) -> bool:
    return tensor.numel() == 0 or (int(tensor.min()) >= -(2**31) and int(tensor.max()) < 2**31)


def _widen(tensor: Tensor) -> Tensor:
    return tensor.long() if tensor.dtype == torch.int32 else tensor
