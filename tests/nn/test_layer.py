import pytest
import torch

from lrga.errors import OptionError
from lrga.nn.layers.base import BenchmarkLayer
from lrga.nn.layers.gcn import GCNLayer


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"preset": "2021"}, "'2022', '2020'"),
        ({"dropout": 1.5}, "between 0 and 1"),
        ({"in_channels": 0}, "in_channels"),
        ({"out_channels": -3}, "out_channels"),
    ],
)
def test_options_outside_their_range_are_refused(options, says):
    given = {"in_channels": 4, "out_channels": 4, "preset": "2022", "dropout": 0.0, "residual": True} | options
    with pytest.raises(OptionError, match=says):
        BenchmarkLayer(**given, batch_norm=True)


def test_residual_is_left_out_where_the_widths_differ():
    assert GCNLayer(4, 4).residual
    assert not GCNLayer(4, 5).residual
    assert GCNLayer(4, 5)(torch.randn(3, 4), torch.tensor([[0, 1], [1, 2]])).shape == (3, 5)


def test_reset_draws_other_weights_and_forgets_the_statistics():
    layer = GCNLayer(4, 4)
    layer(torch.randn(6, 4), torch.randint(0, 6, (2, 9)))
    before = layer.lin.weight.clone()
    layer.reset_parameters()
    assert not torch.equal(layer.lin.weight, before)
    assert torch.equal(layer.norm.running_mean, torch.zeros(4))


def test_dropout_zeroes_in_training_only():
    layer = GCNLayer(8, 8, dropout=0.5, residual=False)
    layer.norm.momentum = 1.0  # evaluation normalises as the training step before it
    x, edge_index = torch.rand(50, 8), torch.randint(0, 50, (2, 400))
    zeros = [(layer.train(mode)(x, edge_index) == 0).float().mean() for mode in (True, False)]
    assert zeros[0] > 0.7  # half of what the ReLU let through
    assert zeros[1] < 0.6
