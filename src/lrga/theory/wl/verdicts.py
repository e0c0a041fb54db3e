"""Which tests distinguish which graphs.

Example:
    >>> import lrga
    >>> hexagon = [(0, 1), (1, 2), (2, 3), (3, 4), (4, 5), (5, 0)]
    >>> triangles = [(0, 1), (1, 2), (2, 0), (3, 4), (4, 5), (5, 3)]
    >>> lrga.theory.distinguishes(hexagon, triangles, "1-wl"), lrga.theory.distinguishes(hexagon, triangles, "2-fwl")
    (False, True)
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch

from lrga.checks import check_count
from lrga.errors import DTypeError, OptionError
from lrga.theory.files import read_graphs
from lrga.theory.labelled import Array, GraphLike, LabelledGraph, as_graph
from lrga.theory.wl.fwl import refine_pairs
from lrga.theory.wl.joint import Colouring, Refinement, check_same_label_types
from lrga.theory.wl.refinement import refine_nodes

TESTS = ("1-wl", "2-wl", "2-fwl")


@dataclass(frozen=True)
class Comparison:
    """The verdict of one test on two graphs.

    Attributes:
        test: Its name.
        distinguished: Whether the test distinguishes them.
        rounds: Number of rounds until their histograms differ (0: before the first round), or until both are stable.
    """

    test: str
    distinguished: bool
    rounds: int


def distinguishes(
    a: GraphLike,
    b: GraphLike,
    test: str = "1-wl",
    *,
    num_nodes: int | tuple[int | None, int | None] | None = None,
    node_labels: tuple[Any, Any] | None = None,
    edge_labels: tuple[Any, Any] | None = None,
    directed: bool | None = None,
    device: torch.device | str = "cpu",
) -> bool:
    """Whether a test distinguishes two graphs; ``False`` for isomorphic graphs.

    Args:
        a, b: The graphs: PyG ``Data``, networkx graphs, lists of edges, or results of :func:`lrga.theory.as_graph`.
        test: ``"1-wl"``, ``"2-wl"`` (oblivious) or ``"2-fwl"``.
        num_nodes: For edge lists: the number of nodes, one number for both graphs or a pair.
        node_labels, edge_labels: A pair: the labels of a and the labels of b.
        directed: Whether the edges are directed; see :func:`lrga.theory.as_graph`.
        device: Device for 2-FWL.

    Example:
        >>> distinguishes([(0, 1)], [(0, 1)], node_labels=([6, 8], [6, 6]))
        True
    """
    pairs: dict[str, Any] = {
        "num_nodes": num_nodes if isinstance(num_nodes, tuple | list) else (num_nodes, num_nodes),
        "node_labels": (None, None) if node_labels is None else node_labels,
        "edge_labels": (None, None) if edge_labels is None else edge_labels,
    }
    for name, pair in pairs.items():
        if not isinstance(pair, tuple | list) or len(pair) != 2:
            raise OptionError(f"{name} as a pair, one for each graph", repr(pair), f"pass {name}=(of a, of b)")
    first, second = (
        as_graph(graph, directed=directed, **{name: pair[i] for name, pair in pairs.items()})
        for i, graph in enumerate((a, b))
    )
    return compare(first, second, test, device=device).distinguished


def compare(a: GraphLike, b: GraphLike, test: str = "1-wl", *, device: torch.device | str = "cpu") -> Comparison:
    """Compares two graphs with a test; returns the verdict and the number of rounds.

    Example:
        >>> compare([(0, 1), (1, 2)], [(0, 1), (1, 2), (2, 0)], "1-wl")
        Comparison(test='1-wl', distinguished=True, rounds=1)
    """
    name = check_test(test)
    graphs = (as_graph(a), as_graph(b))
    check_same_label_types(graphs)
    if graphs[0].num_nodes != graphs[1].num_nodes:
        return Comparison(name, distinguished=True, rounds=0)
    result = _refine(graphs, name, until_apart=True, device=device)
    return Comparison(name, distinguished=result.apart_after is not None, rounds=result.rounds)


def refine(
    graphs: Sequence[GraphLike], test: str = "1-wl", *, rounds: int | None = None, device: torch.device | str = "cpu"
) -> list[Colouring]:
    """Stable colourings of several graphs, refined together: equal names mean equal colours in all of them.

    Graphs of different sizes share names under 1-WL only. Under the other tests they have no colour in common, because
    the first round depends on the number of nodes, so each size is refined separately.

    Args:
        graphs: Graphs with labels of the same types.
        test: As for :func:`distinguishes`.
        rounds: Maximum number of rounds; by default until stable.
        device: As for :func:`distinguishes`.

    Example:
        >>> path, star = refine([[(0, 1), (1, 2), (2, 3)], [(0, 1), (0, 2), (0, 3)]])
        >>> sorted(path.histogram.values()), sorted(star.histogram.values())
        ([2, 2], [1, 3])
    """
    name = check_test(test)
    if rounds is not None:
        check_count("rounds", rounds)
    if not isinstance(graphs, Sequence) or isinstance(graphs, str | bytes):
        raise DTypeError("a list of graphs", type(graphs).__name__, "pass e.g. [graph_a, graph_b]")
    read = [as_graph(graph) for graph in graphs]
    check_same_label_types(read)
    sizes = np.array([0 if name == "1-wl" else g.num_nodes for g in read])
    found: list[Colouring | None] = [None] * len(read)
    names = 0
    for size in np.unique(sizes):
        members = np.flatnonzero(sizes == size)
        own = [read[i] for i in members]
        result = _refine(own, name, rounds=rounds, device=device)
        for i, colours in zip(members, result.colours, strict=True):
            found[i] = Colouring(name, colours + names, result.rounds, result.stable)
        names += 1 + max((int(c.max(initial=-1)) for c in result.colours), default=-1)
    return [c for c in found if c is not None]


def stable_colouring(
    graph: GraphLike, test: str = "1-wl", *, rounds: int | None = None, device: torch.device | str = "cpu"
) -> Colouring:
    """The stable colouring of one graph, with histogram and number of rounds; the options are those of :func:`refine`.

    Example:
        >>> colouring = stable_colouring([(0, 1), (1, 2), (2, 3)], "1-wl")
        >>> ends, middle = colouring.colours[[0, 3]], colouring.colours[[1, 2]]
        >>> len(set(ends.tolist())), len(set(middle.tolist())), ends[0] != middle[0], colouring.rounds
        (1, 1, ..., 1)
    """
    return refine([graph], test, rounds=rounds, device=device)[0]


def verdict_matrix(graphs: Sequence[GraphLike], test: str = "1-wl", *, device: torch.device | str = "cpu") -> Array:
    """``[G, G]`` of bool: entry (a, b) says whether the test distinguishes graphs a and b.

    Example:
        >>> verdict_matrix([[(0, 1), (1, 2)], [(0, 2), (2, 1)], [(0, 1), (1, 2), (2, 0)]]).astype(int)
        array([[0, 0, 1],
               [0, 0, 1],
               [1, 1, 0]])
    """
    colourings = refine(graphs, test, device=device)
    histograms = [tuple(sorted(c.histogram.items())) for c in colourings]
    numbers: dict[tuple[tuple[int, int], ...], int] = {}
    kind = np.array([numbers.setdefault(h, len(numbers)) for h in histograms], dtype=np.int64)
    return kind[:, None] != kind[None, :]


def check_test(test: str) -> str:
    """The test's name in lower case, or an error that lists the choices."""
    name = test.lower() if isinstance(test, str) else test
    if name not in TESTS:
        raise OptionError(f"a test, one of {', '.join(TESTS)}", repr(test), "choose one of them")
    return name


