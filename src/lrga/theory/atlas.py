"""All connected graphs with few nodes, from the atlas that networkx carries."""

import functools

from lrga.errors import MissingDependencyError, OptionError
from lrga.theory.inputs import as_graph
from lrga.theory.labelled import LabelledGraph

_LARGEST = 7


@functools.cache
def connected_graphs(num_nodes: int) -> tuple[LabelledGraph, ...]:
    """Every connected graph of so many nodes (1 to 7) once: 1, 1, 2, 6, 21, 112, 853 of them.

    Example:
        >>> len(connected_graphs(5))
        21
    """
    if not 1 <= num_nodes <= _LARGEST:
        raise OptionError(f"1 to {_LARGEST} nodes", str(num_nodes), "the atlas goes no further")
    try:
        import networkx
    except ImportError as error:
        raise MissingDependencyError(
            "networkx, for the atlas of small graphs", "no such package", "pip install 'lrga[graphs]'"
        ) from error
    graphs = (g for g in networkx.graph_atlas_g() if len(g) == num_nodes)
    return tuple(as_graph(g) for g in graphs if networkx.is_connected(g))
