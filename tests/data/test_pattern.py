import hashlib
import time

import numpy as np
import pytest
import torch

from lrga.data.datasets.place import BuildPlace
from lrga.data.datasets.sbm import pattern
from lrga.data.datasets.sbm.blocks import RandomStream
from lrga.data.datasets.sbm.pattern import BLOCKS, PATTERNS, build, draw_graph, draw_patterns, options
from lrga.errors import OptionError


def built(**given):
    return build(BuildPlace(None, None, workers=2), **options(**given))


@pytest.fixture(scope="module")
def timed():
    """The whole set and the seconds of computing it took: about two."""
    start = time.process_time()
    return built(), time.process_time() - start


@pytest.fixture(scope="module")
def full(timed):
    return timed[0]


def digest(splits, folder):
    result = []
    for name, split in splits.items():
        split.save(folder / name)
        result.append(hashlib.sha256((folder / name).read_bytes()).hexdigest())
    return result


def test_all_14_000_graphs_are_there_within_ten_seconds(timed):
    splits, seconds = timed
    assert [len(split) for split in splits.values()] == [10_000, 2_000, 2_000]
    # Computing time of all threads together: less than that passes on the clock of two free cores.
    assert seconds < 10


def test_mean_nodes_and_edges_are_the_published_ones(full):
    nodes = sum(split.num_nodes for split in full.values()) / 14_000
    edges = sum(split.num_edges for split in full.values()) / 14_000
    assert nodes == pytest.approx(118.9, abs=0.8)
    assert edges == pytest.approx(6_079, rel=0.015)


def test_mean_nodes_are_those_of_the_recipe(full):
    """Five blocks of 19.5 nodes in the mean and the pattern: over 14,000 graphs to five standard deviations."""
    sizes = np.array([len(p.features) for p in draw_patterns(41)])
    nodes = sum(split.num_nodes for split in full.values()) / 14_000
    assert nodes == pytest.approx(5 * 19.5 + sizes.mean(), abs=5 * (5 * 899 / 12 / 14_000) ** 0.5)


def test_mean_edges_are_those_of_the_recipe(full):
    """E[n] = 19.5, E[n²] = 455.17 for a block; every pair counts twice as edges are directed."""
    sizes = np.array([len(p.features) for p in draw_patterns(41)])
    inside = 5 * (455.17 - 19.5) * 0.5
    between = 5 * 4 * 19.5**2 * 0.35
    joined = 2 * 5 * 19.5 * sizes.mean() * 0.5
    planted = np.mean([p.adjacency.sum() for p in draw_patterns(41)])
    edges = sum(split.num_edges for split in full.values()) / 14_000
    assert edges == pytest.approx(inside + between + joined + planted, rel=0.01)


def test_sizes_stay_within_the_recipes_bounds(full):
    for split in full.values():
        assert int(split.nodes_per_graph.min()) >= 6 * 5
        assert int(split.nodes_per_graph.max()) <= 6 * 34


