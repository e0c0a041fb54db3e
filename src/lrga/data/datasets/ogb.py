"""ogbl-ppa, ogbl-collab and ogbl-ddi from the files of the Open Graph Benchmark, without the ogb package.

A set is a folder as its archive unpacks::

    raw/num-node-list.csv.gz  raw/num-edge-list.csv.gz  raw/edge.csv.gz       one graph, every edge once
    raw/node-feat.csv.gz  raw/edge_weight.csv.gz  raw/edge_year.csv.gz        where the set has them
    split/KIND/train.pt  valid.pt  test.pt                                    dicts of arrays edge, edge_neg, …
"""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from lrga.data.datasets.source import BuildContext
from lrga.data.datasets.spec import DatasetSpec, Inputs, TaskSpec, no_options, spec_of
from lrga.data.links.data import LinkData, LinkSplit
from lrga.errors import DataError
from lrga.io.download import RemoteFile
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
    """How the files of one of the sets are laid out."""

    name: str
    split: str  # folder of its split below ``split``
    folder: str  # that its archive unpacks to
    weighted: bool = False  # whether its edges have a weight and a year
    features: int | None = None  # columns of its node features

    @property
    def files(self) -> dict[str, str]:
        """Its files by what they hold."""
        names = ["num-node-list", "num-edge-list", "edge"]
        names += [] if self.features is None else ["node-feat"]
        names += ["edge_weight", "edge_year"] if self.weighted else []
        raw = {name: f"raw/{name}.csv.gz" for name in names}
        return raw | {split: f"split/{self.split}/{name}" for split, name in FILES.items()}

    def build(self, context: BuildContext) -> LinkData:
        """From the folder the user names, else from the official archive."""
        below = (self.name.replace("-", "_"), self.name, self.folder)
        paths, _ = context.locate(spec_of(self.name).files, list(self.files.values()), below=below)
        return self.read(paths[0].parents[1], progress=context.progress)

    def read(self, folder: Path, *, progress: Progress = silent) -> LinkData:
        """The set in ``folder``, every file checked against the others."""

        def numbers(name: str, **options: Any) -> np.ndarray | None:
            if name not in self.files:
                return None
            progress(f"reading {name}", 0, None)
            return read_numbers(folder / self.files[name], **options)

        def count(name: str) -> int:
            values = numbers(name, columns=1)
            if values is None or len(values) != 1 or int(values[0, 0]) < 1:
                expected = f"one number of at least 1 in {folder / self.files[name]} (a link set is one graph)"
                raise DataError(expected, f"{[] if values is None else values[:5].tolist()}", "get it again")
            return int(values[0, 0])

        nodes, edges = count("num-node-list"), count("num-edge-list")
        pairs = numbers("edge", columns=2, rows=edges)
        assert pairs is not None
        edge = torch.from_numpy(pairs)
        x = numbers("node-feat", dtype=np.float32, rows=nodes)
        weight, year = (numbers(name, columns=1, rows=edges) for name in ("edge_weight", "edge_year"))
        splits = {}
        for number, name in enumerate(FILES):
            progress("reading the splits", number, len(FILES))
            splits[name] = self._split(folder / self.files[name], need_negatives=name != "train")
        data = LinkData(
            num_nodes=nodes,
            edge=edge,
            splits=splits,
            x=None if x is None else torch.from_numpy(x),
            edge_weight=None if weight is None else torch.from_numpy(weight).view(-1).float(),
            edge_time=None if year is None else torch.from_numpy(year).view(-1),
            metric=spec_of(self.name).task.metric,
            meta={"dataset": self.name} | self._differences(nodes, edge, splits, None if x is None else x.shape[1]),
        )
        data.check(str(folder))
        return data

    def _split(self, path: Path, *, need_negatives: bool) -> LinkSplit:
        value = read_pt(path)
        wanted = ("edge", "edge_neg") if need_negatives else ("edge",)
        if not isinstance(value, Mapping) or any(key not in value for key in wanted):
            got = f"{', '.join(map(str, value))}" if isinstance(value, Mapping) else f"a {type(value).__name__}"
            raise DataError(f"a dict with {' and '.join(wanted)} in {path}", got, "get the file again")
        negatives = _tensor(value["edge_neg"], "edge_neg", path) if "edge_neg" in value else None
        edge = _tensor(value["edge"], "edge", path)
        more = {key: _tensor(value[key], key, path).view(-1) for key in ("weight", "year") if key in value}
        for key, tensor in more.items():
            if len(tensor) != len(edge):
                expected = f"a {key} for each of {len(edge):,} edges in {path}"
                raise DataError(expected, f"{len(tensor):,}", "get it again")
        weight = more["weight"].float() if "weight" in more else None
        return LinkSplit(edge, negatives, weight, more.get("year"))

    def _differences(
        self, nodes: int, edge: Tensor, splits: Mapping[str, LinkSplit], features: int | None
    ) -> dict[str, Any]:
        """What tells these files from the published ones, to be said beside every number made with them."""
        facts = spec_of(self.name)
        found = {"nodes": nodes} | {name: len(split.edge) for name, split in splits.items()}
        wanted = {"nodes": int(facts.mean_nodes)} | facts.splits
        odd = [f"{key} {found[key]:,} (published {wanted[key]:,})" for key in found if found[key] != wanted[key]]
        if features != self.features:
            odd.append(f"{features or 'no'} columns of node features (published {self.features or 'none'})")
        if not torch.equal(*(_sorted_pairs(pairs, nodes) for pairs in (edge, splits["train"].edge))):
            odd.append("the edges of train are not those of the graph")
        return {"differs": f"not the published set: {', '.join(odd)}"} if odd else {}


def _tensor(value: Any, key: str, path: Path) -> Tensor:
    tensor = value
    if isinstance(value, np.ndarray) and value.dtype.kind in "iuf":
        tensor = torch.from_numpy(value.astype(value.dtype.newbyteorder("="), copy=False))
    if not isinstance(tensor, Tensor) or tensor.is_complex():
        raise DataError(f"an array of numbers as {key!r} in {path}", type(value).__name__, "get the file again")
    if tensor.is_floating_point() and not bool((tensor.isfinite() & (tensor == tensor.round())).all()):
        raise DataError(f"whole numbers as {key!r} in {path}", "others", "get the file again")
    return tensor.long()


def _sorted_pairs(edge: Tensor, num_nodes: int) -> Tensor:
    """Undirected edges as sorted numbers; another shape than [E, 2] is refused by the check of the whole."""
    return (edge.amin(-1) * num_nodes + edge.amax(-1)).sort().values


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
        obtained="downloaded",
        origin=f"the Open Graph Benchmark's files: {what}; numbers of train/val/test are edges, one graph",
        licence=licence,
        terms=f"{licence}, as the Open Graph Benchmark states",
        citation=(OGB, citation),
        options=no_options,
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
        what="associations of proteins, divided by how they were found",
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
        edge_features="number of joint papers of a year (weight), the year",
        what="joint papers of authors, divided by year",
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
        node_features="none: a vector of each drug is learned",
        what="interactions of drugs, divided by the protein they target",
        licence="CC-0",
        citation="Wishart et al.: DrugBank 5.0: a major update to the DrugBank database for 2018. "
        "Nucleic Acids Research 46(D1), 2018",
    ),
)
