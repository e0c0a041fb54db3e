import numpy as np
import pytest
import torch

from lrga.data.links.split import split_edges
from lrga.errors import DataError, OptionError

UPPER = np.stack(np.triu_indices(30, 1), 1)


def edges(count=200, seed=0):
    return np.random.default_rng(seed).permutation(UPPER)[:count]


def ids(n=30):
    return tuple(map(str, range(n)))


def as_set(tensor):
    return {tuple(sorted(pair)) for pair in tensor.tolist()}


def test_a_random_split_has_every_edge_once_and_negatives_that_are_no_edge():
    data = split_edges(edges(), ids())
    parts = [as_set(split.edge) for split in data.splits.values()]
    assert [len(part) for part in parts] == [160, 20, 20]
    assert set.union(*parts) == as_set(edges())
    assert data.edge is data.splits["train"].edge
    for name in ("val", "test"):
        negative = data.splits[name].edge_neg
        assert len(negative) == 470  # 30 * 29 pairs less both directions of 200 edges
        assert not as_set(negative) & as_set(edges())
    data.check("here")
    again = split_edges(edges(), ids())
    assert again.fingerprint() == data.fingerprint()
    assert split_edges(edges(), ids(), seed=1).fingerprint() != data.fingerprint()


def test_by_time_the_latest_are_predicted():
    time = np.random.default_rng(1).permutation(200).astype(float)
    data = split_edges(edges(), ids(), by="time", fractions=(0.5, 0.3, 0.2), time=time)
    latest = [int(data.splits[s].time.max()) for s in ("train", "val", "test")]
    assert latest == [99, 159, 199]
    assert int(data.splits["test"].time.min()) == 160
    with pytest.raises(DataError, match="column 'time'"):
        split_edges(edges(), ids(), by="time")


def test_a_given_split_is_taken_and_an_edge_in_two_splits_refused():
    given = np.arange(200) % 3
    data = split_edges(edges(), ids(), given=given)
    assert as_set(data.splits["val"].edge) == as_set(torch.from_numpy(edges()[given == 1]))
    twice = np.concatenate([edges(), edges()[:1, ::-1]])
    with pytest.raises(DataError, match="in two"):
        split_edges(twice, ids(), given=np.append(given, 1))
    with pytest.raises(DataError, match="edges to predict in 'test'"):
        split_edges(edges(), ids(), given=given % 2)


def test_repeated_edges_are_joined():
    twice = np.concatenate([edges(50), edges(50)[:10, ::-1]])
    data = split_edges(twice, ids(), weight=np.ones(60), time=np.r_[np.full(50, 5.0), np.full(10, 2.0)])
    weights = torch.cat([split.weight for split in data.splits.values()])
    assert sorted(weights.tolist()) == [1.0] * 40 + [2.0] * 10
    assert sorted(torch.cat([s.time for s in data.splits.values()]).tolist()) == [2] * 10 + [5] * 40
    assert len(split_edges(twice, ids(), directed=True).edge) == 48


def test_a_complete_graph_and_impossible_requests_are_refused():
    with pytest.raises(DataError, match="complete graph"):
        split_edges(np.stack(np.triu_indices(6, 1), 1), ids(6))
    with pytest.raises(DataError, match="between different nodes"):
        split_edges(np.array([[1, 1]]), ids(3))
    for wrong in ({"by": "luck"}, {"fractions": (0.5, 0.5)}, {"fractions": (0.5, 0.4, 0.3)}, {"directed": 1}):
        with pytest.raises(OptionError):
            split_edges(edges(), ids(), **wrong)


def test_an_edge_in_two_splits_is_named_as_the_user_calls_it():
    edge, given = np.array([[0, 1], [1, 0], [1, 2]]), np.array([0, 1, 2])
    with pytest.raises(DataError, match="the edge b, a in two"):
        split_edges(edge, ("a", "b", "c"), given=given)


def test_times_beyond_whole_numbers_are_cut_not_wrapped():
    edge = np.array([[0, 1], [1, 2], [2, 3]])
    data = split_edges(edge, None, by="time", time=np.array([1e300, 0.0, -1e300]))
    assert data.splits["train"].edge.tolist() == [[2, 3]]
    assert int(data.splits["test"].time[0]) == 2**62


def test_fractions_beside_given_splits_are_refused_not_passed_over():
    edge, given = np.array([[0, 1], [1, 2], [2, 3], [3, 4], [4, 5]]), np.array([0, 0, 0, 1, 2])
    half = (0.5, 0.25, 0.25)
    with pytest.raises(OptionError, match="fractions as well as the column split"):
        split_edges(edge, None, fractions=half, given=given)
    parts = split_edges(edge, None, fractions=half, by="random", given=given).splits
    assert [len(parts[name].edge) for name in ("train", "val", "test")] == [3, 1, 1]


def test_repeats_after_the_training_period_do_not_count_in_its_weights():
    """Edge k comes at time k with weight 1, and again at the very end with weight 100."""
    edge = np.array([[k, k + 1] for k in range(10)] * 2)
    time = np.r_[np.arange(10.0), np.full(10, 50.0)]
    weight = np.r_[np.ones(10), np.full(10, 100.0)]
    data = split_edges(edge, None, by="time", weight=weight, time=time)
    assert data.edge_weight.tolist() == [1.0] * 8
    assert data.splits["val"].weight.tolist() == [1.0]
    assert "10 repeated edges later than their split ignored in its weights" in data.meta["notes"]


def test_repeats_within_the_training_period_are_summed():
    edge = np.array([[0, 1], [1, 2], [1, 0], [2, 3], [3, 4], [0, 1], [4, 5], [5, 6]])
    time = np.array([0.0, 1, 2, 3, 4, 5, 6, 7])
    weight = np.array([1.0, 1, 2, 1, 1, 4, 1, 1])
    data = split_edges(edge, None, fractions=(0.6, 0.2, 0.2), by="time", weight=weight, time=time)
    found = dict(zip(map(tuple, data.edge.tolist()), data.edge_weight.tolist(), strict=True))
    assert found == {(0, 1): 3.0, (1, 2): 1.0, (2, 3): 1.0, (3, 4): 1.0}  # 4 comes at time 5, after the last of train
    random = split_edges(edge, None, fractions=(0.6, 0.2, 0.2), weight=weight, time=time)
    weights = torch.cat([part.weight for part in random.splits.values()])
    assert sorted(weights.tolist()) == [1.0] * 5 + [7.0]
