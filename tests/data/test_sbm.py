"""PATTERN and CLUSTER follow their recipes, and are the same for ever."""

import hashlib

import numpy as np
import pytest
import torch

from lrga.data.datasets.sbm import (
    CLUSTER,
    CLUSTER_BLOCKS,
    PATTERN,
    PATTERN_BLOCKS,
    PATTERNS,
    RandomStream,
    draw_pattern_graph,
    draw_patterns,
)
from lrga.data.datasets.source import BuildContext
from lrga.errors import OptionError

BOTH = pytest.mark.parametrize("spec", [PATTERN, CLUSTER], ids=lambda spec: spec.name)


def built(spec, folder=None, progress=None, **options):
    told = {} if progress is None else {"progress": progress}
    return spec.build(BuildContext(folder, folder, **told), **spec.options(**options))


COUNT = 2_800  # a fifth of PATTERN
SIZES = (2_000, 400, 400)


@pytest.fixture(scope="module")
def pattern():
    return built(PATTERN, sizes=SIZES)


@pytest.fixture(scope="module")
def cluster():
    return built(CLUSTER, sizes=SIZES)


def test_the_stream_is_fixed_for_ever_and_another_for_another_seed_or_key():
    """Whoever changes these words changes every generated set: raise recipe_version of PATTERN and CLUSTER."""
    stream = RandomStream(41, 1, 0, 0)
    assert stream.words(3).tolist() == [1736457661, 1300750661, 2774229049]
    assert stream.below(30, 4).tolist() == [18, 26, 5, 25]
    assert stream.order(5).tolist() == [0, 2, 3, 1, 4]
    first = RandomStream(41, 1, 0, 0).words(8)
    for other in (RandomStream(42, 1, 0, 0), RandomStream(41, 1, 0, 1), RandomStream(41, 1, 1, 0)):
        assert not np.array_equal(first, other.words(8))


def test_integers_and_sizes_of_blocks_are_uniform():
    drawn = RandomStream(0, 0).below(30, 300_000)
    assert (drawn.min(), drawn.max()) == (0, 29)
    counts = np.bincount(drawn)
    # Chi-square with 29 degrees of freedom: mean 29, standard deviation 7.6.
    assert ((counts - 10_000) ** 2 / 10_000).sum() < 29 + 5 * 7.6
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


@BOTH
def test_the_same_seed_gives_the_same_bytes(spec, tmp_path):
    contents = []
    for _ in range(2):
        splits = built(spec, tmp_path, sizes=(150, 10, 120), seed=7)
        for name, split in splits.items():
            split.save(tmp_path / name)
        contents.append([hashlib.sha256((tmp_path / name).read_bytes()).hexdigest() for name in splits])
    assert contents[0] == contents[1]


@pytest.mark.parametrize(
    ("spec", "sha256"),
    [
        (PATTERN, "bf049ac4e88099ca2f7993651771b9eccd40efd52b02d255f544d0c5b0785bda"),
        (CLUSTER, "2821f9659abb7ae13462ba8ade14af05e8ff60553e7636031ce39140630ab668"),
    ],
)
def test_the_bytes_are_those_recorded(spec, sha256):
    """Whoever changes them changes the data: raise recipe_version."""
    assert spec.recipe_version == 1
    small = built(spec, sizes=(3, 1, 1))["train"]
    assert hashlib.sha256(small.source.numpy().tobytes() + small.x.numpy().tobytes()).hexdigest() == sha256


@BOTH
def test_another_seed_and_another_split_give_other_graphs(spec):
    one, other = built(spec, sizes=(5, 5, 5), seed=1), built(spec, sizes=(5, 5, 5), seed=2)
    assert not torch.equal(one["train"].x, other["train"].x)
    assert not torch.equal(one["train"].node_ptr, one["val"].node_ptr)


