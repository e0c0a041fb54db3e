"""Batch normalisation by Triton's kernels against its definition: in the interpreter here, on a GPU with -m gpu."""

import pytest

pytest.importorskip("triton")

import numpy
import torch
import torch.nn.functional as F
from torch._subclasses import FakeTensor, FakeTensorMode
from torch.fx.experimental.proxy_tensor import make_fx
from torch.testing._internal.two_tensor import TwoTensor

from lrga.errors import UnsupportedError
from lrga.ops.norm import definition as norm_definition
from lrga.ops.norm import gpu as norm_ops
from lrga.ops.norm.definition import BatchNormState, batch_norm_reference, unit_rows
from tests.helpers.kernels import POISONED, same

TOLERANCE = {torch.float32: 3e-5, torch.bfloat16: 4e-2, torch.float16: 6e-3}
NAMES = ("result", "grad of x", "grad of weight", "grad of bias", "grad of residual", "mean", "variance", "batches")

pytestmark = POISONED


def check(
    rows, width, count=None, *, dtype=torch.float32, device="cpu", training=True, before=None, after=None,
    residual=False, momentum=0.1, affine=True,
):  # fmt: skip
    """Result, every gradient and what is remembered equal those of the definition in float64."""
    draw = torch.Generator().manual_seed(1)
    x, extra, upstream = (torch.randn(rows, width, generator=draw).to(device, dtype) for _ in range(3))
    x = x * 2 + 1
    weight, bias, mean = (torch.randn(width, generator=draw).to(device) for _ in range(3))
    var = torch.rand(width, generator=draw).to(device) + 0.5
    real = None if count is None else torch.tensor(count, device=device)
    if after == "relu":  # next to its kink rounding decides which side a value falls on
        wide = BatchNormState(
            weight.double() if affine else None, bias.double() if affine else None, mean.double(), var.double(), None
        )
        normalized = batch_norm_reference(x.double(), wide, training=training, count=real, before=before)
        upstream = upstream.masked_fill(normalized.abs() < 1e-4, 0.0)
    results = []
    for function, precision in ((norm_ops.batch_norm, None), (batch_norm_reference, torch.float64)):
        inputs = [t.to(precision or t.dtype, copy=True).requires_grad_() for t in (x, weight, bias, extra)]
        state = BatchNormState(
            *(inputs[1:3] if affine else (None, None)), *(t.to(precision, copy=True) for t in (mean, var)),
            torch.tensor(3, device=device), momentum,
        )  # fmt: skip
        options = {"training": training, "count": real, "before": before, "after": after}
        out = function(inputs[0], state, residual=inputs[3] if residual else None, **options)
        grads = torch.autograd.grad(out, inputs, upstream.to(out.dtype), allow_unused=True)
        results.append((out, *grads, state.mean, state.var, state.batches))
    tolerance = TOLERANCE[dtype]
    for name, a, b in zip(NAMES, *results, strict=True):
        assert (a is None) == (b is None), name
        if a is not None and a.numel():
            scale = max(1.0, float(b.detach().abs().max()))
            close = torch.allclose(a.double(), b.double(), rtol=tolerance, atol=tolerance * scale)
            assert close, f"{name} is wrong by {float((a.double() - b.double()).detach().abs().max()):.1e}"
    assert results[0][0].dtype == results[0][1].dtype == dtype
    if count is not None:
        assert (results[0][1][count:] == 0).all()


@pytest.mark.parametrize("many", [False, True])
@pytest.mark.parametrize(
    ("rows", "width", "count", "before", "after", "residual"),
    [
        (140, 7, None, None, None, False),
        (70, 33, 40, None, "relu", True),
        (65, 1, 64, "relu", None, True),
        (70, 20, 40, "relu", None, False),
        (70, 20, None, None, "elu", True),
    ],
)
def test_training_equals_the_definition(monkeypatch, rows, width, count, before, after, residual, many):
    monkeypatch.setattr(norm_ops, "MIN_WHOLE", 0 if many else 1 << 40)
    check(rows, width, count, before=before, after=after, residual=residual)


@pytest.mark.parametrize(("before", "after"), [(None, "relu"), ("relu", "elu")])
def test_evaluation_equals_the_definition(before, after):
    check(40, 9, None, training=False, before=before, after=after, residual=True)
    check(40, 9, 30, training=False, before=before, after=after)


