"""Rows and edges of a batch of fixed capacity: see tests/data/test_fixed.py for what they are in a set of graphs."""

import torch

from lrga.ops.neighbors.batch_layout import batch_layout, batch_layout_reference


def test_places_find_graph_and_row(example):
    tensors, sizes = example([2, 0, 3], [1, 0, 4], 2, 3, torch.Generator().manual_seed(0))
    begins, shift = tensors[:2]
    graph, row, in_ptr, out_ptr, edge_row, source, target, order = batch_layout(*tensors, **sizes)
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


def test_on_a_cpu_the_reference_is_taken(example):
    tensors, sizes = example([4, 1], [3, 0], 1, 0, torch.Generator().manual_seed(1))
    for ours, theirs in zip(
        batch_layout(*tensors, **sizes), batch_layout_reference(*tensors, *sizes.values()), strict=True
    ):
        assert torch.equal(ours, theirs)
