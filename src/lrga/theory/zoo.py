"""Hard graphs with what is known about them: which tests tell them apart, and who showed it."""

from collections.abc import Mapping
from dataclasses import dataclass

from lrga.theory import graphs, strongly_regular
from lrga.theory.labelled import LabelledGraph


@dataclass(frozen=True, eq=False)
class HardGraphs:
    """Pairwise non-isomorphic graphs on which a test gives the same verdict for every two of them.

    Attributes:
        name: Short name.
        graphs: Two or more graphs.
        verdicts: Test → whether it tells any two of them apart.
        reference: Where the graphs and the verdicts come from.
    """

    name: str
    graphs: tuple[LabelledGraph, ...]
    verdicts: Mapping[str, bool]
    reference: str


_SEEN_BY_2FWL = {"1-wl": False, "2-wl": False, "2-fwl": True}
_UNSEEN_BY_2FWL = {"1-wl": False, "2-wl": False, "2-fwl": False}


def zoo() -> dict[str, HardGraphs]:
    """All entries by name.

    Example:
        >>> entry = zoo()["rook-shrikhande"]
        >>> entry.verdicts["1-wl"], entry.verdicts["2-fwl"], entry.verdicts["3-fwl"]
        (False, False, True)
    """
    entries = (
        HardGraphs(
            "hexagon-triangles",
            (graphs.cycle(6), graphs.two_triangles()),
            _SEEN_BY_2FWL,
            "folklore; two regular graphs of one degree look alike to 1-WL (Cai, Fürer, Immerman 1992, section 1); "
            "2-FWL counts triangles",
        ),
        HardGraphs(
            "decalin-bicyclopentyl",
            (graphs.decalin(), graphs.bicyclopentyl()),
            _SEEN_BY_2FWL,
            "Sato, A Survey on the Expressive Power of Graph Neural Networks, arXiv:2003.04078 (2020)",
        ),
        HardGraphs(
            "circular-skip-links",
            tuple(graphs.circular_skip_links()),
            _SEEN_BY_2FWL,
            "Murphy, Srinivasan, Rao, Ribeiro, Relational Pooling for Graph Representations, ICML 2019; "
            "on 41 nodes, ten skips",
        ),
        HardGraphs(
            "rook-shrikhande",
            (strongly_regular.rook(), strongly_regular.shrikhande()),
            {**_UNSEEN_BY_2FWL, "3-fwl": True},
            "Shrikhande, The uniqueness of the L2 association scheme, Ann. Math. Stat. 30 (1959): srg(16, 6, 2, 2)",
        ),
        HardGraphs(
            "paulus",
            strongly_regular.paulus_family(),
            _UNSEEN_BY_2FWL,
            "Paulus, Conference matrices and graphs of order 26, report WSK 73/06, Eindhoven (1973): "
            "all fifteen srg(25, 12, 5, 6)",
        ),
        HardGraphs(
            "chang",
            tuple(strongly_regular.chang_family()),
            {**_UNSEEN_BY_2FWL, "3-fwl": True},
            "Chang, Association schemes of partially balanced designs with parameters v = 28, n1 = 12, n2 = 15 and "
            "p211 = 4, Science Record 4 (1960): all four srg(28, 12, 6, 4)",
        ),
        *(_cai_fuerer_immerman(k) for k in (1, 2, 3)),
    )
    return {entry.name: entry for entry in entries}


def _cai_fuerer_immerman(k: int) -> HardGraphs:
    """Over K_{k+2}: k-FWL fails (1-FWL is 1-WL), (k+1)-FWL does not."""
    pair = tuple(graphs.cai_fuerer_immerman(k + 2, twisted=twisted) for twisted in (False, True))
    return HardGraphs(
        f"cai-fuerer-immerman-{k}",
        pair,
        {"1-wl": False, "2-wl": False, "2-fwl": k < 2, "3-fwl": k < 3},
        "Cai, Fürer, Immerman, An optimal lower bound on the number of variables for graph identification, "
        f"Combinatorica 12 (1992), over K_{k + 2}, whose treewidth {k + 1} decides (Dawar, Richerby 2007)",
    )
