"""Rows and edges of a batch of fixed capacity: see tests/data/test_fixed.py for what they are in a set of graphs."""

import pytest
import torch

from lrga.ops._triton import why_not_triton
from lrga.ops.neighbors.batch_layout import batch_layout, batch_layout_reference

CASES = [
    ([3, 0, 5], [4, 0, 9], 3, 5),
    ([1], [0], 1, 0),
    ([1], [0], 1, 7),
    ([2, 600, 1], [5, 700, 0], 300, 1000),
    ([1] * 65, [2] * 65, 64, 3),
]


def example(counts, edges, nodes_cap, edges_cap, generator):
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
    return [begins, shift, *numbers, *pointers], [total_nodes + nodes_cap, total_edges + edges_cap, 0, 0]


def test_places_find_graph_and_row():
    tensors, sizes = example([2, 0, 3], [1, 0, 4], 2, 3, torch.Generator().manual_seed(0))
    begins, shift = tensors[:2]
    graph, row, in_ptr, out_ptr, edge_row, source, target, order = batch_layout(tensors, sizes)
    for place in range(5):
        owner = int(graph[place])
        assert int(begins[owner, 0]) <= place < int(begins[owner + 1, 0])
        assert int(row[place]) == place + int(shift[owner, 0])
        assert int(in_ptr[place]) == int(tensors[5][row[place]] - shift[owner, 1])
        assert int(out_ptr[place]) == int(tensors[6][row[place]] - shift[owner, 1])
    assert graph[5:].tolist() == [4, 4, 4]
    assert row[5:].tolist() == [0, 0, 0]
    assert in_ptr[5:].tolist() == out_ptr[5:].tolist() == [5, 5, 5]
    for place in range(5):
        owner = int(torch.searchsorted(begins[1:, 1].contiguous(), place, right=True))
        at = int(edge_row[place])
        assert at == place + int(shift[owner, 1])
        assert int(source[place]) == int(begins[owner, 0]) + int(tensors[2][at])
        assert int(target[place]) == int(begins[owner, 0]) + int(tensors[3][at])
        assert int(order[place]) == int(begins[owner, 1]) + int(tensors[4][at])
    assert source[5:].tolist() == target[5:].tolist() == [5, 5, 6]
    assert order[5:].tolist() == [5, 6, 7]


@pytest.mark.parametrize("case", CASES)
def test_the_kernels_equal_the_reference(case, poisoned):
    tensors, sizes = example(*case, torch.Generator().manual_seed(2))
    if (why := why_not_triton(*tensors)) is not None:
        pytest.skip(why)
    from lrga.ops.neighbors import batch_layout

    given = tensors, sizes
    for mine, theirs in zip(batch_layout.batch_layout_op(*given), batch_layout_reference(*given), strict=True):
        assert torch.equal(mine, theirs)


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="no GPU that PyTorch can use")
@pytest.mark.parametrize("graphs", [1, 2, 31, 64, 128, 1000])
def test_on_a_gpu_the_kernels_equal_the_reference(graphs):
    generator = torch.Generator().manual_seed(3)
    nodes = torch.randint(0, 200, (graphs,), generator=generator).tolist()
    edges = [n * 20 for n in nodes]
    tensors, sizes = example(nodes, edges, 77, 1234, generator)
    on_gpu = [tensor.cuda() for tensor in tensors]
    expected = batch_layout_reference(tensors, sizes)
    for mine, theirs in zip(batch_layout(on_gpu, sizes), expected, strict=True):
        assert torch.equal(mine.cpu(), theirs)
