"""The definition of batch normalisation over the real rows, against torch's own."""

import pytest
import torch
import torch.nn.functional as F
from torch.autograd import gradcheck

from lrga.errors import OptionError, ShapeError
from lrga.ops.norm.definition import BatchNormState, batch_norm, batch_norm_reference

D = 4


def state(momentum=0.1, dtype=torch.float64, affine=True):
    weight, bias = (torch.randn(D, dtype=dtype).requires_grad_() for _ in range(2)) if affine else (None, None)
    mean, var = torch.randn(D, dtype=dtype), torch.rand(D, dtype=dtype) + 0.5
    return BatchNormState(weight, bias, mean, var, torch.tensor(2), momentum)


def torchs(state):
    """A module of torch in the same state."""
    norm = torch.nn.BatchNorm1d(D, momentum=state.momentum, eps=state.eps, affine=state.weight is not None)
    norm = norm.to(state.mean.dtype)
    with torch.no_grad():
        norm.running_mean.copy_(state.mean)
        norm.running_var.copy_(state.var)
        norm.num_batches_tracked.copy_(state.batches)
        if state.weight is not None:
            norm.weight.copy_(state.weight)
            norm.bias.copy_(state.bias)
    return norm


@pytest.mark.parametrize("count", [None, 7, 2])
@pytest.mark.parametrize(("momentum", "affine"), [(0.1, True), (None, False), (1.0, True)])
@pytest.mark.parametrize("training", [True, False])
def test_real_rows_are_normalised_as_torch_normalises_them_alone(count, momentum, affine, training):
    ours = state(momentum, affine=affine)
    module = torchs(ours).train(training)
    x = torch.randn(9, D, dtype=torch.float64) * 3 + 5
    out = batch_norm(x, ours, training=training, count=None if count is None else torch.tensor(count))
    expected = module(x[:count])
    torch.testing.assert_close(out[:count], expected, rtol=1e-13, atol=1e-13)
    if count is not None:
        assert torch.equal(out[count:], torch.zeros(9 - count, D, dtype=torch.float64))
    torch.testing.assert_close(ours.mean, module.running_mean, rtol=1e-13, atol=1e-13)
    torch.testing.assert_close(ours.var, module.running_var, rtol=1e-13, atol=1e-13)
    assert ours.batches == module.num_batches_tracked


@pytest.mark.parametrize("count", [0, 1])
def test_fewer_than_two_real_rows_are_normalised_by_the_running_statistics_which_stay(count):
    ours = state()
    before = (ours.mean.clone(), ours.var.clone())
    x = torch.randn(5, D, dtype=torch.float64, requires_grad=True)
    out = batch_norm(x, ours, training=True, count=torch.tensor(count))
    expected = F.batch_norm(x[:count], ours.mean, ours.var, ours.weight, ours.bias, False)
    torch.testing.assert_close(out[:count], expected)
    assert torch.equal(ours.mean, before[0])
    assert torch.equal(ours.var, before[1])
    assert ours.batches == 2
    (grad,) = torch.autograd.grad(out.square().sum(), x)
    assert grad.isfinite().all()
    assert (grad[count:] == 0).all()


def test_what_stands_in_padding_is_never_seen():
    x = torch.randn(6, D, dtype=torch.float64)
    filled = torch.cat([x, torch.full((3, D), torch.inf, dtype=torch.float64)])
    torch.manual_seed(1)
    alone = batch_norm(x, state(), training=True)
    torch.manual_seed(1)
    out = batch_norm(filled, state(), training=True, count=torch.tensor(6))
    torch.testing.assert_close(out[:6], alone)
    assert torch.equal(out[6:], torch.zeros(3, D, dtype=torch.float64))


@pytest.mark.parametrize(
    ("before", "after"), [(None, None), ("relu", None), (None, "relu"), (None, "elu"), ("relu", "elu")]
)
@pytest.mark.parametrize("count", [None, 5])
@pytest.mark.parametrize("training", [True, False])
def test_activations_and_residual_stand_where_they_are_said_to(before, after, count, training):
    known = {None: lambda x: x, "relu": F.relu, "elu": F.elu}
    x, residual = (torch.randn(8, D, dtype=torch.float64, requires_grad=True) for _ in range(2))
    ours = state()
    rows = None if count is None else torch.tensor(count)
    plain = known[after](batch_norm(known[before](x), ours, training=False, count=rows))
    out = batch_norm(x, ours, training=False, count=rows, before=before, after=after, residual=residual)
    torch.testing.assert_close(out, residual + plain)

    def function(x, residual, weight, bias):
        fresh = BatchNormState(weight, bias, ours.mean.clone(), ours.var.clone(), torch.tensor(0))
        return batch_norm(x, fresh, training=training, count=rows, before=before, after=after, residual=residual)

    assert gradcheck(function, (x, residual, ours.weight, ours.bias))


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_half_precision_takes_its_statistics_in_single_precision(dtype):
    ours = state(dtype=torch.float32)
    x = (torch.randn(3000, D) + 20).to(dtype)
    out = batch_norm(x, ours, training=True, count=torch.tensor(2900))
    assert out.dtype == dtype
    expected = F.batch_norm(x[:2900].double(), None, None, ours.weight.double(), ours.bias.double(), True)
    torch.testing.assert_close(out[:2900].double(), expected, rtol=2e-2, atol=2e-2)


def test_without_running_statistics_every_batch_is_normalised_by_its_own():
    nothing = BatchNormState(None, None, None, None, None)
    x = torch.randn(7, D, dtype=torch.float64)
    for training in (True, False):
        torch.testing.assert_close(
            batch_norm(x, nothing, training=training), F.batch_norm(x, None, None, training=True)
        )
        out = batch_norm_reference(x, nothing, training=training, count=torch.tensor(4))
        torch.testing.assert_close(out[:4], F.batch_norm(x[:4], None, None, training=True))


def test_wrong_options_and_shapes_are_refused():
    with pytest.raises(OptionError, match="after to be one of None, 'relu', 'elu'"):
        batch_norm(torch.randn(3, D), state(), training=True, after="tanh")
    with pytest.raises(OptionError, match="before to be one of None, 'relu',"):
        batch_norm(torch.randn(3, D), state(), training=True, before="elu")
    with pytest.raises(ShapeError, match=r"residual of shape \[3, 4\]"):
        batch_norm(torch.randn(3, D), state(), training=True, residual=torch.randn(3, 1))
    with pytest.raises(ShapeError, match=r"\[R, 4\]"):
        batch_norm(torch.randn(3, D + 1), state(), training=True)
