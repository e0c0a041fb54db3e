import pytest
import torch

from lrga.data.links.negatives import NoEdgePairs, uniform_pairs
from lrga.errors import DataError, OptionError


def generator(seed=0):
    return torch.Generator().manual_seed(seed)


def dense(edge, n, *, undirected):
    """[n, n] whether a pair is an edge or a node with itself."""
    matrix = torch.eye(n, dtype=torch.bool)
    matrix[edge[:, 0], edge[:, 1]] = True
    return matrix | matrix.t() if undirected else matrix


@pytest.mark.parametrize("undirected", [True, False])
@pytest.mark.parametrize(("n", "density"), [(7, 0.2), (30, 0.9), (40, 0.02), (5, 0.0)])
def test_the_places_are_all_pairs_that_are_no_edge_each_once(n, density, undirected):
    edge = torch.nonzero(torch.rand(n, n) < density)  # with loops and both directions, as may come
    pairs = NoEdgePairs(edge, n, undirected=undirected)
    wanted = torch.nonzero(~dense(edge, n, undirected=undirected))
    assert pairs.count == len(wanted)
    assert torch.equal(pairs.at(torch.arange(pairs.count)).t(), wanted)


def test_every_pair_is_equally_likely():
    n = 6
    edge = torch.tensor([[0, 1], [1, 2], [2, 3], [0, 5]])
    pairs = NoEdgePairs(edge, n)
    drawn = pairs.draw(220_000, generator=generator())
    counts = torch.bincount(drawn[0] * n + drawn[1], minlength=n * n).view(n, n)
    assert bool((counts[dense(edge, n, undirected=True)] == 0).all())
    seen = counts[~dense(edge, n, undirected=True)].double()
    expected = 220_000 / pairs.count
    chi_squared = float(((seen - expected) ** 2 / expected).sum())
    assert chi_squared < 50  # 21 degrees of freedom: above 49.0 with probability 0.0005


def test_draws_follow_from_the_generator():
    pairs = NoEdgePairs(torch.tensor([[0, 1]]), 50)
    first, again, other = (pairs.draw(20, generator=generator(seed)) for seed in (1, 1, 2))
    assert torch.equal(first, again)
    assert not torch.equal(first, other)
    assert torch.equal(uniform_pairs(9, 50, generator=generator(3)), uniform_pairs(9, 50, generator=generator(3)))


def test_uniform_pairs_cover_all_nodes():
    pairs = uniform_pairs(4000, 7, generator=generator())
    assert pairs.shape == (2, 4000)
    assert pairs.unique().tolist() == list(range(7))


def test_a_million_nodes_need_no_matrix():
    edge = torch.randint(1_000_000, (200_000, 2))
    pairs = NoEdgePairs(edge, 1_000_000)
    drawn = pairs.draw(100_000, generator=generator())
    keys = torch.cat([edge[:, 0] * 1_000_000 + edge[:, 1], edge[:, 1] * 1_000_000 + edge[:, 0]])
    assert not bool(torch.isin(drawn[0] * 1_000_000 + drawn[1], keys).any())
    assert not bool((drawn[0] == drawn[1]).any())


def test_complete_graphs_and_graphs_without_nodes_have_no_pairs():
    pairs = NoEdgePairs(torch.tensor([[0, 1], [0, 2], [1, 2]]), 3)
    with pytest.raises(DataError, match="complete graph"):
        pairs.draw(1, generator=generator())
    with pytest.raises(OptionError):
        pairs.draw(-1, generator=generator())
    with pytest.raises(OptionError, match="num_nodes"):
        uniform_pairs(3, 0, generator=generator())


@pytest.mark.parametrize("pair", [[0, 3], [-1, 0]])
def test_an_edge_outside_the_graph_is_refused(pair):
    with pytest.raises(DataError, match="nodes 0 to 2"):
        NoEdgePairs(torch.tensor([pair]), 3)


def test_edges_in_32_bits_are_never_drawn_where_u_n_plus_v_needs_64():
    edge = torch.tensor([[60_000, 70_000], [99_999, 99_998]], dtype=torch.int32)
    pairs, wide = (NoEdgePairs(one, 100_000) for one in (edge, edge.long()))
    assert torch.equal(pairs.shifted, wide.shifted)
    around = 60_000 * 100_000 + 70_000 - torch.arange(59_990, 60_010)  # places near that of the first edge
    assert not bool((pairs.at(around) == torch.tensor([[60_000], [70_000]])).all(0).any())
