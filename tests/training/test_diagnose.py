"""The first non-finite number is found where it arises."""

import torch
from torch import nn

import lrga
from lrga.training.callbacks.diagnose import first_non_finite
from lrga.training.evaluate import run_model


def culprit(model, batch):
    inputs = {"x of the batch": batch.x, "edge_attr of the batch": batch.edge_attr}
    return first_non_finite(model, lambda: run_model(model, batch), inputs)


def model_and_batch(make_splits):
    return lrga.GNN(3, 8, 2, 3, conv="gatedgcn", rank=3, edge_channels=2), make_splits()["train"].batch([0, 1])


def test_a_healthy_model_has_no_culprit(make_splits):
    assert culprit(*model_and_batch(make_splits)) is None


def test_the_layer_whose_weight_is_not_finite_is_named_with_the_weight(make_splits):
    model, batch = model_and_batch(make_splits)
    with torch.no_grad():
        model.layers[1].mix.weight[0, 0] = float("nan")
    found = culprit(model, batch)
    assert "'layers.1.mix' (Linear)" in found
    assert "weight" in found


def test_a_layer_that_overflows_is_named_before_those_after_it(make_splits):
    model, batch = model_and_batch(make_splits)
    model.layers[1].mix = nn.Sequential(model.layers[1].mix, Explode())
    assert "'layers.1.mix.1' (Explode)" in culprit(model, batch)


class Explode(nn.Module):
    def forward(self, x):
        return torch.exp(1e4 * x.abs() + 1e4)


def test_bad_data_are_blamed_before_any_layer(make_splits):
    for name in ("x", "edge_attr"):
        model, batch = model_and_batch(make_splits)
        getattr(batch, name)[1] = float("inf")
        assert f"in {name} of the batch" in culprit(model, batch)


def test_no_hook_stays_behind(make_splits):
    model, batch = model_and_batch(make_splits)
    culprit(model, batch)
    assert not any(module._forward_hooks for module in model.modules())
