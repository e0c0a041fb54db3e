import numpy as np
import pytest
from scipy.spatial.distance import cdist

from lrga.data.datasets.superpixels.edges import superpixel_edges


def edges_of_one_graph(position: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The benchmark's rule written out for one graph of more than nine nodes."""
    n = len(position)
    distance = cdist(position, position)
    sigma = np.partition(distance, 8, axis=-1)[:, :9].sum(axis=1).reshape(n, 1) / 8 + 1e-8
    a = np.exp(-((distance / sigma) ** 2))
    a = 0.5 * (a + a.T)
    a[np.diag_indices(n)] = 0
    neighbours = np.argpartition(a, n - 10, axis=-1)[:, n - 9 : -1]
    return neighbours, np.take_along_axis(a, neighbours, axis=-1)


def test_many_graphs_at_once_equal_the_rule_graph_by_graph():
    rng = np.random.default_rng(0)
    count = rng.integers(10, 60, 80)
    # Half of the graphs on a grid: there many distances are equal, and rounding decides.
    position = [rng.random((n, 2)) if g % 2 else rng.integers(0, 9, (n, 2)) / 28 for g, n in enumerate(count)]
    edges = superpixel_edges(count, np.concatenate(position))
    assert edges.count.tolist() == (8 * count).tolist()
    ends = np.cumsum(edges.count)[:-1]
    for place, index, weight in zip(
        position, np.split(edges.index, ends, axis=1), np.split(edges.weight, ends), strict=True
    ):
        neighbours, closeness = edges_of_one_graph(place)
        np.testing.assert_array_equal(index[0], np.repeat(np.arange(len(place)), 8))
        np.testing.assert_array_equal(index[1], neighbours.ravel())
        np.testing.assert_array_equal(weight, closeness.ravel().astype(np.float32))


@pytest.mark.parametrize("n", [1, 2, 8, 9])
def test_so_few_superpixels_are_all_joined_to_each_other(n):
    position = np.random.default_rng(n).random((n, 2))
    edges = superpixel_edges(np.array([n, n]), np.concatenate([position, position]))
    assert edges.count.tolist() == [n * (n - 1)] * 2
    first = edges.index[:, : n * (n - 1)].T.tolist()
    assert sorted(first) == sorted([i, j] for i in range(n) for j in range(n) if i != j)
    assert np.isfinite(edges.weight).all()


def test_no_superpixel_is_joined_to_itself_and_eight_of_the_nine_nearest_are_chosen():
    position = np.random.default_rng(3).random((40, 2))
    edges = superpixel_edges(np.array([40]), position)
    source, target = edges.index
    assert (source != target).all()
    neighbours, _ = edges_of_one_graph(position)
    assert [len(set(row)) for row in target.reshape(40, 8).tolist()] == [8] * 40
    np.testing.assert_array_equal(target.reshape(40, 8), neighbours)


def test_the_number_of_threads_does_not_matter_and_progress_is_told():
    rng = np.random.default_rng(5)
    count = rng.integers(10, 80, 300)
    position = rng.random((count.sum(), 2))
    seen = []
    one = superpixel_edges(count, position, workers=1)
    two = superpixel_edges(count, position, workers=2, progress=lambda *args: seen.append(args))
    np.testing.assert_array_equal(one.index, two.index)
    np.testing.assert_array_equal(one.weight, two.weight)
    assert seen[-1] == ("edges between superpixels", 300, 300)
    assert [done for _, done, _ in seen] == sorted(done for _, done, _ in seen)


def test_superpixels_at_the_same_place_give_finite_weights():
    edges = superpixel_edges(np.array([12]), np.zeros((12, 2)))
    assert np.isfinite(edges.weight).all()
