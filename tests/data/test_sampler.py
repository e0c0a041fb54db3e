"""Samples are what the definition says, and full ones compute what the whole graph computes."""

import pytest
import torch
from scipy.stats import chisquare
from torch_geometric.data import Data

import lrga
from lrga.data import NeighborSampler, PackedGraphs, from_neighbor_batch
from lrga.errors import DataError, DTypeError, OptionError
from lrga.ops.neighbors.reduce import sum_sources, symmetric_factors
from lrga.tasks import Task


def random_data(nodes=40, edges=200, seed=0):
    """A directed graph without multiple edges; some nodes have few in-neighbours, some none."""
    generator = torch.Generator().manual_seed(seed)
    ends = torch.randint(0, nodes, (2, edges), generator=generator)
    ends[1] = ends[1] ** 2 // nodes
    return Data(
        x=torch.rand(nodes, 3, generator=generator).double(),
        edge_index=torch.unique(ends, dim=1),
        y=torch.randint(0, 2, (nodes,), generator=generator),
    )


def draw(sampler, seeds, seed=0):
    return sampler.sample(torch.tensor(seeds), torch.Generator().manual_seed(seed))


@pytest.mark.parametrize("fanouts", [[3], [3, 2], [-1, 4], [2, -1, 1], [100, 100]])
def test_a_sample_is_as_defined(fanouts):
    data = random_data()
    graph = PackedGraphs.from_data_list([data])
    edges = set(map(tuple, data.edge_index.t().tolist()))
    seeds = [7, 0, 31, 12]
    batch = draw(NeighborSampler(graph, fanouts), seeds)
    n_id = batch.attribute("n_id").tolist()
    assert (batch.num_seeds, n_id[:4], batch.num_graphs) == (4, seeds, 1)
    assert len(set(n_id)) == len(n_id) == batch.num_nodes
    assert torch.equal(batch.x, data.x[n_id])
    assert torch.equal(batch.y, data.y[n_id])
    drawn = [(n_id[s], n_id[t]) for s, t in batch.edge_index.t().tolist()]
    assert len(set(drawn)) == len(drawn)
    assert set(drawn) <= edges
    hop, known = set(seeds), set(seeds)
    for fanout in fanouts:
        found = set()
        for node in hop:
            own = {source for source, target in drawn if target == node}
            degree = sum(target == node for _, target in edges)
            assert len(own) == (degree if fanout < 0 else min(fanout, degree))
            found |= own
        hop = found - known
        known |= found
    assert known == set(n_id)
    assert not {target for _, target in drawn} & hop  # the last hop is not expanded
    assert torch.all(batch.edge_index[1].diff() >= 0)


def test_every_subset_of_the_neighbours_is_as_likely():
    """2,000 nodes with the same six in-neighbours, three of which are drawn: 20 subsets."""
    source, target = torch.arange(6).repeat(2000), torch.arange(6, 2006).repeat_interleave(6)
    x = torch.rand(2006, 1, dtype=torch.float64, generator=torch.Generator().manual_seed(1))
    graph = PackedGraphs.from_data_list([Data(x=x, edge_index=torch.stack([source, target]))])
    batch = draw(NeighborSampler(graph, [3]), list(range(6, 2006)))
    subsets = (2 ** batch.attribute("n_id")[batch.edge_index[0]]).view(2000, 3).sum(1)
    _, counts = torch.unique(subsets, return_counts=True)
    assert len(counts) == 20
    assert chisquare(counts.numpy()).pvalue > 1e-3

    whole, sampled = (_gcn_sum(b) for b in (graph.batch(slice(0, 1)), batch))
    sums = sampled[:2000]
    assert abs(float(sums.mean() - whole[6])) < 5 * float(sums.std()) / 2000**0.5  # unbiased
    assert float(sums.std()) > 0


def _gcn_sum(batch):
    into, out_of = symmetric_factors(batch.edges, batch.x)
    return sum_sources(batch.x, batch.edges, dst_scale=into, src_scale=out_of)


@pytest.mark.parametrize("conv", ["gcn", "gat", "gatedgcn", "graphsage", "gin"])
def test_all_neighbours_of_two_hops_give_two_layers_the_outputs_of_the_whole_graph(conv):
    graph = PackedGraphs.from_data_list([random_data(300, 700)])
    torch.manual_seed(0)
    model = lrga.GNN(3, 8, 2, 2, conv=conv).double().eval()
    whole, batch = graph.batch(slice(0, 1)), draw(NeighborSampler(graph, [-1, -1]), [7, 0, 31])
    assert batch.num_nodes < whole.num_nodes
    expected, found = (model(b.x, b.edges) for b in (whole, batch))
    torch.testing.assert_close(found[:3], expected[[7, 0, 31]])


