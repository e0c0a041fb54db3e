"""What tests of several kernels share."""

import pytest
import torch


@pytest.fixture
def poisoned():
    """Memory that is not initialised is filled with NaN: a number that a kernel does not write is seen."""
    torch.use_deterministic_algorithms(True, warn_only=True)
    yield
    torch.use_deterministic_algorithms(False)


@pytest.fixture
def example():
    """Makes the arguments of a batch layout."""
    return _example


def _example(counts, edges, nodes_cap, edges_cap, generator):
    """Graphs of a set, chosen in another order than they lie there; the last chosen ones are empty."""
    graphs = len(counts)
    node_ptr, edge_ptr = (
        torch.nn.functional.pad(torch.tensor([*sizes, 0]).cumsum(0), (1, 0)) for sizes in (counts, edges)
    )
    chosen = torch.cat([torch.randperm(graphs, generator=generator), torch.tensor([graphs])])
    starts, sizes = torch.stack([node_ptr, edge_ptr], 1), torch.stack([node_ptr.diff(), edge_ptr.diff()], 1)
    begins = torch.nn.functional.pad(sizes[chosen].cumsum(0), (0, 0, 1, 0))
    shift = torch.nn.functional.pad(starts[chosen] - begins[:-1], (0, 0, 0, 1))
    total_nodes, total_edges = int(node_ptr[-1]), int(edge_ptr[-1])
    numbers = [torch.randint(0, 100, (total_edges,), generator=generator).to(t)
               for t in (torch.uint8, torch.int16, torch.int32)]  # fmt: skip
    pointers = [torch.randint(0, 50, (total_nodes + 1,), generator=generator) for _ in range(2)]
    return (begins, shift, *numbers, *pointers), {
        "nodes": total_nodes + nodes_cap, "edges": total_edges + edges_cap, "spare_node": 0, "spare_edge": 0,
    }  # fmt: skip
