"""The 2-FWL update as power sums, exactly."""

import math

import numpy as np
import pytest

from lrga.errors import DTypeError, ShapeError
from lrga.theory import fwl_update, refine
from lrga.theory.atlas import connected_graphs
from lrga.theory.multiset import channel_power, colours_of, heads, same_partition
from lrga.theory.wl.verdicts import verdict_matrix


def types_of(family):
    matrices = np.stack([g.adjacency() for g in family])
    return np.stack([np.broadcast_to(np.eye(matrices.shape[1], dtype=np.int64), matrices.shape), matrices], axis=-1)


@pytest.mark.parametrize("size", range(1, 8))
def test_power_sums_separate_exactly_what_one_round_separates(size):
    """All pairs of nodes of all connected graphs with up to 7 nodes, and so the graphs themselves."""
    family = connected_graphs(size)
    encoded = colours_of(fwl_update(types_of(family)))
    refined = np.stack([c.colours for c in refine(family, "2-fwl", rounds=1)])
    assert same_partition(encoded, refined)
    by_encoding, by_refining = (np.sort(c.reshape(len(family), -1), axis=1) for c in (encoded, refined))
    assert same_partition(colours_of(by_encoding), colours_of(by_refining))


def test_too_low_a_degree_separates_less():
    family = connected_graphs(6)
    low = colours_of(fwl_update(types_of(family), degree=1))
    refined = np.stack([c.colours for c in refine(family, "2-fwl", rounds=1)])
    assert len(np.unique(low)) < len(np.unique(refined))


def test_iterated_updates_reach_the_stable_colouring():
    family = connected_graphs(4)
    tensor = types_of(family)
    for _ in range(4):
        colours = colours_of(fwl_update(tensor, degree=2))
        tensor = np.stack([colours == c for c in np.unique(colours)], axis=-1).astype(
            np.int64
        )  # one-hot: degree 2 will do
    histograms = colours_of(np.sort(colours.reshape(len(family), -1), axis=1))
    assert np.array_equal(histograms[:, None] != histograms[None, :], verdict_matrix(family, "2-fwl"))


def test_there_are_as_many_heads_as_multi_indices():
    assert len(heads(2, 7)) == math.comb(7 + 4, 4)
    assert fwl_update(types_of(connected_graphs(4))).shape[-1] == 2 + math.comb(4 + 4, 4)


def test_a_head_is_a_product_of_powers():
    tensor = np.random.default_rng(0).integers(-2, 3, (4, 4, 2))
    update = fwl_update(tensor, degree=3)
    for number, (beta, gamma) in enumerate(heads(2, 3)):
        left, right = (tensor[..., 0] ** b[0] * tensor[..., 1] ** b[1] for b in (beta, gamma))
        assert np.array_equal(update[..., 2 + number], left @ right)


def test_numbers_beyond_64_bits_stay_exact():
    tensor = np.full((3, 3, 1), 10**9)
    update = fwl_update(tensor)
    assert update.dtype == object
    assert update.max() == 3 * 10**27
    assert len(np.unique(colours_of(update))) == 1


def test_powers_of_zero():
    tensor = np.array([[[0, 2]]])
    assert channel_power(tensor, (0, 3)).item() == 8
    assert channel_power(tensor, (1, 3)).item() == 0


def test_wrong_tensors_are_refused():
    with pytest.raises(DTypeError, match="integers"):
        fwl_update(np.zeros((2, 2, 1)))
    with pytest.raises(ShapeError, match="n, n, d"):
        fwl_update(np.zeros((2, 3, 1), dtype=int))
