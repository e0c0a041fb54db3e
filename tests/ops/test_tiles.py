"""Tiles: every node in exactly one, each tile in one graph."""

import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from lrga.ops.attention.segments import ROWS_OF_LARGE, ROWS_OF_SMALL, Segments, Tiles

CPU = torch.device("cpu")


@settings(max_examples=40, deadline=None)
@given(st.lists(st.integers(0, 200), min_size=1, max_size=8), st.booleans())
def test_every_node_is_in_one_tile_of_its_graph(sizes, shuffled):
    batch = torch.repeat_interleave(torch.arange(len(sizes)), torch.tensor(sizes))
    if shuffled:
        batch = batch[torch.randperm(len(batch))]
    tiles = Tiles.of(Segments.from_batch(batch, len(batch), len(sizes)), CPU)
    order = torch.arange(len(batch)) if tiles.order is None else tiles.order
    seen = torch.zeros(len(batch), dtype=torch.long)
    for tile, (start, end) in enumerate(zip(tiles.start.tolist(), tiles.end.tolist(), strict=True)):
        nodes = order[start:end]
        assert end - start <= ROWS_OF_SMALL
        assert (batch[nodes] == tiles.graph[tile]).all()
        seen[nodes] += 1
    assert (seen == 1).all()
    for g in range(len(sizes)):
        mine = range(int(tiles.ptr[g]), int(tiles.ptr[g + 1]))
        assert sum(int(tiles.end[t] - tiles.start[t]) for t in mine) == int(tiles.counts[g])


def test_a_large_graph_has_large_tiles_in_order_and_no_graph_none():
    tiles = Tiles.of(Segments(1000, 1), CPU)
    assert tiles.order is None
    assert int(tiles.end.max()) == 1000
    tiles = Tiles.of(Segments(5000, 1), CPU)
    assert int((tiles.end - tiles.start).max()) == ROWS_OF_LARGE
    assert Tiles.of(Segments.from_batch(torch.zeros(0, dtype=torch.long), 0, 0), CPU).number == 0