def test_the_generator_decides_and_samples_do_not_depend_on_earlier_ones():
    sampler = NeighborSampler(PackedGraphs.from_data_list([random_data()]), [2, 2])
    first, other, again = (draw(sampler, [3, 5], seed) for seed in (0, 1, 0))
    assert torch.equal(first.attribute("n_id"), again.attribute("n_id"))
    assert torch.equal(first.edge_index, again.edge_index)
    assert first.attribute("n_id").tolist() != other.attribute("n_id").tolist()


def test_a_graph_without_edges_gives_the_seeds():
    graph = PackedGraphs.from_data_list([Data(x=torch.rand(3, 1), edge_index=torch.zeros(2, 0).long())])
    for fanouts in ([2, 2], [-1]):
        batch = draw(NeighborSampler(graph, fanouts), [2, 0])
        assert (batch.attribute("n_id").tolist(), batch.num_edges, batch.edges.num_edges) == ([2, 0], 0, 0)


@pytest.mark.parametrize("seeds", [[], [3, 3], [-1], [40]])
def test_seeds_that_are_no_nodes_or_come_twice_are_refused(seeds):
    with pytest.raises(DataError, match="distinct seed nodes between 0 and 39"):
        NeighborSampler(PackedGraphs.from_data_list([random_data()]), [2]).sample(torch.tensor(seeds).long())
    with pytest.raises(DTypeError, match="PackedGraphs.from_data_list"):
        NeighborSampler(random_data(), [2])
    with pytest.raises(DTypeError, match="mask.nonzero"):
        NeighborSampler(PackedGraphs.from_data_list([random_data()]), [2]).sample(torch.ones(40, dtype=torch.bool))


def test_several_graphs_and_wrong_fanouts_are_refused():
    data = random_data()
    with pytest.raises(DataError, match="one graph"):
        NeighborSampler(PackedGraphs.from_data_list([data, data]), [2])
    for wrong in ([], [0], [-2], [1.5], "10", 10, [True]):
        with pytest.raises(OptionError, match="fanouts"):
            NeighborSampler(PackedGraphs.from_data_list([data]), wrong)


def neighbor_loader_batch():
    """As PyG's NeighborLoader makes one: seeds first, edges numbered within the batch, facts of the sampling beside."""
    data = random_data()
    ends, n_id = data.edge_index, [7, 0]
    kept = [e for e in range(ends.size(1)) if ends[1, e] in (7, 0)]
    n_id += sorted({int(s) for s in ends[0, kept]} - {7, 0})
    place = {node: row for row, node in enumerate(n_id)}
    rows = torch.tensor([[place[int(node)] for node in ends[side, kept]] for side in (0, 1)])
    return Data(
        x=data.x[n_id], y=data.y[n_id], edge_index=rows, train_mask=torch.ones(len(n_id), dtype=torch.bool),
        n_id=torch.tensor(n_id), e_id=torch.tensor(kept), input_id=torch.tensor([7, 0]), batch_size=2,
        num_sampled_nodes=[2, len(n_id) - 2], num_sampled_edges=[len(kept)],
    )  # fmt: skip


def test_a_batch_of_neighbor_loader_gives_scores_and_targets_of_its_seeds():
    data, task = neighbor_loader_batch(), Task(level="node", kind="classification", out_channels=2)
    model = lrga.GNN(3, 8, 2, 2, conv="gcn", rank=3).double().eval()
    batch = from_neighbor_batch(data)
    scores, targets = task.select(model(batch.x, batch.edges), batch, masked=True)
    torch.testing.assert_close(scores, model(data.x, data.edge_index)[:2])
    assert torch.equal(targets, data.y[:2])


def test_a_batch_that_does_not_say_how_many_seeds_it_has_is_refused():
    for wrong in (None, 0, 1000):
        data = neighbor_loader_batch()
        data.batch_size = wrong
        with pytest.raises(DataError, match="batch_size"):
            from_neighbor_batch(data)
    with pytest.raises(DataError, match="batch_size"):
        from_neighbor_batch(random_data())
