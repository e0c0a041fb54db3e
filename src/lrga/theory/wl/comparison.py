"""Verdicts of several tests over the graphs of several files, as plain data for printing."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch

from lrga.errors import OptionError
from lrga.theory.files import read_graphs
from lrga.theory.inputs import AUTO
from lrga.theory.labelled import Array, LabelledGraph
from lrga.theory.wl.verdicts import check_test, compare, verdict_matrix

DEFAULT_TESTS = ("1-wl", "2-wl", "2-fwl")


@dataclass(frozen=True, eq=False)
class NamedGraph:
    """A graph and what to call it."""

    name: str
    graph: LabelledGraph


def read_named_graphs(
    paths: Sequence[Path],
    *,
    format: str = AUTO,
    directed: bool = False,
    node_attribute: str | None = AUTO,
    edge_attribute: str | None = AUTO,
) -> list[NamedGraph]:
    """All graphs of the files, named by file and, where a file has several, by number; options as ``read_graphs``."""
    found = []
    for path in paths:
        graphs = read_graphs(
            path, format=format, directed=directed, node_attribute=node_attribute, edge_attribute=edge_attribute
        )
        found += [
            NamedGraph(str(path) if len(graphs) == 1 else f"{path}:{number}", graph)
            for number, graph in enumerate(graphs, 1)
        ]
    if len(found) < 2:
        raise OptionError("two graphs or more", f"{len(found)} in {len(paths)} file(s)", "name another file")
    return found


def chosen_tests(name: str) -> tuple[str, ...]:
    """The tests that a name stands for: itself, or the first three for ``"all"``."""
    return DEFAULT_TESTS if name == "all" else (check_test(name),)


def verdict_report(
    graphs: Sequence[NamedGraph],
    tests: Sequence[str] = DEFAULT_TESTS,
    *,
    device: torch.device | str = "cpu",
    on_start: Callable[[str], None] | None = None,
) -> dict[str, Any]:
    """What the tests say, ready for JSON.

    Returns:
        ``graphs``: name, nodes and edges of each; ``tests``: for each test its ``matrix`` of verdicts and the
        ``classes`` of graphs that it takes for the same, and for two graphs ``distinguished`` and ``rounds`` too.
    """
    report: dict[str, Any] = {
        "graphs": [
            {"name": g.name, "nodes": g.graph.num_nodes, "edges": g.graph.num_edges, "directed": not g.graph.symmetric}
            for g in graphs
        ],
        "tests": {},
    }
    for test in tests:
        if on_start is not None:
            on_start(test)
        report["tests"][test] = _verdict([g.graph for g in graphs], test, device)
    return report


def _verdict(graphs: Sequence[LabelledGraph], test: str, device: torch.device | str) -> dict[str, Any]:
    if len(graphs) == 2:
        comparison = compare(graphs[0], graphs[1], test, device=device)
        apart = comparison.distinguished
        matrix = np.array([[False, apart], [apart, False]])
        return {"distinguished": apart, "rounds": comparison.rounds, **_matrix_rows(matrix)}
    return _matrix_rows(verdict_matrix(graphs, test, device=device))


def _matrix_rows(matrix: Array) -> dict[str, Any]:
    classes = {tuple(np.flatnonzero(~row).tolist()) for row in matrix}
    return {"matrix": matrix.tolist(), "classes": sorted(list(c) for c in classes)}
