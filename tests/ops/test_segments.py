import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from lrga.errors import BatchError
from lrga.ops.attention.segments import Segments

SIZES = st.lists(st.integers(0, 40), min_size=2, max_size=8)


def batch_of(sizes, *, shuffled):
    batch = torch.repeat_interleave(torch.arange(len(sizes)), torch.tensor(sizes))
    return batch[torch.randperm(len(batch))] if shuffled else batch


@settings(deadline=None, max_examples=40)
@given(sizes=SIZES, shuffled=st.booleans())
def test_packing_and_unpacking_returns_every_row_and_totals_are_sums_over_each_graph(sizes, shuffled):
    batch = batch_of(sizes, shuffled=shuffled)
    segments = Segments.from_batch(batch, len(batch), len(sizes))
    rows = torch.randn(len(batch), 2, 3)
    assert torch.equal(segments.unpack(segments.pack(rows)), rows)
    rows = torch.randn(len(batch), 2, 3, dtype=torch.float64)
    totals = segments.total(segments.pack(rows).sum(-2))
    for graph in range(len(sizes)):
        torch.testing.assert_close(totals[:, graph], rows[batch == graph].sum(0))


def test_a_large_graph_does_not_make_small_ones_larger():
    batch = batch_of([10_000] + [20] * 200, shuffled=False)
    segments = Segments.from_batch(batch, len(batch))
    rows = segments.chunks[1].numel() * segments.chunk
    assert rows < 2 * len(batch)  # padding every graph to the largest would take 144 times as many


def test_every_chunk_belongs_to_one_graph():
    batch = batch_of([0, 70, 1, 0, 130, 3, 0], shuffled=True)
    segments = Segments.from_batch(batch, len(batch), 7)
    graph_of_node = segments.chunks[1][segments.chunks[0] // segments.chunk]
    assert torch.equal(graph_of_node, batch)


def test_no_batch_vector_is_one_graph_and_refused_for_several():
    segments = Segments.from_batch(None, 5)
    assert segments.counts is None
    assert segments.num_graphs == 1
    with pytest.raises(BatchError, match="num_graphs=3"):
        Segments.from_batch(None, 5, 3)


def test_no_nodes_are_fine_and_narrow_ids_widened():
    segments = Segments.from_batch(torch.empty(0, dtype=torch.int64), 0)
    assert segments.unpack(segments.pack(torch.empty(0, 1, 2))).shape == (0, 1, 2)
    batch = torch.tensor([0, 0, 1], dtype=torch.int32)
    assert Segments.from_batch(batch, 3).batch.dtype == torch.int64


def test_values_spread_to_nodes_by_graph():
    segments = Segments.from_batch(torch.tensor([1, 0, 1]), 3)
    assert segments.to_nodes(torch.tensor([[10.0, 20.0]])).tolist() == [[20.0], [10.0], [20.0]]
    assert Segments.from_batch(None, 2).to_nodes(torch.tensor([[7.0]])).tolist() == [[7.0], [7.0]]


@pytest.mark.parametrize("batch", [[0, 10**12, 1], [0, 2**20, 0], [10**12] * 3])
def test_an_id_that_would_take_much_memory_is_refused_and_named(batch):
    batch = torch.tensor(batch)
    with pytest.raises(BatchError, match=rf"id {int(batch.max())}.*torch\.unique\(batch, return_inverse=True\)"):
        Segments.from_batch(batch, 3)
    relabelled = torch.unique(batch, return_inverse=True)[1]
    assert Segments.from_batch(relabelled, 3).num_graphs <= 3


def test_ids_may_leave_graphs_empty():
    assert Segments.from_batch(torch.tensor([0, 5000]), 2).num_graphs == 5001
    assert Segments.from_batch(torch.tensor([0, 1]), 2, 2**20 + 1).num_graphs == 2**20 + 1  # as asked for


def test_layers_share_the_segments_of_a_batch_vector_until_it_changes(monkeypatch):
    monkeypatch.setattr("lrga.ops.attention.segments._can_remember", lambda batch: True)  # as of a vector on a GPU
    batch = torch.tensor([0, 0, 1, 1])
    first = Segments.from_batch(batch, 4)
    assert Segments.from_batch(batch, 4) is first
    assert Segments.from_batch(batch, 4, 2) is first
    assert Segments.from_batch(batch, 4, 3).num_graphs == 3
    assert Segments.from_batch(batch.clone(), 4) is not first
    changed = Segments.from_batch(batch, 4)
    batch[1] = 1
    assert Segments.from_batch(batch, 4) is not changed
    assert Segments.from_batch(batch, 4).counts.tolist() == [1, 3]
    with pytest.raises(BatchError):
        Segments.from_batch(batch, 5)


def test_a_vector_on_a_cpu_is_read_anew_as_its_memory_may_be_shared():
    batch = torch.tensor([0, 0, 1, 1])
    assert Segments.from_batch(batch, 4) is not Segments.from_batch(batch, 4)
