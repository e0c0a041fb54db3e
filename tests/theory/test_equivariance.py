"""Equivariance in expectation."""

import math

import torch

from lrga.theory import equivariance_gap
from lrga.theory.graphs import random_graph
from lrga.theory.tour import slope

GRAPH = random_graph(12, 0.4, 3)


def gap(samples, *, held=False):
    gaps = [
        equivariance_gap(GRAPH, samples, held=held, generator=torch.Generator().manual_seed(seed)) for seed in range(4)
    ]
    return math.sqrt(sum(g * g for g in gaps) / 4)


def test_the_gap_falls_as_the_root_of_the_number_of_draws():
    samples = (4, 32, 256, 2048)
    gaps = [gap(s) for s in samples]
    assert gaps[-1] < 0.06
    assert -0.6 < slope(samples, gaps) < -0.4


def test_held_features_keep_their_gap():
    assert gap(2048, held=True) == gap(1, held=True) > 0.2
