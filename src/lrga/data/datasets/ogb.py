"""ogbl-ppa, ogbl-collab and ogbl-ddi from the files of the Open Graph Benchmark, without the ogb package.

A set is the unpacked folder of its archive::

    raw/num-node-list.csv.gz  raw/num-edge-list.csv.gz  raw/edge.csv.gz       one graph, every edge once
    raw/node-feat.csv.gz  raw/edge_weight.csv.gz  raw/edge_year.csv.gz        if the set has them
    split/KIND/train.pt  valid.pt  test.pt                                    dicts of arrays edge, edge_neg, …
"""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch

from lrga.data.datasets.source import BuildContext, demand
from lrga.data.datasets.spec import DatasetSpec, Inputs, TaskSpec, spec_of
from lrga.data.links.data import LinkData, LinkSplit
from lrga.io.download import RemoteFile
from lrga.io.limits import reading
from lrga.io.numeric_csv import read_numbers
from lrga.io.progress import Progress, silent
from lrga.io.unpickle import read_pt

FILES = {"train": "train.pt", "val": "valid.pt", "test": "test.pt"}
OGB = (
    "Hu, Fey, Zitnik, Dong, Ren, Liu, Catasta, Leskovec: Open Graph Benchmark: Datasets for Machine Learning on "
    "Graphs. NeurIPS 2020. arXiv:2005.00687"
)


@dataclass(frozen=True)
class OgbSet:
    """The file layout of one of the sets."""

    name: str
    split: str  # subfolder of ``split``
    folder: str  # folder in the archive
    weighted: bool = False  # whether edges have a weight and a year
    features: int | None = None  # number of node features

    @property
    def files(self) -> dict[str, str]:
        """Content → path of each file."""
        names = ["num-node-list", "num-edge-list", "edge"]
        names += [] if self.features is None else ["node-feat"]
        names += ["edge_weight", "edge_year"] if self.weighted else []
        raw = {name: f"raw/{name}.csv.gz" for name in names}
        return raw | {split: f"split/{self.split}/{name}" for split, name in FILES.items()}

    def build(self, context: BuildContext) -> LinkData:
        """Builds the set from the user's folder, else from the official archive."""
        below = (self.name.replace("-", "_"), self.name, self.folder)
        paths, _ = context.locate(spec_of(self.name).files, list(self.files.values()), below=below)
        return self.read(paths[0].parents[1], progress=context.progress)

    def read(self, folder: Path, *, progress: Progress = silent) -> LinkData:
        """Reads the set in ``folder`` and checks the files against each other."""

        def numbers(name: str, **options: Any) -> np.ndarray:
            progress(f"reading {name}", 0, None)
            return read_numbers(folder / self.files[name], **options)

        nodes, edges = (int(numbers(name, columns=1, rows=1)[0, 0]) for name in ("num-node-list", "num-edge-list"))
        edge = torch.from_numpy(numbers("edge", columns=2, rows=edges))
        x = None
        if self.features is not None:
            x = torch.from_numpy(numbers("node-feat", dtype=np.float32, columns=self.features, rows=nodes))
        weight = year = None
        if self.weighted:
            names = ("edge_weight", "edge_year")
            weight, year = (torch.from_numpy(numbers(name, columns=1, rows=edges)).view(-1) for name in names)
        splits = {}
        for number, name in enumerate(FILES):
            progress("reading the splits", number, len(FILES))
            splits[name] = _split(folder / self.files[name])
        spec = spec_of(self.name)
        found = {"nodes": nodes} | {name: len(split.edge) for name, split in splits.items()}
        wanted = {"nodes": int(spec.mean_nodes)} | spec.splits
        odd = [f"{key} {found[key]:,} (published {wanted[key]:,})" for key in found if found[key] != wanted[key]]
        data = LinkData(
            num_nodes=nodes,
            edge=edge,
            splits=splits,
            x=x,
            edge_weight=None if weight is None else weight.float(),
            edge_time=year,
            metric=spec.task.metric,
            # Reported with every result on such files:
            meta={"dataset": self.name} | ({"differs": f"not the published set: {', '.join(odd)}"} if odd else {}),
        )
        data.check(str(folder))
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
    layout: OgbSet,
    metric: str,
    *,
    splits: tuple[int, int, int],
    nodes: int,
    edges: int,
    node_features: str,
    edge_features: str = "none",
    what: str,
    licence: str,
    citation: str,
) -> DatasetSpec:
    archive = f"{layout.folder}.zip"
    return DatasetSpec(
        name=layout.name,
        inputs=Inputs("link", 1, "learned" if layout.features is None else "linear", layout.features or 0, "ones"),
        task=TaskSpec("prediction", "link", metric),
        splits=dict(zip(FILES, splits, strict=True)),
        mean_nodes=float(nodes),
        mean_edges=float(edges),
        node_features=node_features,
        edge_features=edge_features,
        origin=f"the Open Graph Benchmark's files: {what}; numbers of train/val/test are edges, one graph",
        licence=licence,
        terms=f"{licence}, as the Open Graph Benchmark states",
        citation=(OGB, citation),
        build=layout.build,
        files=(RemoteFile(f"https://snap.stanford.edu/ogb/data/linkproppred/{archive}", archive),),
        one_graph=True,
    )


SETS: dict[str, OgbSet] = {
    "ogbl-ppa": OgbSet("ogbl-ppa", "throughput", "ppassoc", features=58),
    "ogbl-collab": OgbSet("ogbl-collab", "time", "collab", weighted=True, features=128),
    "ogbl-ddi": OgbSet("ogbl-ddi", "target", "ddi"),
}
SPECS = (
    _spec(
        SETS["ogbl-ppa"],
        "hits@100",
        splits=(21_231_931, 6_062_562, 3_031_780),
        nodes=576_289,
        edges=42_463_862,
        node_features="species of the protein, one of 58, one-hot",
        what="associations of proteins, split by the method that found them",
        licence="CC-0",
        citation="Szklarczyk et al.: STRING v11: protein-protein association networks with increased coverage. "
        "Nucleic Acids Research 47(D1), 2019",
    ),
    _spec(
        SETS["ogbl-collab"],
        "hits@50",
        splits=(1_179_052, 60_084, 46_329),
        nodes=235_868,
        edges=2_358_104,
        node_features="mean word vector of the author's papers, 128 numbers",
        edge_features="number of joint papers in a year (weight), and the year",
        what="authors, linked by joint papers, split by year",
        licence="ODC-BY",
        citation="Wang, Shen, Huang, Wu, Dong, Kanakia: Microsoft Academic Graph: When experts are not enough. "
        "Quantitative Science Studies 1(1), 2020",
    ),
    _spec(
        SETS["ogbl-ddi"],
        "hits@20",
        splits=(1_067_911, 133_489, 133_489),
        nodes=4_267,
        edges=2_135_822,
        node_features="none (learned embeddings)",
        what="interactions of drugs, split by target protein",
        licence="CC-0",
        citation="Wishart et al.: DrugBank 5.0: a major update to the DrugBank database for 2018. "
        "Nucleic Acids Research 46(D1), 2018",
    ),
)
