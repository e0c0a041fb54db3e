"""A packed set in one ``safetensors`` file: the tensors as in memory, everything else as JSON in the header."""

import json
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from lrga.data.packed.graphs import Column, PackedGraphs
from lrga.data.packed.segments import DTYPES, narrow, pointer
from lrga.errors import DataError
from lrga.io.limits import reading
from lrga.io.safetensors import load_data, save_data

FORMAT = 1
HEADER = "lrga"


def save_packed(packed: PackedGraphs, path: Path) -> None:
    """Writes ``packed`` to ``path``, atomically."""
    tensors = {
        "num_nodes": narrow(packed.nodes_per_graph),
        "num_edges": narrow(packed.edges_per_graph),
        "source": packed.source,
        "in_degree": packed.in_degree,
    }
    if packed.edge_order is not None:
        tensors["edge_order"] = packed.edge_order
    schema: dict[str, Any] = {}
    for name, column in packed.columns.items():
        tensors[f"column.{name}"] = column.values
        schema[name] = {"level": column.level, "dtype": _name(column.dtype)}
    header = {
        "format": FORMAT,
        "columns": schema,
        "y_level": packed.y_level,
        "edge_dtype": None if packed.edge_dtype is None else _name(packed.edge_dtype),
        "explicit_num_nodes": packed.explicit_num_nodes,
        "objects": _plain(packed.objects, path),
        "meta": packed.meta,
    }
    save_data(path, tensors, header, key=HEADER)


def load_packed(path: Path) -> PackedGraphs:
    """Reads a file of :func:`save_packed`."""
    tensors, header = load_data(path, key=HEADER, version=FORMAT, what="a packed set of graphs")
    with reading(path, "a packed set of graphs in", remedy="build it again"):
        return _assemble(header, tensors)


def _assemble(header: dict[str, Any], tensors: dict[str, Tensor]) -> PackedGraphs:
    columns = {
        name: Column(facts["level"], tensors[f"column.{name}"], DTYPES[facts["dtype"]])
        for name, facts in header["columns"].items()
    }
    return PackedGraphs(
        node_ptr=pointer(tensors["num_nodes"]),
        edge_ptr=pointer(tensors["num_edges"]),
        source=tensors["source"],
        in_degree=tensors["in_degree"],
        edge_order=tensors.get("edge_order"),
        columns=columns,
        objects=header["objects"],
        y_level=header["y_level"],
        edge_dtype=None if header["edge_dtype"] is None else DTYPES[header["edge_dtype"]],
        explicit_num_nodes=header["explicit_num_nodes"],
        meta=header["meta"],
    )


def _plain(objects: dict[str, list[Any]], path: Path) -> dict[str, list[Any]]:
    for name, values in objects.items():
        for g, value in enumerate(values):
            try:
                same = json.loads(json.dumps(value)) == value
            except (TypeError, ValueError):
                same = False
            if not isinstance(same, bool) or not same:
                raise DataError(
                    f"attributes that JSON can represent, to write {path}",
                    f"{name} of graph {g}, a {type(value).__name__}",
                    f"give {name} one shape in every graph, convert it to text or a list of numbers, or delete it",
                )
    return objects


def _name(dtype: torch.dtype) -> str:
    return str(dtype).removeprefix("torch.")
