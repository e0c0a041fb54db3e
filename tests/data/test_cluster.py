import hashlib

import numpy as np
import pytest
import torch

from lrga.data.datasets.place import BuildPlace
from lrga.data.datasets.sbm import cluster
from lrga.data.datasets.sbm.cluster import BLOCKS, build, options
from lrga.errors import OptionError


def built(**given):
    return build(BuildPlace(None, None, workers=2), **options(**given))


@pytest.fixture(scope="module")
def full():
    """The whole set: less than two seconds."""
    return built()


def test_all_12_000_graphs_are_there(full):
    assert [len(split) for split in full.values()] == [10_000, 1_000, 1_000]


def test_mean_nodes_and_edges_are_the_published_ones(full):
    assert full["train"].statistics["mean_nodes"] == pytest.approx(117.2, abs=0.8)
    assert full["train"].statistics["mean_edges"] == pytest.approx(4_303, rel=0.01)


def test_mean_nodes_and_edges_are_those_of_the_recipe(full):
    nodes = sum(split.num_nodes for split in full.values()) / 12_000
    edges = sum(split.num_edges for split in full.values()) / 12_000
    assert nodes == pytest.approx(6 * 19.5, abs=5 * (6 * 899 / 12 / 12_000) ** 0.5)
    # E[n] = 19.5, E[n²] = 455.17 for a block; every pair counts twice as edges are directed.
    assert edges == pytest.approx(6 * (455.17 - 19.5) * 0.55 + 30 * 19.5**2 * 0.25, rel=0.01)


def test_blocks_have_5_to_34_nodes_equally_often(full):
    split = full["train"]
    graph = torch.repeat_interleave(split.nodes_per_graph)
    sizes = torch.bincount(graph * BLOCKS + split.y, minlength=BLOCKS * len(split))
    assert (int(sizes.min()), int(sizes.max())) == (5, 34)
    counts = torch.bincount(sizes)[5:].double()
    # Chi-square with 29 degrees of freedom: mean 29, standard deviation 7.6.
    assert float(((counts - 2_000) ** 2 / 2_000).sum()) < 29 + 5 * 7.6


def test_densities_inside_and_between_blocks_are_the_recipes(full):
    part = full["val"].batch(slice(None))
    source, target = part.edge_index
    same_edges = int((part.y[source] == part.y[target]).sum())
    sizes = torch.bincount(part.batch * BLOCKS + part.y, minlength=BLOCKS * part.num_graphs).view(-1, BLOCKS).double()
    same_pairs = float((sizes * (sizes - 1)).sum())
    other_pairs = float((sizes.sum(1) ** 2 - (sizes**2).sum(1)).sum())
    for found, pairs, expected in (
        (same_edges / same_pairs, same_pairs, 0.55),
        ((part.num_edges - same_edges) / other_pairs, other_pairs, 0.25),
    ):
        # Every pair is counted twice, in both directions.
        assert found == pytest.approx(expected, abs=5 * (expected * (1 - expected) / (pairs / 2)) ** 0.5)


def test_one_node_of_each_block_carries_its_number(full):
    x, y, graph = full["train"].x, full["train"].y, torch.repeat_interleave(full["train"].nodes_per_graph)
    marked = x.nonzero().flatten()
    assert torch.equal(x[marked], y[marked] + 1)
    counts = torch.bincount(graph[marked] * BLOCKS + y[marked], minlength=BLOCKS * 10_000)
    assert counts.unique().tolist() == [1]


def test_the_marked_node_is_any_node_of_its_block(full):
    """Its place among the nodes of its block is uniform: the mean of (place + .5) / size is one half."""
    places = []
    for data in full["val"][:300]:
        for block in range(BLOCKS):
            members = (data.y == block).nonzero().flatten()
            place = (data.x[members] > 0).nonzero().flatten()
            places.append((float(place) + 0.5) / len(members))
    assert np.mean(places) == pytest.approx(0.5, abs=5 * 0.29 / 1800**0.5)


def test_graphs_are_undirected_without_loops_or_double_edges(full):
    for data in full["test"][::100]:
        dense = torch.zeros(data.num_nodes, data.num_nodes)
        dense.index_put_(tuple(data.edge_index), torch.ones(data.num_edges), accumulate=True)
        assert torch.equal(dense, dense.t())
        assert dense.max() == 1
        assert dense.diagonal().sum() == 0


def test_nodes_are_shuffled(full):
    means = [float(data.y[: data.num_nodes // 2].double().mean()) for data in full["val"][:400]]
    assert np.mean(means) == pytest.approx(2.5, abs=0.05)


def test_the_same_seed_gives_the_same_bytes_whatever_the_number_of_workers(tmp_path):
    chosen = options(sizes=(250, 30, 120), seed=7)
    contents = []
    for workers in (1, 2, 3):
        splits = build(BuildPlace(tmp_path, tmp_path, workers=workers), **chosen)
        for name, split in splits.items():
            split.save(tmp_path / name)
        contents.append([hashlib.sha256((tmp_path / name).read_bytes()).hexdigest() for name in splits])
    assert contents[0] == contents[1] == contents[2]


def test_the_bytes_are_those_recorded():
    """Whoever changes them changes the data: raise recipe_version."""
    assert cluster.SPEC.recipe_version == 1
    small = built(sizes=(3, 1, 1))
    content = hashlib.sha256(small["train"].source.numpy().tobytes() + small["train"].x.numpy().tobytes())
    assert content.hexdigest() == "2821f9659abb7ae13462ba8ade14af05e8ff60553e7636031ce39140630ab668"


def test_another_seed_gives_other_graphs():
    assert not torch.equal(built(sizes=(5, 1, 1), seed=1)["train"].x, built(sizes=(5, 1, 1), seed=2)["train"].x)


def test_options_are_checked():
    assert options() == {"seed": 41, "sizes": [10_000, 1_000, 1_000]}
    assert options(sizes=(1500, 250, 250)) == {"seed": 41, "sizes": [1500, 250, 250]}
    with pytest.raises(OptionError):
        options(sizes=(1, 2, 0))
