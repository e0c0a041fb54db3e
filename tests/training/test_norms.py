"""Averages of the statistics of batches are those that torch takes with a momentum of none."""

import torch
from torch import nn

from lrga.training.norms import Averages, tracking_norms


def test_averages_are_torch_s_own():
    batches = [torch.randn(n, 3) for n in (4, 9, 2, 30)]
    ours, theirs = nn.BatchNorm1d(3), nn.BatchNorm1d(3, momentum=None)
    ours.running_mean.fill_(7.0)
    averages = Averages(nn.Sequential(ours))
    ours.eval()
    with averages.taking():
        assert ours.training
        for batch in batches:
            ours(batch)
            averages.add()
    for batch in batches:
        theirs(batch)
    torch.testing.assert_close(ours.running_mean, theirs.running_mean)
    torch.testing.assert_close(ours.running_var, theirs.running_var)
    assert int(ours.num_batches_tracked) == 4
    assert (ours.momentum, ours.training) == (0.1, False)


def test_a_batch_of_which_a_layer_took_no_statistics_does_not_count():
    norm = nn.BatchNorm1d(1)
    averages = Averages(norm)
    with averages.taking():
        norm(torch.tensor([[1.0], [3.0]]))
        averages.add()
        averages.add()  # nothing was run
        norm(torch.tensor([[4.0], [8.0]]))
        averages.add()
    assert norm.running_mean.tolist() == [4.0]
    assert int(norm.num_batches_tracked) == 2


def test_momentum_and_mode_come_back_after_an_error():
    norm = nn.BatchNorm1d(1)
    norm.eval()
    try:
        with Averages(norm).taking():
            raise KeyError
    except KeyError:
        assert (norm.momentum, norm.training) == (0.1, False)


def test_layers_without_running_statistics_are_none_of_ours():
    model = nn.Sequential(nn.BatchNorm1d(2), nn.BatchNorm1d(2, track_running_stats=False), nn.LayerNorm(2))
    assert tracking_norms(model) == [model[0]]
