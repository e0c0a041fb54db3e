import numpy as np
import torch

from lrga.data.packed.arrays import pack_arrays
from lrga.data.packed.edge_table import EDGES_OF_A_BATCH, EdgeTable
from lrga.data.packed.segments import Cut, take


def test_runs_equal_single_entries():
    rng = np.random.default_rng(0)
    counts = torch.from_numpy(rng.integers(0, 50, 30))
    counts[4] = 0
    ptr = torch.cat((torch.zeros(1, dtype=torch.int64), counts.cumsum(0)))
    source = torch.from_numpy(rng.integers(0, 200, int(ptr[-1])).astype(np.uint8))  # zeros among them
    order = torch.from_numpy(np.concatenate([rng.permutation(int(n)) for n in counts]).astype(np.int32))
    table = EdgeTable(source, order, ptr)
    for chosen in ([3, 4, 4, 29], [4], [], list(range(30))):
        graphs = torch.tensor(chosen, dtype=torch.int64)
        rows = Cut(ptr, graphs).rows
        found_source, found_order = table.take(graphs)
        assert torch.equal(found_source, take(source, rows))
        assert torch.equal(found_order, take(order, rows))
        assert found_source.dtype == torch.uint8


def test_only_large_batches_of_large_graphs_are_worth_it():
    assert EdgeTable.suits(10, EDGES_OF_A_BATCH, 10**6)
    assert not EdgeTable.suits(10, EDGES_OF_A_BATCH - 1, 10**6)
    assert not EdgeTable.suits(EDGES_OF_A_BATCH, EDGES_OF_A_BATCH, 10**6)
    assert not EdgeTable.suits(10, EDGES_OF_A_BATCH, 1 << 31)


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
    assert EdgeTable.suits(batch.num_graphs, batch.num_edges, graphs.num_edges)
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
