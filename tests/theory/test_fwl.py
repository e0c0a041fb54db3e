"""2-WL and 2-FWL against their definitions, their exactness, their speed and their memory."""

import subprocess
import sys
import tracemalloc

import networkx as nx
import numpy as np
import pytest
import torch

from lrga.errors import DeviceError
from lrga.theory.kernels import same_partition
from lrga.theory.labelled import as_graph
from lrga.theory.wl import fwl
from lrga.theory.wl.fwl import refine_pairs
from lrga.theory.wl.joint import join, pair_types
from lrga.theory.wl.verdicts import verdict_matrix
from lrga.theory.zoo import circular_skip_links, connected_graphs, random_graph, rook, shrikhande


def what_a_pair_sees(test, c, i, j):
    n = len(c)
    if test == "2-fwl":
        return (c[i, j], *sorted((c[i, k], c[k, j]) for k in range(n)))
    return (c[i, j], tuple(sorted(c[k, j] for k in range(n))), tuple(sorted(c[i, k] for k in range(n))))


def by_definition(graphs, test="2-fwl", rounds=None):
    types, count = pair_types(join(graphs))
    n, colours, done = graphs[0].num_nodes, types, 0
    while rounds is None or done < rounds:
        keys = [what_a_pair_sees(test, c, i, j) for c in colours for i in range(n) for j in range(n)]
        names = {key: number for number, key in enumerate(sorted(set(keys)))}
        if len(names) == count:
            break
        colours = np.array([names[key] for key in keys]).reshape(types.shape)
        count, done = len(names), done + 1
    return colours, done


def small_graphs():
    for seed in range(4):
        yield random_graph(8, 0.3, seed)
        yield as_graph(random_graph(8, 0.4, seed), node_labels=np.arange(8) % 3)
        yield as_graph(nx.gnp_random_graph(8, 0.25, seed=seed, directed=True))
    labelled = random_graph(8, 0.5, 9)
    yield as_graph(labelled, edge_labels=(labelled.source + labelled.target) % 2)
    yield as_graph(nx.path_graph(11))


@pytest.mark.parametrize("test", ["2-wl", "2-fwl"])
@pytest.mark.parametrize("graph", list(small_graphs()), ids=repr)
def test_colours_and_rounds_are_those_of_the_definition(graph, test):
    result = refine_pairs([graph], test)
    wanted, rounds = by_definition([graph], test)
    assert same_partition(result.colours[0], wanted)
    assert (result.rounds, result.stable) == (rounds, True)


@pytest.mark.parametrize("rounds", [0, 1, 2])
def test_cut_after_some_rounds_colours_are_those_of_the_definition(rounds):
    graphs = [as_graph(nx.path_graph(10)), as_graph(nx.cycle_graph(10))]
    result = refine_pairs(graphs, rounds=rounds)
    assert same_partition(np.stack(result.colours), by_definition(graphs, rounds=rounds)[0])
    assert result.rounds == rounds


def test_rounds_are_reported_and_names_do_not_depend_on_the_order_of_the_nodes():
    graph = random_graph(25, 0.1, 0)
    order = np.random.default_rng(0).permutation(25)
    plain, moved = refine_pairs([graph]).colours[0], refine_pairs([graph.permuted(order)]).colours[0]
    assert np.array_equal(moved[np.ix_(order, order)], plain)
    assert refine_pairs(circular_skip_links()[:2], until_apart=True).apart_after is not None
    assert refine_pairs([rook(), shrikhande()], until_apart=True).apart_after is None


def test_blocks_of_any_size_give_the_same_colours(monkeypatch):
    graphs = [random_graph(20, 0.1, 0), random_graph(20, 0.1, 1), as_graph(nx.cycle_graph(20))]
    whole = refine_pairs(graphs).colours
    monkeypatch.setattr(fwl, "_BLOCK_BYTES", 500)  # three rows at a time
    assert np.array_equal(np.stack(refine_pairs(graphs).colours), np.stack(whole))


