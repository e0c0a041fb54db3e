import pytest
import torch

from lrga.data.links import walks
from lrga.data.links.walks import Walker
from lrga.errors import OptionError, ShapeError
from lrga.ops.neighbors.edges import EdgeLayout

# 0 and 1 share the neighbour 2; 3 hangs at 0; 4 hangs at 1; 5 is alone
PAIRS = torch.tensor([[0, 1], [0, 2], [1, 2], [0, 3], [1, 4]])
N = 6


def layout_of(pairs=PAIRS, n=N):
    return EdgeLayout.from_edge_index(torch.cat([pairs, pairs.flip(1)]).t(), n)[0]


def generator(seed=0):
    return torch.Generator().manual_seed(seed)


def adjacency():
    matrix = torch.zeros(N, N)
    matrix[PAIRS[:, 0], PAIRS[:, 1]] = 1
    return matrix + matrix.t()


def test_every_step_follows_an_edge_and_a_lone_node_stays():
    found = Walker(layout_of(), p=0.3, q=3.0).walk(torch.arange(N).repeat(50), 12, generator=generator())
    assert found.shape == (300, 13)
    assert found.dtype == torch.int64
    steps = adjacency()[found[:, :-1], found[:, 1:]] > 0
    alone = found[:, 0] == 5
    assert bool(steps[~alone].all())
    assert bool((found[alone] == 5).all())


def test_uniform_steps_have_equal_chances():
    found = Walker(layout_of()).walk(torch.zeros(60_000, dtype=torch.int64), 1, generator=generator())
    counts = torch.bincount(found[:, 1], minlength=N)
    assert counts[[0, 4, 5]].sum() == 0
    assert float(((counts[[1, 2, 3]] - 20_000) ** 2 / 20_000).sum()) < 16  # 2 degrees of freedom: .0003


@pytest.mark.parametrize(("p", "q"), [(0.25, 4.0), (4.0, 0.25), (1.0, 0.5), (2.0, 1.0), (0.5, 0.2)])
def test_biased_steps_have_exactly_node2vecs_chances(p, q):
    count = 120_000
    found = Walker(layout_of(), p=p, q=q).walk(torch.full((count,), 2), 2, generator=generator())
    near = adjacency()
    for before, at in ((2, 0), (2, 1)):
        chosen = found[found[:, 1] == at]
        weights = torch.zeros(N)
        for x in torch.nonzero(near[at]).flatten().tolist():
            weights[x] = 1 / p if x == before else 1.0 if near[before, x] else 1 / q
        expected = weights / weights.sum() * len(chosen)
        seen = torch.bincount(chosen[:, 2], minlength=N).float()
        possible = expected > 0
        assert float(seen[~possible].sum()) == 0
        chi_squared = float(((seen - expected)[possible] ** 2 / expected[possible]).sum())
        assert chi_squared < 18  # 2 degrees of freedom: .0001


def test_walks_follow_from_the_generator():
    walker = Walker(layout_of(), p=0.5, q=2.0)
    first, again, other = (walker.walk(torch.arange(5), 9, generator=generator(s)) for s in (1, 1, 2))
    assert torch.equal(first, again)
    assert not torch.equal(first, other)


def test_directed_edges_are_walked_one_way():
    layout, _ = EdgeLayout.from_edge_index(torch.tensor([[0, 1, 2], [1, 2, 0]]), 3)
    assert Walker(layout).walk(torch.tensor([0, 1]), 4, generator=generator()).tolist() == [
        [0, 1, 2, 0, 1], [1, 2, 0, 1, 2],
    ]  # fmt: skip


def test_impossible_requests_are_refused():
    with pytest.raises(OptionError, match="p from 1e-30 to 1e"):
        Walker(layout_of(), p=0)
    walker = Walker(layout_of())
    with pytest.raises(ShapeError, match="from 6 to 6"):
        walker.walk(torch.tensor([6]), 2, generator=generator())
    assert walker.walk(torch.tensor([], dtype=torch.int64), 2, generator=generator()).shape == (0, 3)
    assert walker.walk(torch.tensor([3]), 0, generator=generator()).tolist() == [[3]]


def test_parallel_edges_and_one_way_streets_have_exact_chances_too():
    # 1 leads to 0 twice, to 2 and 3; 0 leads to 1 alone: having come from 0, with p = 1/4
    edges = torch.tensor([[0, 1], [1, 0], [1, 0], [1, 2], [1, 3], [2, 0], [3, 0]]).t()
    layout, _ = EdgeLayout.from_edge_index(edges, 4)
    found = Walker(layout, p=0.25, q=2.0).walk(torch.zeros(90_000, dtype=torch.int64), 2, generator=generator())
    expected = torch.tensor([8.0, 0.0, 0.5, 0.5]) / 9 * 90_000
    seen = torch.bincount(found[:, 2], minlength=4)
    assert seen[1] == 0
    assert float(((seen - expected)[[0, 2, 3]] ** 2 / expected[[0, 2, 3]]).sum()) < 18
    # 0 → 1 → {2, 3} without a way back
    layout, _ = EdgeLayout.from_edge_index(torch.tensor([[0, 1, 1], [1, 2, 3]]), 4)
    found = Walker(layout, p=0.1, q=2.0).walk(torch.zeros(20_000, dtype=torch.int64), 2, generator=generator())
    counts = torch.bincount(found[:, 2], minlength=4)
    assert counts[:2].sum() == 0
    assert abs(int(counts[2]) - 10_000) < 300


def test_a_step_that_is_hardly_ever_accepted_does_not_hang():
    ends = torch.tensor([3, 4]).repeat(50)  # the way back is the only one; from 0 and 1 it is as good as impossible
    found = Walker(layout_of(), p=1e9, q=1e-3).walk(ends, 6, generator=generator())
    near = adjacency()
    assert bool((near[found[:, :-1], found[:, 1:]] == 1).all())
    assert bool((found[:, 0] != found[:, 2]).all())
    alone = Walker(layout_of(), p=1e9).walk(torch.tensor([5]), 4, generator=generator())
    assert alone.tolist() == [[5] * 5]


@pytest.mark.parametrize("entries", [1, 1 << 22])
def test_steps_weighed_over_all_neighbours_have_the_same_chances(monkeypatch, entries):
    monkeypatch.setattr(walks, "ENTRIES", entries)
    count = 40_000 if entries > 1 else 2_000
    walker = Walker(layout_of(), p=4.0, q=0.25)
    at, before = torch.full((count,), 0, dtype=torch.int32), torch.full((count,), 2, dtype=torch.int32)
    seen = torch.bincount(walker._weighed(before, at, generator()).long(), minlength=N)
    expected = torch.tensor([0.0, 1.0, 0.25, 4.0, 0.0, 0.0]) / 5.25 * count
    possible = expected > 0
    assert int(seen[~possible].sum()) == 0
    assert float(((seen - expected)[possible] ** 2 / expected[possible]).sum()) < 18
