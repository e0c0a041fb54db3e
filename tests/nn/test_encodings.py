"""Encodings are those of their definitions, the same alone and in a batch; eigenvectors may be flipped, and are."""

import pytest
import torch
from torch_geometric.data import Batch, Data
from torch_geometric.transforms import AddLaplacianEigenvectorPE
from torch_geometric.utils import get_laplacian, to_dense_adj, to_undirected

import lrga
from lrga.data import AddEncodings
from lrga.errors import BatchError, LRGAError, OptionError, ShapeError
from lrga.nn.encodings import (
    EncodingEmbedding,
    encode,
    laplacian,
    laplacian_encoding,
    parse_encodings,
    random_walk_encoding,
    relative_walk_encoding,
    walks,
)
from lrga.ops.attention.segments import Segments

PATH = torch.tensor([[0, 1, 1, 2], [1, 0, 2, 1]])


def random_graph(nodes, edges, seed, *, undirected=False):
    """Directed, with loops, parallel edges and nodes without any."""
    ends = torch.randint(0, nodes, (2, edges), generator=torch.Generator().manual_seed(seed))
    return to_undirected(ends, num_nodes=nodes) if undirected else ends


def dense_powers(ends, nodes, steps):
    """The definition: powers of D⁻¹A in float64."""
    adjacency = torch.zeros(nodes, nodes, dtype=torch.float64)
    for source, target in ends.t().tolist():
        adjacency[source, target] += 1
    transition = adjacency / adjacency.sum(1, keepdim=True).clamp(min=1)
    return torch.stack([torch.linalg.matrix_power(transition, t) for t in range(1, steps + 1)], dim=-1)


@pytest.fixture(params=["matrices", "blocks"])
def way(request, monkeypatch):
    """Both ways of computing, the second of which is for large graphs."""
    if request.param == "blocks":
        monkeypatch.setattr(walks, "MAX_DENSE_NODES", 1)
        monkeypatch.setattr(laplacian, "MAX_DENSE_NODES", 1)
        monkeypatch.setattr(walks, "MAX_ENTRIES", 100)  # several blocks
    return request.param


@pytest.mark.parametrize("seed", range(3))
def test_walk_encodings_are_the_powers_of_the_transition_matrix(way, seed):
    ends = random_graph(17, 40, seed)
    powers = dense_powers(ends, 17, 6)
    nodes, edges = relative_walk_encoding(ends, 17, 6, dtype=torch.float64)
    torch.testing.assert_close(nodes, powers.diagonal(dim1=0, dim2=1).t(), rtol=0, atol=1e-15)
    torch.testing.assert_close(edges, powers[ends[0], ends[1]], rtol=0, atol=1e-15)
    assert torch.equal(random_walk_encoding(ends, 17, 6, dtype=torch.float64), nodes)


def test_eigenvectors_are_those_of_the_normalised_laplacian(way):
    ends = random_graph(25, 60, 0, undirected=True)
    ours = laplacian_encoding(ends, 25, 5, dtype=torch.float64)
    index, values = get_laplacian(ends, torch.ones(ends.size(1)).double(), "sym", num_nodes=25)
    matrix = to_dense_adj(index, edge_attr=values, max_num_nodes=25).view(25, 25)
    wanted = torch.linalg.eigvalsh(matrix)[1:6]
    torch.testing.assert_close(matrix @ ours, ours * wanted, rtol=0, atol=1e-8)
    torch.testing.assert_close(ours.t() @ ours, torch.eye(5, dtype=torch.float64), rtol=0, atol=1e-10)
    theirs = AddLaplacianEigenvectorPE(5, is_undirected=True)(Data(edge_index=ends, num_nodes=25))
    same = theirs.laplacian_eigenvector_pe.double()
    torch.testing.assert_close((ours * same).sum(0).abs(), torch.ones(5, dtype=torch.float64), rtol=0, atol=1e-4)
    assert bool((ours.gather(0, ours.abs().argmax(0, keepdim=True)) > 0).all())  # the sign that is stored