@BOTH
def test_options_are_checked(spec):
    assert spec.options() == {"seed": 41, "sizes": list(spec.splits.values())}
    assert spec.options(sizes=(1500, 250, 250)) == {"seed": 41, "sizes": [1500, 250, 250]}
    for wrong in ({"sizes": (1, 2)}, {"sizes": (1, 2, 0)}, {"seed": -1}):
        with pytest.raises(OptionError):
            spec.options(**wrong)


def test_progress_reaches_the_end():
    seen = []
    built(CLUSTER, sizes=(250, 1, 1), progress=lambda *step: seen.append(step))
    assert seen[:3] == [("CLUSTER train", 100, 250), ("CLUSTER train", 200, 250), ("CLUSTER train", 250, 250)]


@pytest.mark.parametrize("name", ["pattern", "cluster"])
def test_graphs_are_undirected_without_loops_or_double_edges(name, request):
    for data in request.getfixturevalue(name)["val"][::20]:
        dense = torch.zeros(data.num_nodes, data.num_nodes)
        dense.index_put_(tuple(data.edge_index), torch.ones(data.num_edges), accumulate=True)
        assert torch.equal(dense, dense.t())
        assert dense.max() == 1
        assert dense.diagonal().sum() == 0


def test_mean_nodes_and_edges_are_those_of_the_recipe_and_of_the_published_pattern(pattern):
    """Five blocks with E[n] = 19.5 and E[n²] = 455.17 nodes, and the pattern; edges are directed: pairs count twice."""
    planted = draw_patterns(41)
    size = np.mean([len(p.features) for p in planted])
    nodes = 5 * 19.5 + size
    blocks = 5 * (455.17 - 19.5) * 0.5 + 5 * 4 * 19.5**2 * 0.35
    edges = blocks + 2 * 5 * 19.5 * size * 0.5 + np.mean([p.adjacency.sum() for p in planted])
    assert (nodes, edges) == (pytest.approx(118.9, abs=0.8), pytest.approx(6_079, rel=0.015))
    assert all(6 * 5 <= int(n) <= 6 * 34 for split in pattern.values() for n in split.nodes_per_graph.aminmax())
    found = [sum(getattr(split, f"num_{what}") for split in pattern.values()) / COUNT for what in ("nodes", "edges")]
    assert found[0] == pytest.approx(nodes, abs=5 * (5 * 899 / 12 / COUNT) ** 0.5)
    assert found[1] == pytest.approx(edges, rel=0.022)  # 1 % over all of PATTERN


def test_mean_nodes_and_edges_are_those_of_the_recipe_and_of_the_published_cluster(cluster):
    nodes, edges = 6 * 19.5, 6 * (455.17 - 19.5) * 0.55 + 30 * 19.5**2 * 0.25
    assert (nodes, edges) == (pytest.approx(117.2, abs=0.8), pytest.approx(4_303, rel=0.01))
    found = [sum(getattr(split, f"num_{what}") for split in cluster.values()) / COUNT for what in ("nodes", "edges")]
    assert found[0] == pytest.approx(nodes, abs=5 * (6 * 899 / 12 / COUNT) ** 0.5)
    assert found[1] == pytest.approx(edges, rel=0.022)  # 1 % over all of PATTERN


