import numpy as np
import pytest
import torch

from lrga.data.datasets.place import BuildPlace
from lrga.data.datasets.sbm.blocks import GRAPHS_OF_A_CHUNK, Graph, RandomStream, sample


def test_the_stream_is_fixed_for_ever():
    """Whoever changes these words changes every generated set: raise recipe_version of PATTERN and CLUSTER."""
    stream = RandomStream(41, 1, 0, 0)
    assert stream.words(3).tolist() == [1736457661, 1300750661, 2774229049]
    assert stream.below(30, 4).tolist() == [18, 26, 5, 25]
    assert stream.order(5).tolist() == [0, 2, 3, 1, 4]


def test_another_seed_or_key_gives_another_stream():
    first = RandomStream(41, 1, 0, 0).words(8)
    for other in (RandomStream(42, 1, 0, 0), RandomStream(41, 1, 0, 1), RandomStream(41, 1, 1, 0)):
        assert not np.array_equal(first, other.words(8))


def test_integers_are_uniform():
    drawn = RandomStream(0, 0).below(30, 300_000)
    assert (drawn.min(), drawn.max()) == (0, 29)
    counts = np.bincount(drawn)
    # Chi-square with 29 degrees of freedom: mean 29, standard deviation 7.6.
    assert ((counts - 10_000) ** 2 / 10_000).sum() < 29 + 5 * 7.6


def test_blocks_have_5_to_34_nodes():
    sizes = RandomStream(0, 0).block_sizes(100_000)
    assert (sizes.min(), sizes.max()) == (5, 34)
    assert sizes.mean() == pytest.approx(19.5, abs=5 * 8.66 / 100_000**0.5)


def test_an_order_is_a_permutation_and_any_place_is_equally_likely():
    stream = RandomStream(0, 0)
    orders = np.array([stream.order(10) for _ in range(5_000)])
    assert (np.sort(orders, axis=1) == np.arange(10)).all()
    assert np.abs(orders.mean(0) - 4.5).max() < 5 * 2.87 / 5_000**0.5


def test_edges_are_drawn_once_for_each_pair_with_the_probability_of_its_blocks():
    blocks = np.repeat([0, 1], [150, 100])
    probability = np.array([[0.5, 0.1], [0.1, 0.9]])
    adjacency = RandomStream(0, 0).adjacency(blocks, probability)
    assert (adjacency == adjacency.T).all()
    assert not adjacency.diagonal().any()
    for a in (0, 1):
        for b in (0, 1):
            part = adjacency[np.ix_(blocks == a, blocks == b)]
            pairs = part[np.triu_indices(len(part), 1)] if a == b else part.ravel()
            deviation = (probability[a, b] * (1 - probability[a, b]) / len(pairs)) ** 0.5
            assert pairs.mean() == pytest.approx(probability[a, b], abs=5 * deviation)


def small_graphs(workers, count, progress=None):
    def graph(stream, number):
        blocks = np.zeros(number % 7 + 1, dtype=np.int64)
        return Graph(stream.adjacency(blocks, np.array([[0.6]])), np.full(len(blocks), number % 5), blocks)

    place = BuildPlace(None, None, workers=workers, **({} if progress is None else {"progress": progress}))
    return sample(place, "test", count, stream=lambda chunk: RandomStream(3, chunk), graph=graph)


def test_the_number_of_workers_does_not_matter():
    count = 2 * GRAPHS_OF_A_CHUNK + 17
    one, four = small_graphs(1, count), small_graphs(4, count)
    assert torch.equal(one.source, four.source)
    assert torch.equal(one.in_degree, four.in_degree)
    assert torch.equal(one.node_ptr, four.node_ptr)
    assert torch.equal(one.x, four.x)


def test_packed_graphs_are_the_drawn_ones():
    packed = small_graphs(1, 5)
    stream = RandomStream(3, 0)
    for number in range(5):
        adjacency = stream.adjacency(np.zeros(number + 1, dtype=np.int64), np.array([[0.6]]))
        data = packed[number]
        dense = torch.zeros(number + 1, number + 1, dtype=torch.bool)
        dense[data.edge_index[1], data.edge_index[0]] = True
        assert torch.equal(dense, torch.from_numpy(adjacency))
        assert data.num_edges == adjacency.sum()
        assert data.x.tolist() == [number] * (number + 1)


def test_progress_reaches_the_end():
    seen = []
    small_graphs(2, 250, progress=lambda label, done, total: seen.append((label, done, total)))
    assert seen == [("test", 100, 250), ("test", 200, 250), ("test", 250, 250)]