def test_a_graph_has_the_same_encodings_alone_and_in_a_batch():
    sizes = [(9, 20), (4, 0), (9, 31), (1, 0), (12, 25), (2, 2), (9, 12), (4, 6)]
    graphs = [Data(edge_index=random_graph(n, m, i), num_nodes=n) for i, (n, m) in enumerate(sizes)]
    wanted = [encode("rrwp:5,lappe:3", g.edge_index, g.num_nodes) for g in graphs]
    nodes, edges = torch.cat([w[0] for w in wanted]), torch.cat([w[1] for w in wanted])
    together = Batch.from_data_list(graphs)
    found = encode("rrwp:5,lappe:3", together.edge_index, together.num_nodes, together.batch)
    assert torch.equal(found[0], nodes)
    assert torch.equal(found[1], edges)
    mixed = torch.randperm(together.num_nodes, generator=torch.Generator().manual_seed(0))  # nodes in any order
    place = torch.empty_like(mixed).index_copy_(0, mixed, torch.arange(mixed.numel()))
    found = encode("rwse:5", place[together.edge_index], together.num_nodes, together.batch[mixed])
    torch.testing.assert_close(found[0], nodes[mixed, :5])


def test_walks_give_nothing_where_there_is_no_edge():
    nodes, edges = relative_walk_encoding(torch.empty(2, 0, dtype=torch.int64), 3, 4)
    assert nodes.tolist() == [[0.0] * 4] * 3
    assert edges.shape == (0, 4)
    assert laplacian_encoding(PATH, 3, 5)[:, 2:].abs().sum() == 0  # a graph of three nodes has two such eigenvectors


def test_an_edge_between_two_graphs_is_refused():
    with pytest.raises(BatchError, match="an edge between two"):
        random_walk_encoding(PATH, 3, 2, torch.tensor([0, 0, 1]))


@pytest.mark.parametrize("text", ["rwse", "rwse:0", "rwse:-3", "walks:4", "rwse:4,rwse:5", "lappe:1e3"])
def test_a_wrong_encoding_is_refused_with_an_example(text):
    with pytest.raises(OptionError, match="rwse"):
        parse_encodings(text)


def test_pyg_data_get_the_encodings_as_attributes():
    data = AddEncodings(["rrwp:3", "lappe:1"])(Data(edge_index=PATH, num_nodes=3))
    nodes, edges = encode("rrwp:3,lappe:1", PATH, 3)
    assert torch.equal(data.node_encoding, nodes)
    assert torch.equal(data.edge_encoding, edges)


def test_only_eigenvectors_are_flipped_each_graph_by_itself_and_only_in_training():
    torch.manual_seed(0)
    embedding = EncodingEmbedding("rwse:2,lappe:3", 5)
    embedding.norm, embedding.lin = torch.nn.Identity(), torch.nn.Linear(5, 5)
    torch.nn.init.eye_(embedding.lin.weight)
    torch.nn.init.zeros_(embedding.lin.bias)
    batch = torch.arange(40).repeat_interleave(2)
    values, segments = torch.rand(80, 5) + 0.1, Segments.from_batch(batch, 80, 40)
    signs = (embedding(values, segments) / values).view(40, 2, 5)
    torch.testing.assert_close(signs.abs(), torch.ones_like(signs))
    assert torch.equal(signs[:, 0] > 0, signs[:, 1] > 0)
    assert bool((signs[..., :2] > 0).all())
    assert 0.3 < float((signs[:, 0, 2:] < 0).float().mean()) < 0.7
    torch.testing.assert_close(embedding.eval()(values, segments), values)