def test_products_are_exact_and_have_128_bits():
    for size in (1, 2, 7, 200, 5_000, 100_000):
        prime, products = fwl._modulus(size)
        assert size * (prime // 2) ** 2 < 2**53
        assert products * np.log2(prime / 2) >= 128
        assert all(prime % d for d in range(2, min(prime, 1000)))


def test_a_collision_of_hashes_decides_nothing(monkeypatch):
    """With equal weights for all colours at first, the exact comparison at the end sends the refinement back."""
    honest = fwl._weights

    def weak(num_colours, prime, seed, device):
        left, right = honest(num_colours, prime, seed, device)
        return (left, right) if seed >= fwl._modulus(10)[1] else (torch.ones_like(left), torch.ones_like(right))

    monkeypatch.setattr(fwl, "_weights", weak)
    graph = as_graph(nx.path_graph(10))
    result = refine_pairs([graph])
    assert same_partition(result.colours[0], by_definition([graph])[0])
    assert result.stable


@pytest.mark.parametrize(
    "graph", [nx.path_graph(200), nx.random_regular_graph(3, 200, seed=0)], ids=["path", "regular"]
)
def test_graphs_of_200_nodes_become_stable(graph):
    assert refine_pairs([as_graph(graph)]).stable


def test_2wl_tells_apart_exactly_what_1wl_does():
    graphs = connected_graphs(6)
    assert np.array_equal(verdict_matrix(graphs, "2-wl"), verdict_matrix(graphs, "1-wl"))
    seeds = np.random.default_rng(0).integers(0, 999, 60)
    directed = [as_graph(nx.gnp_random_graph(5, 0.3, seed=int(seed), directed=True)) for seed in seeds]
    assert np.array_equal(verdict_matrix(directed, "2-wl"), verdict_matrix(directed, "1-wl"))


def test_memory_of_2wl_stays_within_what_is_asked_for():
    graph = random_graph(200, 0.1, 0)
    tracemalloc.start()
    refine_pairs([graph], "2-wl")
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < fwl._BYTES_PER_PAIR["2-wl"] * 200**2


@pytest.mark.slow
def test_memory_of_2fwl_stays_within_what_is_asked_for():
    """In a process of its own, since the peak of a process never falls."""
    script = (
        "import torch; torch.set_num_threads(1)\n"
        "from lrga.theory.wl import fwl\n"
        "from lrga.theory.zoo import random_graph\n"
        "def peak_of_process():\n"
        "    lines = open('/proc/self/status').read().splitlines()\n"
        "    return next(int(line.split()[1]) * 1024 for line in lines if line.startswith('VmHWM'))\n"
        "fwl.refine_pairs([random_graph(30, .1, 0)])\n"
        "graph = random_graph(400, .004, 0)\n"
        "before = peak_of_process()\n"
        "assert fwl.refine_pairs([graph]).stable\n"
        "peak = peak_of_process() - before\n"
        "print(peak, fwl._BYTES_PER_PAIR['2-fwl'] * 400**2 + 8 * fwl._BLOCK_BYTES)\n"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    peak, allowed = map(int, done.stdout.split())
    assert peak < allowed


def test_a_device_that_is_not_there_is_refused():
    with pytest.raises(DeviceError, match="cpu"):
        refine_pairs([random_graph(3, 0.5, 0)], device="nowhere")
    with pytest.raises(DeviceError, match="double precision"):
        refine_pairs([random_graph(3, 0.5, 0)], device="mps")
    if not torch.cuda.is_available():
        with pytest.raises(DeviceError, match="without one"):
            refine_pairs([random_graph(3, 0.5, 0)], device="cuda")


@pytest.mark.gpu
def test_a_gpu_gives_the_very_same_colours():
    graphs = [random_graph(60, 0.05, 0), random_graph(60, 0.05, 1), as_graph(nx.path_graph(60))]
    here, there = refine_pairs(graphs), refine_pairs(graphs, device="cuda")
    assert np.array_equal(np.stack(here.colours), np.stack(there.colours))
    assert (here.rounds, here.stable) == (there.rounds, there.stable)