@pytest.mark.parametrize(("count", "after"), [(0, "relu"), (1, "elu"), (2, "relu")])
def test_few_real_rows_equal_the_definition(count, after):
    check(40, 5, count, after=after, residual=True)


@pytest.mark.parametrize("many", [False, True])
def test_a_gradient_whose_rows_lie_apart_is_read_where_it_lies(monkeypatch, many):
    monkeypatch.setattr(norm_ops, "MIN_WHOLE", 0 if many else 1 << 40)
    x, between = torch.randn(70, 9), torch.full((70, 24), torch.nan)
    grad = between[:, 4:13].copy_(torch.randn(70, 9))
    kept, count = torch.randn(2, 9).abs(), torch.tensor(60)
    for given in (grad, torch.randn(9).expand(70, 9), torch.randn(70, 1).expand(70, 9)):
        ours = norm_ops.batch_norm_gradient_op(x, given, kept, None, None, count, True, "relu", None)
        dense = given.clone(memory_format=torch.contiguous_format)
        theirs = norm_ops.batch_norm_gradient_op(x, dense, kept, None, None, count, True, "relu", None)
        assert all(torch.equal(a, b) for a, b in zip(ours, theirs, strict=True))


@pytest.mark.parametrize("rows", [0, 1, 2])
def test_few_rows_equal_the_definition(rows):
    check(rows, 5, None, residual=True)


@pytest.mark.parametrize("momentum", [None, 1.0])
def test_running_statistics_follow_with_any_momentum(momentum):
    check(40, 5, None, momentum=momentum)
    check(40, 5, 7, momentum=momentum)


def test_there_need_be_no_weight_and_no_bias():
    check(40, 5, 30, after="relu", affine=False)
    check(40, 5, 30, after="elu", affine=False)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_half_precision_equals_the_definition(dtype):
    check(60, 9, 50, dtype=dtype, residual=True)
    check(60, 9, 50, dtype=dtype, after="elu", residual=True)


@pytest.mark.gpu
@pytest.mark.parametrize("dtype", TOLERANCE)
@pytest.mark.parametrize(
    ("before", "after", "residual"),
    [(None, None, False), (None, "relu", True), ("relu", None, True), (None, "elu", True)],
)
@pytest.mark.parametrize("training", [True, False])
@pytest.mark.parametrize("width", [1, 7, 60, 100, 172, 257])
@pytest.mark.parametrize(
    ("rows", "count"), [(5, None), (7_600, None), (7_700, 7_611), (100_000, None), (60_000, 1), (60_000, 0)]
)
def test_a_gpu_equals_the_definition(rows, count, width, training, before, after, residual, dtype):
    if dtype != torch.float32 and rows * width > 1 << 20:
        pytest.skip("sums of many gradients in half precision cancel: nothing to compare")
    options = {"training": training, "before": before, "after": after, "residual": residual, "dtype": dtype}
    check(rows, width, count, device="cuda", momentum=None if width == 7 else 0.1, **options)


@pytest.mark.gpu
def test_a_gpu_gives_the_same_bits_again():
    x = torch.randn(450_000, 80, device="cuda", requires_grad=True)
    results = []
    for _ in range(2):
        state = BatchNormState(
            torch.ones(80, device="cuda").requires_grad_(), None, *torch.zeros(2, 80, device="cuda"), None
        )
        out = norm_ops.batch_norm(x, state, training=True, after="elu", residual=x)
        results.append((out, *torch.autograd.grad(out.square().sum(), (x, state.weight)), state.mean, state.var))
    assert all(torch.equal(a, b) for a, b in zip(*results, strict=True))


def test_elu_of_numbers_far_from_zero_neither_overflows_nor_hides_what_is_no_number():
    x = torch.tensor([[-300.0, 300.0, -torch.inf, torch.inf, torch.nan]], requires_grad=True)
    state = BatchNormState(None, None, torch.zeros(5), torch.ones(5), None, eps=0.0)
    with numpy.errstate(all="ignore"):  # Triton's interpreter, of products with infinities
        out = norm_ops.batch_norm(x, state, training=False, after="elu")
        (grad,) = torch.autograd.grad(out.sum(), x)
    torch.testing.assert_close(out, torch.nn.functional.elu(x), equal_nan=True)
    torch.testing.assert_close(grad, torch.tensor([[0.0, 1.0, 0.0, 1.0, torch.nan]]), equal_nan=True)