def test_a_network_with_encodings_treats_every_graph_alone_and_asks_for_them():
    torch.manual_seed(0)
    graphs = [AddEncodings("rrwp:4,lappe:2")(Data(edge_index=random_graph(n, 3 * n, n), num_nodes=n)) for n in (5, 8)]
    for graph in graphs:
        graph.x = torch.randn(graph.num_nodes, 3)
    model = lrga.GNN(3, 8, 2, 2, conv="gatedgcn", rank=3, task="graph", encoding=["rrwp:4", "lappe:2"]).eval()

    def run(data, batch=None, count=None):
        encodings = {"node_encoding": data.node_encoding, "edge_encoding": data.edge_encoding}
        return model(data.x, data.edge_index, None, batch, count, **encodings)

    together = Batch.from_data_list(graphs)
    torch.testing.assert_close(run(together, together.batch, 2), torch.cat([run(graph) for graph in graphs]))
    one = graphs[0]
    order = torch.randperm(one.num_edges)  # edges, and their encodings, in another order
    other = Data(x=one.x, edge_index=one.edge_index[:, order], node_encoding=one.node_encoding)
    other.edge_encoding = one.edge_encoding[order]
    torch.testing.assert_close(run(other), run(one))
    with pytest.raises(ShapeError, match=r"node_encoding with 6 columns \(rrwp:4, lappe:2\)"):
        model(one.x, one.edge_index)
    with pytest.raises(ShapeError, match="edge_encoding with one row"):
        model(one.x, one.edge_index, node_encoding=one.node_encoding, edge_encoding=one.edge_encoding[1:])


def rings(count, nodes):
    ring, first = torch.arange(nodes), torch.arange(count).repeat_interleave(nodes) * nodes
    ends = torch.stack([ring.repeat(count) + first, ((ring + 1) % nodes).repeat(count) + first])
    return torch.cat([ends, ends.flip(0)], 1)


@pytest.mark.parametrize(("count", "nodes", "wanted"), [(30, 70, 8), (5, 500, 12), (3, 900, 5)])
def test_no_copy_of_a_repeated_eigenvalue_of_a_large_graph_is_missed(count, nodes, wanted):
    """The Rayleigh quotients are the smallest eigenvalues: of a ring 1 - cos(2πk/n), of several rings each so often."""
    edge_index = rings(count, nodes)
    found = laplacian_encoding(edge_index, count * nodes, wanted, dtype=torch.float64)
    moved = found - torch.zeros_like(found).index_add_(0, edge_index[1], found[edge_index[0]]) / 2
    values = 1 - torch.cos(2 * torch.pi * torch.arange(nodes, dtype=torch.float64) / nodes)
    expected = values.repeat(count).sort().values[1 : wanted + 1]
    torch.testing.assert_close((found * moved).sum(0), expected, rtol=0, atol=1e-9)
    torch.testing.assert_close(found.T @ found, torch.eye(wanted, dtype=torch.float64), rtol=0, atol=1e-7)
    assert torch.equal(found, laplacian_encoding(edge_index, count * nodes, wanted, dtype=torch.float64))


@pytest.mark.parametrize("values", ["one row", "three rows", "a list"])
def test_node_encodings_have_a_row_for_each_node(values):
    model, x, edges = lrga.GNN(5, 8, 2, 2, rank=4, encoding="rwse:3"), torch.randn(7, 5), torch.tensor([[0, 1], [1, 0]])
    nodes, _ = encode("rwse:3", edges, 7)
    given = {"one row": nodes[:1], "three rows": nodes[:3], "a list": nodes.tolist()}[values]
    with pytest.raises(ShapeError, match=r"node_encoding with 3 columns \(rwse:3\) and 7 rows"):
        model(x, edges, node_encoding=given)


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (("rwse:2", [[0], [1]], 3), "edge_index as a tensor"),
        (("rwse:2", None, 3), "edge_index as a tensor"),
        (("rwse:2", torch.tensor([[0], [1]]), "3"), "num_nodes"),
        (("rwse:2", torch.tensor([[0], [1]]), -3), "num_nodes"),
        ((5, torch.tensor([[0], [1]]), 3), "encodings as text"),
    ],
)
def test_bad_input_of_encodings_is_answered_in_words(arguments, text):
    with pytest.raises(LRGAError, match=text):
        encode(*arguments)