def _refine(graphs: Sequence[LabelledGraph], test: str, *, device: torch.device | str, **options: Any) -> Refinement:
    if test == "1-wl":
        return refine_nodes(graphs, **options)
    # only 2-FWL benefits from a GPU
    return refine_pairs(graphs, test, device=device if test == "2-fwl" else "cpu", **options)


def read_named_graphs(paths: Sequence[Path], **options: Any) -> list[tuple[str, LabelledGraph]]:
    """All graphs of the files, named by file and, if a file has several, by number; options of ``read_graphs``."""
    found: list[tuple[str, LabelledGraph]] = []
    for path in paths:
        graphs = read_graphs(path, **options)
        names = [str(path)] if len(graphs) == 1 else [f"{path}:{number}" for number in range(1, len(graphs) + 1)]
        found += zip(names, graphs, strict=True)
    if len(found) < 2:
        raise OptionError("two graphs or more", f"{len(found)} in {len(paths)} file(s)", "pass another file")
    return found


def chosen_tests(name: str) -> tuple[str, ...]:
    """The tests selected by a name: the test itself, or all tests for ``"all"``."""
    return TESTS if name == "all" else (check_test(name),)


def verdict_report(
    graphs: Sequence[tuple[str, LabelledGraph]],
    tests: Sequence[str] = TESTS,
    *,
    device: torch.device | str = "cpu",
    on_start: Callable[[str], None] | None = None,
) -> dict[str, Any]:
    """The verdicts as JSON values.

    Returns:
        ``graphs``: name, nodes and edges of each graph; ``tests``: for each test its ``matrix`` of verdicts and the
        ``classes`` of graphs that it does not distinguish; for two graphs also ``distinguished`` and ``rounds``.
    """
    report: dict[str, Any] = {
        "graphs": [
            {"name": name, "nodes": graph.num_nodes, "edges": graph.num_edges, "directed": not graph.symmetric}
            for name, graph in graphs
        ],
        "tests": {},
    }
    for test in tests:
        if on_start is not None:
            on_start(test)
        report["tests"][test] = _verdict([graph for _, graph in graphs], test, device)
    return report


def _verdict(graphs: Sequence[LabelledGraph], test: str, device: torch.device | str) -> dict[str, Any]:
    said: dict[str, Any] = {}
    if len(graphs) == 2:
        comparison = compare(graphs[0], graphs[1], test, device=device)
        said = {"distinguished": comparison.distinguished, "rounds": comparison.rounds}
        matrix = ~np.eye(2, dtype=bool) & comparison.distinguished
    else:
        matrix = verdict_matrix(graphs, test, device=device)
    classes = {tuple(np.flatnonzero(~row).tolist()) for row in matrix}
    return said | {"matrix": matrix.tolist(), "classes": sorted(list(c) for c in classes)}
