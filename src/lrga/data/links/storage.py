"""A graph for link prediction in one ``safetensors`` file, node numbers in 32 bits."""

import json
from pathlib import Path

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor

from lrga.data.links.data import SPLITS, LinkData, LinkSplit
from lrga.errors import ChecksumError, DataError, DataMissingError
from lrga.io.files import atomic_path
from lrga.io.limits import parse_json

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
    with atomic_path(path) as temporary:
        try:
            save_file(flat, temporary, metadata={HEADER: json.dumps(header)})
        except SafetensorError as error:
            remedy = "free some space, or choose another folder with --data-root or LRGA_DATA"
            raise DataError(f"to write {path}", str(error), remedy) from error


def load_link_data(path: Path) -> LinkData:
    """Reads what :func:`save_link_data` wrote."""
    if not path.is_file():
        raise DataMissingError(f"the file {path}", "no such file", "build the data set, or name another file")
    try:
        with safe_open(path, framework="pt") as file:
            header = parse_json((file.metadata() or {})[HEADER])
            tensors = {name: _widen(file.get_tensor(name)) for name in file.keys()}  # noqa: SIM118
    except SafetensorError as error:
        raise ChecksumError(f"a whole safetensors file {path}", str(error), "build the data set again") from error
    except (KeyError, ValueError) as error:
        got = f"a file without {error}"
        raise DataError(f"a graph for link prediction in {path}", got, "build it again") from error
    if header.get("format") != FORMAT:
        raise DataError(f"{path} in format {FORMAT}", f"format {header.get('format')}", "build the data set again")
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
    return (tensor.int() if small else tensor.clone()).cpu().contiguous()  # copies: safetensors takes no shared memory


def _fits(tensor: Tensor) -> bool:
    return tensor.numel() == 0 or (int(tensor.min()) >= -(2**31) and int(tensor.max()) < 2**31)


def _widen(tensor: Tensor) -> Tensor:
    return tensor.long() if tensor.dtype == torch.int32 else tensor