def test_nodes_are_shuffled(pattern, cluster):
    positions = [data.y.nonzero().flatten().double().mean() / (data.num_nodes - 1) for data in pattern["val"]]
    assert float(sum(positions)) / 400 == pytest.approx(0.5, abs=0.02)
    means = [float(data.y[: data.num_nodes // 2].double().mean()) for data in cluster["val"]]
    assert np.mean(means) == pytest.approx(2.5, abs=0.05)


def test_features_are_three_values_equally_often_and_labels_mark_the_pattern(pattern):
    x, y = pattern["train"].x, pattern["train"].y
    assert torch.bincount(x).div(len(x)).sub(1 / 3).abs().max() < 0.01
    assert sorted(y.unique().tolist()) == [0, 1]
    sizes = [len(p.features) for p in draw_patterns(41)]
    for split in pattern.values():  # each pattern is in the same number of graphs
        graph = torch.repeat_interleave(split.nodes_per_graph)
        marked = torch.zeros(len(split), dtype=torch.int64).index_add_(0, graph, split.y)
        assert marked.tolist() == [sizes[g * PATTERNS // len(split)] for g in range(len(split))]


def test_the_planted_pattern_is_there_node_by_node(pattern):
    """The same pattern in two graphs: equal up to the order of its nodes, features included."""
    planted = draw_patterns(41)[7]
    for data in (pattern["train"][140], pattern["train"][159], pattern["test"][28]):
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
        other = (blocks[:, None] == PATTERN_BLOCKS) ^ (blocks[None, :] == PATTERN_BLOCKS)
        base = (blocks[:, None] < PATTERN_BLOCKS) & (blocks[None, :] < PATTERN_BLOCKS)
        upper = np.triu(np.ones_like(same), 1)
        for kind, mask in enumerate((same & base, ~same & base, other)):
            pairs[kind] += (mask & upper).sum()
            edges[kind] += (mask & upper & adjacency).sum()
        return adjacency

    patterns = draw_patterns(3)
    monkeypatch.setattr(RandomStream, "adjacency", watched)
    stream = RandomStream(3, 1)
    for number in range(60):
        draw_pattern_graph(stream, patterns[number])
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


def test_blocks_have_5_to_34_nodes_equally_often(cluster):
    split = cluster["train"]
    graph = torch.repeat_interleave(split.nodes_per_graph)
    sizes = torch.bincount(graph * CLUSTER_BLOCKS + split.y, minlength=CLUSTER_BLOCKS * len(split))
    assert (int(sizes.min()), int(sizes.max())) == (5, 34)
    counts = torch.bincount(sizes)[5:].double()
    # Chi-square with 29 degrees of freedom: mean 29, standard deviation 7.6.
    assert float(((counts - 400) ** 2 / 400).sum()) < 29 + 5 * 7.6


def test_densities_inside_and_between_blocks_are_the_recipes(cluster):
    part = cluster["val"].batch(slice(None))
    source, target = part.edge_index
    same_edges = int((part.y[source] == part.y[target]).sum())
    sizes = (
        torch.bincount(part.batch * CLUSTER_BLOCKS + part.y, minlength=CLUSTER_BLOCKS * part.num_graphs)
        .view(-1, CLUSTER_BLOCKS)
        .double()
    )
    same_pairs = float((sizes * (sizes - 1)).sum())
    other_pairs = float((sizes.sum(1) ** 2 - (sizes**2).sum(1)).sum())
    for found, pairs, expected in (
        (same_edges / same_pairs, same_pairs, 0.55),
        ((part.num_edges - same_edges) / other_pairs, other_pairs, 0.25),
    ):
        # Every pair is counted twice, in both directions.
        assert found == pytest.approx(expected, abs=5 * (expected * (1 - expected) / (pairs / 2)) ** 0.5)


def test_one_node_of_each_block_carries_its_number(cluster):
    x, y, graph = cluster["train"].x, cluster["train"].y, torch.repeat_interleave(cluster["train"].nodes_per_graph)
    marked = x.nonzero().flatten()
    assert torch.equal(x[marked], y[marked] + 1)
    counts = torch.bincount(graph[marked] * CLUSTER_BLOCKS + y[marked], minlength=CLUSTER_BLOCKS * SIZES[0])
    assert counts.unique().tolist() == [1]


def test_the_marked_node_is_any_node_of_its_block(cluster):
    """Its place among the nodes of its block is uniform: the mean of (place + .5) / size is one half."""
    places = []
    for data in cluster["val"][:300]:
        for block in range(CLUSTER_BLOCKS):
            members = (data.y == block).nonzero().flatten()
            place = (data.x[members] > 0).nonzero().flatten()
            places.append((float(place) + 0.5) / len(members))
    assert np.mean(places) == pytest.approx(0.5, abs=5 * 0.29 / 1800**0.5)
