"""The link-prediction sets known by name: one large graph each, of whose edges some are to be predicted."""

from lrga.data.datasets.catalog import DatasetFacts
from lrga.io.download import RemoteFile

_OGB = (
    "Hu, Fey, Zitnik, Dong, Ren, Liu, Catasta, Leskovec: Open Graph Benchmark: Datasets for Machine Learning on "
    "Graphs. NeurIPS 2020. arXiv:2005.00687"
)
_SITE = "https://snap.stanford.edu/ogb/data/linkproppred"


def _facts(
    name: str,
    archive: str,
    *,
    metric: str,
    splits: tuple[int, int, int],
    nodes: int,
    edges: int,
    node_features: str,
    edge_features: str,
    what: str,
    licence: str,
    citation: str,
) -> DatasetFacts:
    return DatasetFacts(
        name=name,
        task="link prediction",
        metric=metric,
        classes=None,
        splits=dict(zip(("train", "val", "test"), splits, strict=True)),
        mean_nodes=float(nodes),
        mean_edges=float(edges),
        node_features=node_features,
        edge_features=edge_features,
        obtained="downloaded",
        origin=f"the Open Graph Benchmark's files: {what}; numbers of train/val/test are edges, one graph",
        files=(RemoteFile(f"{_SITE}/{archive}", archive),),
        licence=licence,
        terms=f"{licence}, as the Open Graph Benchmark states",
        citation=(_OGB, citation),
    )


LINK_CATALOG: dict[str, DatasetFacts] = {
    facts.name: facts
    for facts in (
        _facts(
            "ogbl-ppa",
            "ppassoc.zip",
            metric="Hits@100",
            splits=(21_231_931, 6_062_562, 3_031_780),
            nodes=576_289,
            edges=42_463_862,
            node_features="species of the protein, one of 58, one-hot",
            edge_features="none",
            what="associations of proteins, divided by how they were found",
            licence="CC-0",
            citation="Szklarczyk et al.: STRING v11: protein-protein association networks with increased coverage. "
            "Nucleic Acids Research 47(D1), 2019",
        ),
        _facts(
            "ogbl-collab",
            "collab.zip",
            metric="Hits@50",
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
        _facts(
            "ogbl-ddi",
            "ddi.zip",
            metric="Hits@20",
            splits=(1_067_911, 133_489, 133_489),
            nodes=4_267,
            edges=2_135_822,
            node_features="none: a vector of each drug is learned",
            edge_features="none",
            what="interactions of drugs, divided by the protein they target",
            licence="CC-0",
            citation="Wishart et al.: DrugBank 5.0: a major update to the DrugBank database for 2018. "
            "Nucleic Acids Research 46(D1), 2018",
        ),
    )
}


def link_name(name: str) -> str | None:
    """The link-prediction set that ``name`` means in any case, ``None`` where it means none.

    Example:
        >>> link_name("OGBL-DDI"), link_name("ZINC")
        ('ogbl-ddi', None)
    """
    plain = str(name).lower().replace("_", "-")
    return plain if plain in LINK_CATALOG else None
