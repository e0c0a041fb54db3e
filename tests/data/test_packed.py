import numpy as np
import pytest
import torch
from torch_geometric.data import Data
from torch_geometric.loader import DataLoader

from lrga.data import PackedGraphs
from lrga.errors import BatchError, DTypeError, OptionError
from lrga.training.capture.engine import no_waiting


def graphs(count=23):
    generator = torch.Generator().manual_seed(0)
    sizes = torch.randint(0, 8, (count, 2), generator=generator).tolist()
    return [
        Data(
            x=torch.full((n, 1), g),
            edge_index=torch.randint(0, max(n, 1), (2, e if n else 0), generator=generator),
            y=torch.tensor([g]),
            name=str(g),
        )
        for g, (n, e) in enumerate(sizes)
    ]


@pytest.fixture
def packed():
    return PackedGraphs.from_data_list(graphs())


def numbers(selection):
    return [int(data.y) for data in selection]


def test_a_set_knows_its_sizes(packed):
    listed = graphs()
    assert len(packed) == packed.num_graphs == 23
    assert packed.num_nodes == sum(data.num_nodes for data in listed)
    assert packed.num_edges == sum(data.num_edges for data in listed)
    statistics = packed.statistics
    assert statistics["mean_nodes"] == pytest.approx(packed.num_nodes / 23)
    assert statistics["max_edges"] == max(data.num_edges for data in listed)
    assert statistics["min_nodes"] == min(data.num_nodes for data in listed)
    assert packed.nodes_per_graph.tolist() == [data.num_nodes for data in listed]
    assert "23 graphs" in repr(packed)


def test_flat_tensors_are_the_graphs_side_by_side_and_small(packed):
    listed = graphs()
    assert torch.equal(packed.x, torch.cat([data.x for data in listed]))
    assert torch.equal(packed.y, torch.arange(23))
    assert packed.edge_attr is None
    assert torch.equal(packed.edge_index, packed.batch(list(range(23))).edge_index)
    assert packed.source.dtype == packed.in_degree.dtype == torch.uint8
    assert packed.columns["x"].values.dtype == torch.uint8


@pytest.mark.parametrize("index", [0, 5, -1, np.int64(3), torch.tensor(4)])
def test_one_graph_is_a_data_object(packed, index):
    data = packed[index]
    expected = graphs()[int(index)]
    assert isinstance(data, Data)
    assert torch.equal(data.x, expected.x)
    assert torch.equal(data.edge_index, expected.edge_index)
    assert data.name == expected.name


@pytest.mark.parametrize(
    "index",
    [
        slice(2, 9),
        slice(None),
        slice(None, None, -2),
        slice(20, 100),
        slice(9, 2),
        [3, 3, 0, -1],
        range(4, 9),
        np.array([7, 1]),
        torch.tensor([2, 22], dtype=torch.int32),
        (torch.arange(23) % 3 == 0).numpy(),
        torch.arange(23) % 3 == 0,
        [],
    ],
    ids=repr,
)
def test_several_graphs_are_a_set(packed, index):
    selection = packed[index]
    positions = np.arange(23)[np.asarray(index, dtype=int) if isinstance(index, list | range) else index]
    assert numbers(selection) == list(positions)
    assert [data.name for data in selection] == [str(g) for g in positions]


def test_a_selection_of_a_selection_keeps_the_kept_orders(packed):
    assert numbers(packed[5:20][[3, 1]][1:]) == [6]
    fresh = packed[[4, 2, 9]]
    before = [tensor.clone() for tensor in fresh.transposed]
    _ = packed.transposed
    for ours, theirs in zip(packed[[4, 2, 9]].transposed, before, strict=True):
        assert torch.equal(ours.long(), theirs.long())


@pytest.mark.parametrize("index", [[23], [-24], 23, -24])
def test_a_graph_that_is_not_there_is_refused(packed, index):
    with pytest.raises(BatchError, match="from -23 to 22"):
        packed[index]


@pytest.mark.parametrize("index", ["three", [1.5], torch.tensor([[1, 2]]), None, [[1], [2, 3]]])
def test_what_is_no_position_is_refused(packed, index):
    with pytest.raises(BatchError):
        packed[index]


def test_a_mask_of_another_length_is_refused(packed):
    with pytest.raises(BatchError, match="one entry for each of 23 graphs"):
        packed[torch.ones(5, dtype=torch.bool)]


def test_batches_cover_every_graph_once_in_order(packed):
    sizes, seen = [], []
    for batch in packed.batches(5):
        sizes.append(batch.num_graphs)
        seen += batch.y.tolist()
    assert sizes == [5, 5, 5, 5, 3]
    assert seen == list(range(23))
    assert [batch.num_graphs for batch in packed.batches(5, drop_last=True)] == [5, 5, 5, 5]


def test_a_shuffled_epoch_covers_every_graph_once_and_a_generator_makes_it_reproducible(packed):
    def epoch(generator=None):
        return [y for batch in packed.batches(4, shuffle=True, generator=generator) for y in batch.y.tolist()]

    generator = torch.Generator().manual_seed(3)
    first, second = epoch(generator), epoch(generator)
    assert first != second
    assert first == epoch(torch.Generator().manual_seed(3))
    assert first != list(range(23))
    assert sorted(first) == sorted(epoch()) == list(range(23))


def test_the_order_is_drawn_when_batches_are_asked_for_not_later(packed):
    """So a generator's state after the call tells where the next epoch begins, however much of this one was used."""
    generator = torch.Generator().manual_seed(3)
    packed.batches(4, shuffle=True, generator=generator)
    used = generator.get_state()
    torch.randperm(23, generator=generator.manual_seed(3))
    assert torch.equal(used, generator.get_state())


@pytest.mark.parametrize("batch_size", [0, -1, 2.5, True, "4"])
def test_a_batch_size_that_is_none_is_refused(packed, batch_size):
    with pytest.raises((OptionError, DTypeError), match="batch_size"):
        packed.batches(batch_size)


def test_batches_equal_those_of_pygs_loader(packed):
    for ours, theirs in zip(packed.batches(6), DataLoader(graphs(), batch_size=6), strict=True):
        assert torch.equal(ours.x, theirs.x)
        assert torch.equal(ours.batch, theirs.batch)
        order = torch.argsort(theirs.edge_index[1], stable=True)
        assert torch.equal(ours.edge_index, theirs.edge_index[:, order])


def test_a_set_moves_with_everything_it_has_unless_it_is_there_already(packed):
    assert packed.to("cpu") is packed
    _ = packed.transposed
    moved = packed.to("meta")
    tensors = [moved.node_ptr, moved.edge_ptr, moved.source, moved.in_degree, *moved.transposed]
    tensors += [column.values for column in moved.columns.values()]
    assert all(tensor.is_meta for tensor in tensors)
    assert moved.num_nodes == packed.num_nodes


@pytest.mark.gpu
def test_a_shuffled_epoch_on_a_gpu_never_waits_for_it():
    packed = PackedGraphs.from_data_list(graphs()).to("cuda")
    _ = packed.transposed
    for generator in (torch.Generator().manual_seed(0), torch.Generator("cuda").manual_seed(0)):
        epoch = packed.batches(4, shuffle=True, generator=generator)
        with no_waiting():
            batches = [(batch, batch.edges) for batch in epoch]
        assert sorted(y for batch, _ in batches for y in batch.y.tolist()) == list(range(23))