def test_features_are_three_values_equally_often_and_labels_mark_the_pattern(full):
    x, y = full["train"].x, full["train"].y
    assert torch.bincount(x).div(len(x)).sub(1 / 3).abs().max() < 0.01
    assert sorted(y.unique().tolist()) == [0, 1]
    sizes = [len(p.features) for p in draw_patterns(41)]
    graph = torch.repeat_interleave(full["train"].nodes_per_graph)
    marked = torch.zeros(10_000, dtype=torch.int64).index_add_(0, graph, y)
    assert marked.tolist() == [sizes[g // 100] for g in range(10_000)]


def test_graphs_are_undirected_without_loops_or_double_edges(full):
    for data in full["val"][::200]:
        dense = torch.zeros(data.num_nodes, data.num_nodes)
        dense.index_put_(tuple(data.edge_index), torch.ones(data.num_edges), accumulate=True)
        assert torch.equal(dense, dense.t())
        assert dense.max() == 1
        assert dense.diagonal().sum() == 0


def test_the_planted_pattern_is_there_node_by_node(full):
    """The same pattern in two graphs: equal up to the order of its nodes, features included."""
    planted = draw_patterns(41)[7]
    for data in (full["train"][700], full["train"][799], full["test"][140]):
        members = data.y.nonzero().flatten()
        dense = torch.zeros(data.num_nodes, data.num_nodes, dtype=torch.bool)
        dense[tuple(data.edge_index)] = True
        inner = dense[members][:, members]
        assert int(inner.sum()) == int(planted.adjacency.sum())
        assert sorted(inner.sum(1).tolist()) == sorted(planted.adjacency.sum(1).tolist())
        profile = sorted(zip(data.x[members].tolist(), inner.sum(1).tolist(), strict=True))
        assert profile == sorted(zip(planted.features.tolist(), planted.adjacency.sum(1).tolist(), strict=True))


def test_densities_of_one_drawn_graph_follow_the_blocks(monkeypatch):
    """Blocks and labels are visible only while drawing, so the densities are measured there."""
    pairs, edges = np.zeros(3), np.zeros(3)
    adjacency_of = RandomStream.adjacency

    def watched(self, blocks, probability):
        adjacency = adjacency_of(self, blocks, probability)
        same = blocks[:, None] == blocks[None, :]
        other = (blocks[:, None] == BLOCKS) ^ (blocks[None, :] == BLOCKS)
        base = (blocks[:, None] < BLOCKS) & (blocks[None, :] < BLOCKS)
        upper = np.triu(np.ones_like(same), 1)
        for kind, mask in enumerate((same & base, ~same & base, other)):
            pairs[kind] += (mask & upper).sum()
            edges[kind] += (mask & upper & adjacency).sum()
        return adjacency

    patterns = draw_patterns(3)
    monkeypatch.setattr(RandomStream, "adjacency", watched)
    stream = RandomStream(3, 1)
    for number in range(60):
        draw_graph(stream, patterns[number])
    for density, expected, count in zip(edges / pairs, (0.5, 0.35, 0.5), pairs, strict=True):
        assert density == pytest.approx(expected, abs=5 * (expected * (1 - expected) / count) ** 0.5)


def test_patterns_have_5_to_34_nodes_and_half_of_their_pairs_joined():
    patterns = draw_patterns(5)
    assert len(patterns) == PATTERNS
    sizes = [len(p.features) for p in patterns]
    assert min(sizes) >= 5
    assert max(sizes) <= 34
    pairs = sum(n * (n - 1) for n in sizes)
    assert sum(p.adjacency.sum() for p in patterns) / pairs == pytest.approx(0.5, abs=0.02)


def test_each_pattern_is_in_the_same_number_of_graphs():
    small = built(sizes=(200, 100, 300))
    sizes = [len(p.features) for p in draw_patterns(41)]
    for split, each in (("train", 2), ("val", 1), ("test", 3)):
        marked = [int(data.y.sum()) for data in small[split]]
        assert marked == [sizes[g // each] for g in range(len(marked))]


def test_nodes_are_shuffled(full):
    positions = [data.y.nonzero().flatten().double().mean() / (data.num_nodes - 1) for data in full["val"][:400]]
    assert float(sum(positions)) / 400 == pytest.approx(0.5, abs=0.02)


def test_the_same_seed_gives_the_same_bytes_whatever_the_number_of_workers(tmp_path):
    chosen = options(sizes=(250, 30, 120), seed=7)
    digests = []
    for workers in (1, 2, 3):
        folder = tmp_path / str(workers)
        folder.mkdir()
        digests.append(digest(build(BuildPlace(folder, folder, workers=workers), **chosen), folder))
    assert digests[0] == digests[1] == digests[2]


def test_the_bytes_are_those_recorded(tmp_path):
    """Whoever changes them changes the data: raise recipe_version."""
    assert pattern.SPEC.recipe_version == 1
    small = built(sizes=(3, 1, 1))
    content = hashlib.sha256(small["train"].source.numpy().tobytes() + small["train"].x.numpy().tobytes())
    assert content.hexdigest() == "bf049ac4e88099ca2f7993651771b9eccd40efd52b02d255f544d0c5b0785bda"


def test_another_seed_gives_other_graphs():
    assert not torch.equal(built(sizes=(5, 1, 1), seed=1)["train"].x, built(sizes=(5, 1, 1), seed=2)["train"].x)


def test_splits_differ():
    small = built(sizes=(5, 5, 5))
    assert not torch.equal(small["train"].node_ptr, small["val"].node_ptr)


def test_options_are_checked():
    assert options() == {"seed": 41, "sizes": [10_000, 2_000, 2_000]}
    with pytest.raises(OptionError):
        options(sizes=(1, 2))
    with pytest.raises(OptionError):
        options(seed=-1)
