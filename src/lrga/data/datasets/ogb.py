"""ogbl-ppa, ogbl-collab and ogbl-ddi from the files of the Open Graph Benchmark, without the ogb package.

A set is the unpacked folder of its archive::

    raw/num-node-list.csv.gz  raw/num-edge-list.csv.gz  raw/edge.csv.gz       one graph, every edge once
    raw/node-feat.csv.gz  raw/edge_weight.csv.gz  raw/edge_year.csv.gz        if the set has them
    split/KIND/train.pt  valid.pt  test.pt                                    dicts of arrays edge, edge_neg, …
"""

from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch

from lrga.data.datasets.source import BuildContext, demand, read_numbers
from lrga.data.datasets.spec import DatasetSpec, Inputs, TaskSpec, spec_of
from lrga.data.links.data import LinkData, LinkSplit
from lrga.io.download import RemoteFile
from lrga.io.limits import reading
from lrga.io.unpickle import read_pt

FILES = {"train": "train.pt", "val": "valid.pt", "test": "test.pt"}
OGB = (
    "Hu, Fey, Zitnik, Dong, Ren, Liu, Catasta, Leskovec: Open Graph Benchmark: Datasets for Machine Learning on "
    "Graphs. NeurIPS 2020. arXiv:2005.00687"
)


def build(name: str, kind: str, folder: str, weighted: bool, context: BuildContext) -> LinkData:
    """Builds a set from the user's folder, else from the official archive, and checks the files against each other.

    Args:
        name: The set.
        kind: Subfolder of ``split``.
        folder: Folder in the archive.
        weighted: Whether edges have a weight and a year.
        context: Folders and progress of the build.
    """
    spec = spec_of(name)
    tables = ["num-node-list", "num-edge-list", "edge", *["node-feat"] * (spec.inputs.in_channels != 0)]
    tables += ["edge_weight", "edge_year"] * weighted
    files = [f"raw/{table}.csv.gz" for table in tables] + [f"split/{kind}/{file}" for file in FILES.values()]
    paths, _ = context.locate(spec.files, files, below=(name.replace("-", "_"), name, folder))
    places = dict(zip([*tables, *FILES], paths, strict=True))

    def numbers(table: str, **options: Any) -> Any:
        context.progress(f"reading {table}", 0, None)
        return torch.from_numpy(read_numbers(places[table], **options)) if table in places else None

    nodes, edges = (int(read_numbers(places[f"num-{what}-list"], columns=1, rows=1)[0, 0]) for what in ("node", "edge"))
    edge = numbers("edge", columns=2, rows=edges)
    x = numbers("node-feat", dtype=np.float32, columns=spec.inputs.in_channels, rows=nodes)
    weight, year = (numbers(table, columns=1, rows=edges) for table in ("edge_weight", "edge_year"))
    splits = {}
    for number, split in enumerate(FILES):
        context.progress("reading the splits", number, len(FILES))
        splits[split] = _split(places[split])
    found = {"nodes": nodes} | {split: len(part.edge) for split, part in splits.items()}
    wanted = {"nodes": int(spec.mean_nodes)} | spec.splits
    odd = [f"{key} {found[key]:,} (published {wanted[key]:,})" for key in found if found[key] != wanted[key]]
    data = LinkData(
        num_nodes=nodes,
        edge=edge,
        splits=splits,
        x=x,
        edge_weight=None if weight is None else weight[:, 0].float(),
        edge_time=None if year is None else year[:, 0],
        metric=spec.task.metric,
        # Reported with every result on such files:
        meta={"dataset": name} | ({"differs": f"not the published set: {', '.join(odd)}"} if odd else {}),
    )
    data.check(str(paths[0].parents[1]))
    return data


def _split(path: Path) -> LinkSplit:
    """Reads a split of the benchmark: a dict of integer arrays or tensors."""
    with reading(path, "a dict with edge (and edge_neg, except for train) in", remedy="download the file again"):
        tensors = {}
        for key, value in read_pt(path).items():
            array = np.asarray(value)
            whole = array.dtype.kind in "iu" or (array.dtype.kind == "f" and (array == np.round(array)).all())
            demand(whole and np.isfinite(array).all(), path, f"integers as {key!r}", f"other values ({array.dtype})")
            tensors[key] = torch.from_numpy(array.astype(np.int64))
        weight = tensors["weight"].float() if "weight" in tensors else None
        return LinkSplit(tensors["edge"], tensors.get("edge_neg"), weight, tensors.get("year"))


def _spec(
    name: str,
    kind: str,
    folder: str,
    metric: str,
    *,
    weighted: bool = False,
    splits: tuple[int, int, int],
    features: int = 0,
    what: str,
    licence: str,
    citation: str,
    **facts: Any,
) -> DatasetSpec:
    return DatasetSpec(
        name=name,
        inputs=Inputs("link", 1, "linear" if features else "learned", features, "ones"),
        task=TaskSpec("prediction", "link", metric),
        splits=dict(zip(FILES, splits, strict=True)),
        origin=f"the Open Graph Benchmark's files: {what}; numbers of train/val/test are edges, one graph",
        licence=licence,
        terms=f"{licence}, as the Open Graph Benchmark states",
        citation=(OGB, citation),
        build=partial(build, name, kind, folder, weighted),
        files=(RemoteFile(f"https://snap.stanford.edu/ogb/data/linkproppred/{folder}.zip", f"{folder}.zip"),),
        one_graph=True,
        **facts,
    )


SPECS = (
    _spec(
        "ogbl-ppa",
        "throughput",
        "ppassoc",
        "hits@100",
        splits=(21_231_931, 6_062_562, 3_031_780),
        mean_nodes=576_289.0,
        mean_edges=42_463_862.0,
        features=58,
        node_features="species of the protein, one of 58, one-hot",
        what="associations of proteins, split by the method that found them",
        licence="CC-0",
        citation="Szklarczyk et al.: STRING v11: protein-protein association networks with increased coverage. "
        "Nucleic Acids Research 47(D1), 2019",
    ),
    _spec(
        "ogbl-collab",
        "time",
        "collab",
        "hits@50",
        weighted=True,
        splits=(1_179_052, 60_084, 46_329),
        mean_nodes=235_868.0,
        mean_edges=2_358_104.0,
        features=128,
        node_features="mean word vector of the author's papers, 128 numbers",
        edge_features="number of joint papers in a year (weight), and the year",
        what="authors, linked by joint papers, split by year",
        licence="ODC-BY",
        citation="Wang, Shen, Huang, Wu, Dong, Kanakia: Microsoft Academic Graph: When experts are not enough. "
        "Quantitative Science Studies 1(1), 2020",
    ),
    _spec(
        "ogbl-ddi",
        "target",
        "ddi",
        "hits@20",
        splits=(1_067_911, 133_489, 133_489),
        mean_nodes=4_267.0,
        mean_edges=2_135_822.0,
        node_features="none (learned embeddings)",
        what="interactions of drugs, split by target protein",
        licence="CC-0",
        citation="Wishart et al.: DrugBank 5.0: a major update to the DrugBank database for 2018. "
        "Nucleic Acids Research 46(D1), 2018",
    ),
)