def test_a_second_derivative_is_refused():
    x = torch.randn(8, 2, requires_grad=True)
    state = BatchNormState(None, None, torch.zeros(2), torch.ones(2), None)
    out = norm_ops.batch_norm(x, state, training=True)
    (grad,) = torch.autograd.grad(out.pow(3).sum(), x, create_graph=True)
    with pytest.raises(UnsupportedError, match="batch_norm_gradient"):
        grad.sum().backward()


@pytest.mark.parametrize(("count", "after"), [(None, "relu"), (6, "relu"), (6, "elu")])
def test_a_compiler_is_given_the_definition_and_the_running_statistics_follow(monkeypatch, count, after):
    monkeypatch.setattr(norm_definition, "runs_on_gpu", lambda *tensors: True)
    real = None if count is None else torch.tensor(count)
    x = torch.randn(9, 3, requires_grad=True)

    def run(x, state):
        return norm_definition.batch_norm(x.sin(), state, training=True, count=real, after=after, residual=x).sin()

    results = []
    for function in (run, torch.compile(run, fullgraph=True, backend="aot_eager")):
        state = BatchNormState(torch.rand(3), None, torch.zeros(3), torch.ones(3), torch.tensor(0))
        state.weight.fill_(0.7)
        out = function(x, state)
        results.append((out.detach(), torch.autograd.grad(out.sum(), x)[0], state.mean, state.var, state.batches))
    torch.testing.assert_close(results[0], results[1])


def test_running_statistics_that_are_columns_of_a_tensor_follow():
    kept = torch.rand(3, 4)
    columns = kept.clone().t().contiguous().t()
    x, batches = torch.randn(7, 4), torch.tensor(0)
    results = []
    for weight, mean, var in (kept, columns):
        state = BatchNormState(weight, None, mean, var, batches.clone())
        results.append((norm_ops.batch_norm(x, state, training=True), mean.clone(), var.clone()))
    torch.testing.assert_close(*results)


DEVICES = [pytest.param("cpu"), pytest.param("cuda", marks=pytest.mark.gpu)]


def statistics(x, many, monkeypatch):
    monkeypatch.setattr(norm_ops, "MIN_WHOLE", 0 if many else 1 << 40)
    width = x.size(1)
    state = BatchNormState(
        None, None, torch.zeros(width, device=x.device), torch.ones(width, device=x.device), None, 1.0
    )
    norm_ops.batch_norm(x, state, training=True)
    return state.mean, state.var


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("many", [False, True])
def test_neither_a_large_mean_nor_an_outlier_in_the_first_row_spoils_the_statistics(monkeypatch, many, device):
    x = (torch.randn(700, 3, dtype=torch.float64) + torch.tensor([0.0, 3e3, -2e4])).float().to(device)
    mean, var = statistics(x, many, monkeypatch)
    torch.testing.assert_close(mean.double(), x.double().mean(0), rtol=1e-6, atol=1e-6)
    torch.testing.assert_close(var.double(), x.double().var(0), rtol=1e-4, atol=0)
    x = torch.randn(300, 2, device=device)
    x[0] = 1e6
    mean, var = statistics(x, many, monkeypatch)
    off = (mean.double() - x.double().mean(0)).abs() / x.double().std(0)  # what the normalised values are off by
    assert off.max() < 1e-5
    torch.testing.assert_close(var.double(), x.double().var(0), rtol=1e-5, atol=0)


@pytest.mark.parametrize("device", DEVICES)
def test_a_constant_column_has_no_variance(monkeypatch, device):
    x = torch.full((130, 1), 0.1, device=device)
    mean, var = statistics(x, False, monkeypatch)
    assert var.item() < 1e-14
    torch.testing.assert_close(mean, x[0])


@pytest.mark.parametrize("many", [False, True])
def test_a_number_that_is_none_is_passed_on(monkeypatch, many):
    x = torch.randn(40, 2)
    x[3, 1] = torch.nan
    mean, _ = statistics(x, many, monkeypatch)
    assert mean[0].isfinite()
    assert mean[1].isnan()


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize(("rows", "width"), [(1, 1), (70, 20), (33, 89), (130, 64), (2, 1000), (0, 5), (5, 0)])
def test_rows_of_length_one_are_those_of_torch(rows, width, device):
    x = (torch.randn(rows, width) * 3).to(device)
    x = torch.stack([x, x], 2)[..., 0].requires_grad_()  # between other columns
    same(lambda x: norm_ops.UnitRows.apply(x, 1e-12), F.normalize, [x], 3e-6)


