import numpy as np
import pytest
import torch
from torch_geometric.data import Batch, Data

from lrga.data import PackedGraphs
from lrga.data.packed.arrays import pack_arrays
from lrga.errors import OptionError
from lrga.ops.neighbors.edges import EdgeLayout


def graphs(seed=0):
    generator = torch.Generator().manual_seed(seed)
    return [
        Data(
            x=torch.randint(0, 28, (n,), generator=generator),
            edge_index=torch.randint(0, max(n, 1), (2, e), generator=generator),
            edge_attr=torch.rand(e, 3, generator=generator),
            y=torch.rand(1, 2, generator=generator),
            pos=torch.rand(n, 2, generator=generator),
            edge_label_index=torch.randint(0, max(n, 1), (2, min(e, 3)), generator=generator),
            tokens=torch.arange(n * 3),
        )
        for n, e in ((5, 9), (1, 0), (0, 0), (7, 20), (3, 4), (1, 6), (4, 0))
    ]


ORDERS = [[0], [2], [3, 0, 6, 1], [4, 4, 2, 4], list(range(7)), []]


@pytest.fixture(params=ORDERS, ids=str)
def both(request):
    """The same graphs as our batch and as PyG's."""
    listed, chosen = graphs(), request.param
    expected = Batch.from_data_list([listed[g] for g in chosen]) if chosen else None
    return PackedGraphs.from_data_list(listed).batch(chosen), expected


def test_a_batch_equals_pyg_with_edges_sorted_by_target(both):
    ours, theirs = both
    if theirs is None:
        assert (ours.num_graphs, ours.num_nodes, ours.num_edges) == (0, 0, 0)
        assert ours.edge_index.shape == (2, 0)
        assert ours.x.shape == (0,)
        assert ours.ptr.tolist() == [0]
        return
    assert ours.num_graphs == len(ours) == theirs.num_graphs
    assert ours.num_nodes == theirs.num_nodes
    assert ours.num_edges == theirs.num_edges
    order = torch.argsort(theirs.edge_index[1], stable=True)
    assert torch.equal(ours.edge_index, theirs.edge_index[:, order])
    assert torch.equal(ours.edge_attr, theirs.edge_attr[order])
    for name in ("x", "y", "batch", "ptr"):
        assert torch.equal(getattr(ours, name), theirs[name]), name
        assert getattr(ours, name).dtype == theirs[name].dtype


def test_the_layout_equals_a_sorted_one(both):
    ours, theirs = both
    edge_index = torch.empty(2, 0, dtype=torch.int64) if theirs is None else theirs.edge_index
    expected, _ = EdgeLayout.from_edge_index(edge_index, ours.num_nodes)
    for name in ("source", "target", "in_ptr", "out_order", "out_ptr"):
        assert torch.equal(getattr(ours.edges, name), getattr(expected, name)), name
    assert ours.edges.num_nodes == ours.num_nodes
    assert ours.edges is ours.edges


def test_further_attributes_are_cut_out_and_rows_of_edges_return_to_their_order(both):
    ours, theirs = both
    if theirs is not None:
        assert torch.equal(ours.attribute("pos"), theirs.pos)
    if theirs is not None:
        assert torch.equal(ours.in_original_order(ours.edge_attr), theirs.edge_attr)


def test_what_is_not_there_is_none_or_an_error_with_the_choices():
    batch = PackedGraphs.from_data_list([Data(num_nodes=3, edge_index=torch.tensor([[0], [2]]))]).batch([0])
    assert batch.x is None
    assert batch.y is None
    assert batch.edge_attr is None
    assert batch.edge_index.tolist() == [[0], [2]]
    with pytest.raises(OptionError, match="pos"):
        PackedGraphs.from_data_list(graphs()).batch([0]).attribute("position")


def test_a_slice_equals_its_positions():
    packed = PackedGraphs.from_data_list(graphs())
    by_slice, by_index = packed.batch(slice(1, 5)), packed.batch([1, 2, 3, 4])
    for name in ("x", "edge_index", "edge_attr", "y", "batch", "ptr"):
        assert torch.equal(getattr(by_slice, name), getattr(by_index, name)), name
    assert torch.equal(by_slice.edges.out_order, by_index.edges.out_order)


def test_changing_a_batch_leaves_the_set_alone():
    packed = PackedGraphs.from_data_list(graphs())
    for chosen in ([0, 3], slice(0, 4)):
        batch = packed.batch(chosen)
        batch.edge_index.zero_()
        batch.ptr.zero_()
    assert torch.equal(packed[0].edge_index, graphs()[0].edge_index)
    assert packed.node_ptr[1] == 5


def test_a_batch_shows_its_size_and_moves_with_everything_it_has():
    moved = PackedGraphs.from_data_list(graphs()).batch([3, 0]).to("meta")
    assert moved.device.type == "meta"
    assert moved.x.is_meta
    assert moved.edge_index.is_meta
    assert moved.attribute("pos").is_meta
    assert repr(PackedGraphs.from_data_list(graphs()).batch([0, 3])) == "PackedBatch(2 graphs, 12 nodes, 29 edges)"


@pytest.mark.gpu
def test_on_a_gpu_the_batches_are_the_same():
    packed = PackedGraphs.from_data_list(graphs())
    on_gpu = packed.to("cuda")
    for chosen in (*ORDERS, slice(1, 5)):
        ours, expected = on_gpu.batch(chosen), packed.batch(chosen)
        assert ours.device.type == "cuda"
        for name in ("x", "edge_index", "edge_attr", "y", "batch", "ptr"):
            assert torch.equal(getattr(ours, name).cpu(), getattr(expected, name)), name
        for name in ("source", "target", "in_ptr", "out_order", "out_ptr"):
            assert torch.equal(getattr(ours.edges, name).cpu(), getattr(expected.edges, name)), name
        assert torch.equal(ours.attribute("pos").cpu(), expected.attribute("pos"))


def test_a_batch_of_large_graphs_equals_each_graph_alone():
    rng = np.random.default_rng(1)
    nodes, edges = rng.integers(40, 300, 25), rng.integers(2000, 4000, 25)
    graphs = pack_arrays(
        num_nodes=nodes,
        num_edges=edges,
        edge_index=np.concatenate([rng.integers(0, n, (2, e)) for n, e in zip(nodes, edges, strict=True)], axis=1),
        edge_attr=rng.random(edges.sum()),
    )
    chosen = [int(g) for g in rng.permutation(25)]
    batch = graphs.batch(chosen)
    singles = [graphs.batch([g]) for g in chosen]
    shift_nodes, shift_edges = batch.ptr[:-1].tolist(), np.cumsum([0, *[s.num_edges for s in singles]]).tolist()
    assert torch.equal(
        batch.edge_index, torch.cat([s.edge_index + n for s, n in zip(singles, shift_nodes, strict=True)], 1)
    )
    assert torch.equal(batch.edge_attr, torch.cat([s.edge_attr for s in singles]))
    expected = torch.cat([s.edges.out_order + e for s, e in zip(singles, shift_edges[:-1], strict=True)])
    assert torch.equal(batch.edges.out_order, expected)
    assert bool((batch.edges.source[batch.edges.out_order].diff() >= 0).all())
    assert torch.equal(batch.in_original_order(batch.edge_attr), torch.cat([graphs[g].edge_attr for g in chosen]))
