import pytest
import torch

from lrga.data import synthetic_edges, synthetic_graph
from lrga.errors import LRGAError, OptionError


def test_every_edge_is_there_both_ways_once_and_no_loop():
    edge_index = synthetic_edges(3000, 20, communities=6, seed=3)
    assert edge_index.shape == (2, 60_000)
    assert edge_index.dtype == torch.int64
    source, target = edge_index
    assert bool((source != target).all())
    keys = source * 3000 + target
    assert keys.unique().numel() == 60_000
    assert keys.sort().values.equal((target * 3000 + source).sort().values)


def test_most_edges_stay_inside_a_community_and_degrees_have_a_long_tail():
    edge_index = synthetic_edges(20_000, 20, communities=20, mixing=0.2)
    inside = (edge_index[0] // 1000 == edge_index[1] // 1000).double().mean()
    assert 0.7 < inside < 0.9  # four fifths, and a twentieth of the rest by chance
    degree = torch.bincount(edge_index[0], minlength=20_000)
    assert degree.max() > 20 * degree.double().mean()
    assert degree.median() < degree.double().mean()
    flat = torch.bincount(synthetic_edges(20_000, 20, communities=20, exponent=6.0)[0], minlength=20_000)
    assert flat.max() < degree.max() / 4


@pytest.mark.parametrize(("nodes", "per_node"), [(0, 0), (1, 0), (2, 1), (5, 4), (30, 7), (999, 20)])
def test_any_small_number_of_nodes_gives_the_edges_asked_for(nodes, per_node):
    assert synthetic_edges(nodes, per_node).size(1) == nodes * per_node // 2 * 2


def test_the_seed_decides_the_graph():
    first, again, other = (synthetic_edges(500, 10, seed=seed) for seed in (1, 1, 2))
    assert first.equal(again)
    assert not first.equal(other)


def test_impossible_graphs_are_refused():
    with pytest.raises(OptionError, match="at most 4"):
        synthetic_edges(5, 5)
    with pytest.raises(OptionError, match="above 2"):
        synthetic_edges(50, 5, exponent=2.0)
    with pytest.raises(OptionError, match="full"):
        synthetic_edges(100, 20, communities=50, mixing=0.0)


def test_the_task_can_be_learned_from_neighbours_and_hardly_without():
    graph = synthetic_graph(2000, 20, communities=8, noise=3.0, seed=1)
    masks = torch.stack([graph.train_mask, graph.val_mask, graph.test_mask])
    assert masks.sum(0).eq(1).all()
    assert masks.sum(1).tolist() == [1600, 200, 200]
    source, target = graph.edge_index
    mean = torch.zeros_like(graph.x).index_add_(0, target, graph.x[source])
    mean = mean / torch.bincount(target, minlength=2000).clamp(min=1).unsqueeze(1)

    def accuracy(features):  # the nearest class centre of the training nodes
        train = graph.train_mask
        centres = torch.stack([features[train & (graph.y == c)].mean(0) for c in range(4)])
        return (torch.cdist(features, centres).argmin(1) == graph.y)[graph.test_mask].double().mean()

    assert accuracy(mean) > accuracy(graph.x) + 0.1


@pytest.mark.parametrize("wrong", [{"seed": 1.5}, {"seed": -1}, {"noise": float("nan")}, {"edges_per_node": "many"}])
def test_options_that_make_no_sense_are_refused(wrong):
    with pytest.raises(LRGAError, match=r"expected.*To fix:"):
        synthetic_graph(10, **({"edges_per_node": 2} | wrong))


@pytest.mark.slow
def test_ten_million_nodes_take_two_minutes_and_8_gb_at_most(tmp_path):
    import resource
    import subprocess
    import sys
    import time

    begin = time.monotonic()
    code = "from lrga.data import synthetic_edges as s; assert s(10_000_000, 20).shape == (2, 200_000_000)"
    subprocess.run([sys.executable, "-c", code], check=True)
    assert time.monotonic() - begin < 120
    assert resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss < 8 * 2**20