@pytest.mark.filterwarnings("ignore:invalid value encountered:RuntimeWarning")  # in the interpreter
@pytest.mark.parametrize("device", DEVICES)
def test_zero_rows_have_finite_gradients_and_a_number_that_is_none_is_passed_on(device):
    x, upstream = torch.randn(6, 5, device=device), torch.randn(6, 5, device=device)
    x[1], x[2], x[3, 2], x[4, 0] = 0.0, 1e-14, torch.nan, torch.inf
    results = []
    for function in (lambda x: norm_ops.UnitRows.apply(x, 1e-12), F.normalize):
        given = x.clone().requires_grad_()
        out = function(given)
        results.append((out.detach(), torch.autograd.grad(out, given, upstream)[0]))
    assert results[0][1][:3].isfinite().all()
    for ours, theirs in zip(*results, strict=True):
        torch.testing.assert_close(ours[:3], theirs[:3], rtol=1e-5, atol=1e-6)
        torch.testing.assert_close(ours[5], theirs[5], rtol=1e-5, atol=1e-6)
        assert ours[3].isnan().all()
    torch.testing.assert_close(results[0][0][4], results[1][0][4], equal_nan=True)


@pytest.mark.parametrize("device", DEVICES)
def test_rows_of_length_one_have_second_derivatives(device):
    x = torch.randn(4, 3, device=device, requires_grad=True)
    found = []
    for function in (lambda x: norm_ops.UnitRows.apply(x, 1e-12), F.normalize):
        (first,) = torch.autograd.grad(function(x).sin().sum(), x, create_graph=True)
        found.append(torch.autograd.grad(first.square().sum(), x)[0])
    torch.testing.assert_close(*found, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32, torch.float64])
@pytest.mark.parametrize("device", DEVICES)
def test_rows_of_zeros_stay_zero_in_every_dtype(device, dtype):
    x = torch.tensor([[0.0, 0.0], [3.0, 4.0]], dtype=dtype, device=device, requires_grad=True)
    out = unit_rows(x)
    out.sum().backward()
    torch.testing.assert_close(out.float(), torch.tensor([[0.0, 0.0], [0.6, 0.8]], device=device), rtol=1e-2, atol=0)
    assert x.grad.isfinite().all()


def test_fake_tensors_subclasses_and_traces_are_computed_by_torch(monkeypatch):
    """Kernels read memory, which the former do not have, and a tracer does not see kernels."""
    monkeypatch.setattr(norm_definition, "runs_on_gpu", lambda *tensors: True)
    state = BatchNormState(torch.ones(3), torch.zeros(3), torch.zeros(3), torch.ones(3), torch.tensor(0))
    functions = [unit_rows, lambda x: norm_definition.batch_norm(x, state, training=True)]
    for function in functions:
        x = TwoTensor(torch.randn(5, 3), torch.randn(5, 3)).requires_grad_()
        function(x).sum().backward()
        assert type(x.grad) is TwoTensor
    with FakeTensorMode(allow_non_fake_inputs=True):
        x = torch.empty(5, 3, requires_grad=True)
        for function in functions:
            assert type(torch.autograd.grad(function(x).sum(), x)[0]) is FakeTensor
    traced = make_fx(lambda x: unit_rows(x))(torch.randn(5, 3))
    x = torch.randn(5, 3)
    assert torch.equal(traced(x), F.normalize(x))


@pytest.mark.gpu
def test_rows_are_divided_by_one_kernel_and_by_torch_in_other_dtypes():
    x = torch.randn(2000, 89, device="cuda", requires_grad=True)
    assert type(unit_rows(x).grad_fn).__name__ == "UnitRowsBackward"
    for other in (x.double(), x.bfloat16()):
        assert torch.equal(unit_rows(other), F.normalize(other))
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CUDA], acc_events=True) as recorded:
        unit_rows(x).backward(torch.ones_like(x))
        torch.cuda.synchronize()
    assert sum(event.count for event in recorded.key_averages() if "unit_rows" in event.key) == 2
