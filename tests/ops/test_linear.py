"""Linear maps with derivatives of their own against torch's: in Triton's interpreter here, on a GPU with `-m gpu`."""

from itertools import pairwise

import pytest
import torch
import torch.nn.functional as F
from torch._subclasses import FakeTensorMode
from torch.autograd import gradgradcheck
from torch.testing._internal.two_tensor import TwoTensor

from lrga.ops import linear as home
from lrga.ops._triton import why_not_triton
from lrga.ops.linear import Plan, is_supported, launch_column_sum, linear, plan
from lrga.training.capture.engine import no_waiting

TOLERANCE = {torch.float32: 2e-5, torch.bfloat16: 4e-2, torch.float16: 5e-3}
TF32 = 3e-3
RELU = {torch.float32: 0.08, torch.bfloat16: 0.2, torch.float16: 0.08}
COLUMN_TOLERANCE = {torch.float32: 1e-5, torch.bfloat16: 1e-2, torch.float16: 1e-3}
PLANS = [Plan(1, 16, 8, 4), Plan(3, 16, 16, 4), Plan(5, 32, 2, 4)]


@pytest.fixture(autouse=True)
def seeded():
    torch.manual_seed(0)


@pytest.fixture
def as_on_a_gpu(monkeypatch):
    """The GPU's own way, on a CPU: kernels in the interpreter, any number of rows."""
    pytest.importorskip("triton")
    monkeypatch.setattr(home, "runs_on_gpu", lambda *tensors: why_not_triton(*tensors) is None)
    monkeypatch.setattr(home, "MIN_ROWS", 0)


def parameters(widths, *, bias=True, dtype=torch.float32, device="cpu"):
    maps = []
    for a, b in pairwise(widths):
        weight = (torch.randn(b, a) / a**0.5).to(dtype).to(device).requires_grad_()
        maps.append((weight, torch.randn(b).to(dtype).to(device).requires_grad_() if bias else None))
    return maps


def chain(x, maps):
    for i, (weight, bias) in enumerate(maps):
        x = linear(x.relu() if i else x, weight, bias)
    return x


def plain(x, maps):
    for i, (weight, bias) in enumerate(maps):
        x = F.linear(x.relu() if i else x, weight, bias)
    return x


def check(x, maps, tolerance):
    """Values and all gradients equal those of torch's own function in float64."""
    x = x.detach().requires_grad_()
    mine = [x, *(t for pair in maps for t in pair if t is not None)]
    theirs = [t.detach().double().requires_grad_() for t in mine]
    rest = iter(theirs[1:])
    doubles = [(next(rest), None if bias is None else next(rest)) for _, bias in maps]
    out, expected = chain(x, maps), plain(theirs[0], doubles)
    assert out.dtype == x.dtype
    assert out.shape == expected.shape
    upstream = torch.randn(out.shape, device=out.device).to(x.dtype)
    got = torch.autograd.grad(out, mine, upstream)
    wanted = torch.autograd.grad(expected, theirs, upstream.double())
    for a, b, given in zip([out, *got], [expected, *wanted], [out, *mine], strict=True):
        assert a.dtype == given.dtype
        assert a.shape == given.shape
        if len(maps) > 1:  # rounding decides on which side of its kink a ReLU falls: now and then a whole term differs
            assert float((a.double() - b).norm().detach()) <= RELU[a.dtype] * float(b.norm().detach())
            continue
        size = max(1.0, float(b.detach().abs().max())) if b.numel() else 1.0
        torch.testing.assert_close(a.double(), b, rtol=tolerance, atol=tolerance * size)


@pytest.mark.usefixtures("as_on_a_gpu", "poisoned")
@pytest.mark.parametrize("dtype", TOLERANCE)
@pytest.mark.parametrize(("widths", "bias"), [((7, 5), True), ((8, 4), False), ((1, 1), True), ((12, 9, 5, 2), True)])
def test_values_and_gradients_are_those_of_torch(widths, bias, dtype):
    maps = parameters(widths, bias=bias, dtype=dtype)
    assert is_supported(torch.randn(9, widths[0], dtype=dtype), *maps[0])
    check(torch.randn(9, widths[0]).to(dtype), maps, TOLERANCE[dtype])


@pytest.mark.usefixtures("as_on_a_gpu", "poisoned")
@pytest.mark.parametrize("dtype", TOLERANCE)
@pytest.mark.parametrize(("out", "bias"), [(1, True), (33, False)])
def test_a_single_column_is_multiplied_as_torch_does(out, bias, dtype):
    maps, x = parameters((1, out), bias=bias, dtype=dtype), torch.randn(9, 4).to(dtype)[:, 1:2]  # rows far apart
    check(x, maps, TOLERANCE[dtype])
    found = linear(x, *maps[0])
    assert found.is_contiguous()
    torch.testing.assert_close(found, F.linear(x, *maps[0]))
    weight = torch.randn(out, 3).to(dtype)[:, 2:]
    torch.testing.assert_close(linear(x, weight, maps[0][1]), F.linear(x, weight, maps[0][1]))


@pytest.mark.usefixtures("as_on_a_gpu")
@pytest.mark.parametrize("out", [1, 4])
def test_features_of_a_wrong_width_are_an_error_as_in_torch(out):
    for given, width in ((4, 1), (1, 4), (4, 5)):
        with pytest.raises(RuntimeError, match="cannot be multiplied"):
            linear(torch.randn(6, given), torch.randn(out, width))


@pytest.mark.usefixtures("as_on_a_gpu")
def test_bias_gradients_of_fake_tensors_and_subclasses_are_computed_by_torch():
    maps = parameters((5, 3))
    x = TwoTensor(torch.randn(6, 5), torch.randn(6, 5))
    linear(x, *maps[0]).sum().backward()
    assert type(maps[0][1].grad) is TwoTensor
    with FakeTensorMode():
        weight, bias = torch.empty(3, 5, requires_grad=True), torch.empty(3, requires_grad=True)
        linear(torch.empty(6, 5), weight, bias).sum().backward()
        assert bias.grad.shape == (3,)


@pytest.mark.usefixtures("as_on_a_gpu", "poisoned")
@pytest.mark.parametrize("width", [7, 1])
def test_zero_rows(width):
    maps = parameters((width, 5, 2))
    out = chain(torch.empty(0, width), maps)
    assert out.shape == (0, 2)
    out.sum().backward()
    for pair in maps:
        for parameter in pair:
            assert torch.equal(parameter.grad, torch.zeros_like(parameter))


@pytest.mark.usefixtures("as_on_a_gpu")
def test_gradients_that_are_not_asked_for_are_not_computed():
    x, ((weight, bias),) = torch.randn(6, 5), parameters((5, 3))
    linear(x, weight, bias.detach()).sum().backward()
    assert weight.grad is not None
    x.requires_grad_()
    linear(x, weight.detach(), bias).sum().backward()
    assert x.grad is not None
    assert bias.grad is not None


@pytest.mark.usefixtures("as_on_a_gpu")
@pytest.mark.parametrize("widths", [(3, 5), (1, 5), (6, 5, 3)])
def test_it_can_be_differentiated_twice(widths):
    torch.manual_seed(0)
    maps = parameters(widths)
    x = torch.randn(6, widths[0], requires_grad=True)

    def second(function):
        out = function(x, maps)
        (first,) = torch.autograd.grad(out.pow(3).sum(), x, create_graph=True)
        return torch.autograd.grad(first.square().sum(), [x, *(t for pair in maps for t in pair)])

    for a, b in zip(second(chain), second(plain), strict=True):
        torch.testing.assert_close(a, b, rtol=1e-4, atol=1e-4 * float(b.detach().abs().max()))


@pytest.mark.usefixtures("as_on_a_gpu")
def test_all_of_its_second_derivatives_are_right(monkeypatch):
    monkeypatch.setattr(home, "runs_on_gpu", lambda *tensors: True)  # also for float64, which PyTorch takes elsewhere
    inputs = [torch.randn(shape, dtype=torch.float64, requires_grad=True) for shape in ((4, 3), (5, 3), (5,))]
    assert gradgradcheck(linear, inputs, eps=1e-1, atol=1e-4)  # linear in each; the sum itself is float32


@pytest.mark.usefixtures("as_on_a_gpu")
@pytest.mark.parametrize("given", [torch.float32, torch.bfloat16])
def test_autocast_computes_as_it_does_with_torchs_own(given):
    torch.manual_seed(0)
    maps = parameters((7, 5, 2))
    x = torch.randn(9, 7).to(given).requires_grad_()
    with torch.autocast("cpu", torch.bfloat16):
        out, expected = chain(x, maps), plain(x, maps)
    assert out.dtype == expected.dtype == torch.bfloat16
    inputs = [x, *(t for pair in maps for t in pair)]
    upstream = torch.randn(9, 2).bfloat16()
    torch.testing.assert_close(out, expected, rtol=2e-2, atol=2e-2)
    for a, b in zip(*(torch.autograd.grad(y, inputs, upstream) for y in (out, expected)), strict=True):
        assert a.dtype == b.dtype
        torch.testing.assert_close(a, b, rtol=4e-2, atol=4e-2 * float(b.detach().abs().max()))


@pytest.mark.usefixtures("as_on_a_gpu")
def test_other_ways_to_differentiate_find_torchs_own_rules():
    x, ((weight, bias),) = torch.randn(6, 5), parameters((5, 3))
    weight, bias = weight.detach(), bias.detach()
    tangent = torch.randn(6, 5)
    _, moved = torch.func.jvp(lambda x: linear(x, weight, bias), (x,), (tangent,))
    torch.testing.assert_close(moved, tangent @ weight.t())
    each = torch.func.vmap(torch.func.grad(lambda x: linear(x.unsqueeze(0), weight, bias).sum()))(x)
    torch.testing.assert_close(each, weight.sum(0).expand(6, -1))
    with torch.autograd.forward_ad.dual_level():
        out = linear(torch.autograd.forward_ad.make_dual(x, tangent), weight, bias)
        torch.testing.assert_close(torch.autograd.forward_ad.unpack_dual(out).tangent, tangent @ weight.t())


@pytest.mark.usefixtures("as_on_a_gpu")
def test_a_compiler_sees_torchs_own():
    ((weight, bias),) = parameters((5, 3))
    x = torch.randn(6, 5)
    out = torch.compile(linear, fullgraph=True, backend="aot_eager")(x, weight, bias)
    torch.testing.assert_close(out, F.linear(x, weight, bias))
    exported = torch.export.export(Map(weight, bias), (x,), strict=False)
    torch.testing.assert_close(exported.module()(x), out)


class Map(torch.nn.Module):
    def __init__(self, weight, bias):
        super().__init__()
        self.weight, self.bias = torch.nn.Parameter(weight.detach()), torch.nn.Parameter(bias.detach())

    def forward(self, x):
        return linear(x, self.weight, self.bias)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16])
def test_on_a_cpu_it_is_torchs_own_bit_for_bit(dtype):
    x = torch.randn(home.MIN_ROWS, 7).to(dtype).requires_grad_()
    maps = parameters((7, 5, 3), dtype=dtype)
    inputs = [x, *(t for pair in maps for t in pair)]
    out, expected = chain(x, maps), plain(x, maps)
    assert torch.equal(out, expected)
    got, wanted = (torch.autograd.grad(y, inputs, torch.ones_like(y)) for y in (out, expected))
    assert all(torch.equal(a, b) for a, b in zip(got, wanted, strict=True))
    assert out.grad_fn.name() == expected.grad_fn.name()


def test_errors_of_shape_and_dtype_are_torchs_own():
    with pytest.raises(RuntimeError, match="shapes cannot be multiplied"):
        linear(torch.randn(3, 4), torch.randn(2, 5))
    with pytest.raises(RuntimeError, match="dtype"):
        linear(torch.randn(3, 4).double(), torch.randn(2, 4))


@pytest.mark.usefixtures("as_on_a_gpu")
def test_errors_of_shape_are_torchs_own_also_with_derivatives_of_its_own():
    with pytest.raises(RuntimeError, match="shapes cannot be multiplied"):
        linear(torch.randn(3, 7), torch.randn(2, 8))
    with pytest.raises(RuntimeError, match="shapes cannot be multiplied"):
        linear(torch.randn(3, 1), torch.randn(2, 8))
    for width in (8, 1):
        with pytest.raises(RuntimeError, match="size"):
            linear(torch.randn(3, width), torch.randn(5, width), torch.randn(6))


@pytest.mark.gpu
@pytest.mark.parametrize(("dtype", "tf32"), [(dtype, False) for dtype in TOLERANCE] + [(torch.float32, True)])
@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize(
    "widths", [(100, 100), (300, 100), (100, 300), (80, 320), (3, 100), (100, 1), (25, 7), (100, 50, 25, 2), (1, 80)]
)
@pytest.mark.parametrize("rows", [1_024, 50_003])
def test_values_and_gradients_on_a_gpu(rows, widths, bias, dtype, tf32):
    maps = parameters(widths, bias=bias, dtype=dtype, device="cuda")
    x = torch.randn(rows, widths[0]).to(dtype).cuda()
    assert is_supported(x, *maps[0])
    before = torch.backends.cuda.matmul.allow_tf32
    torch.backends.cuda.matmul.allow_tf32 = tf32
    try:
        check(x, maps, TF32 if tf32 and dtype == torch.float32 else TOLERANCE[dtype])
    finally:
        torch.backends.cuda.matmul.allow_tf32 = before


@pytest.mark.gpu
def test_nothing_waits_and_a_second_run_is_bit_equal_on_a_gpu():
    maps = parameters((100, 50, 25, 2), device="cuda")
    x = torch.randn(7_731, 100, device="cuda", requires_grad=True)
    inputs = [x, *(t for pair in maps for t in pair)]
    chain(x, maps).sum().backward()  # kernels are compiled
    runs = []
    with no_waiting():
        for _ in range(2):
            out = chain(x, maps)
            runs.append([out, *torch.autograd.grad(out.square().sum(), inputs)])
    assert all(torch.equal(a, b) for a, b in zip(*runs, strict=True))


@pytest.mark.gpu
def test_compiled_on_a_gpu():
    ((weight, bias),) = parameters((100, 50), device="cuda")
    x = torch.randn(2_000, 100, device="cuda", requires_grad=True)
    out = torch.compile(linear, fullgraph=True)(x, weight, bias)
    torch.testing.assert_close(out, linear(x, weight, bias), rtol=TF32, atol=TF32)
    out.sum().backward()
    torch.testing.assert_close(x.grad, weight.sum(0).expand(2_000, -1), rtol=TF32, atol=TF32)


def check_columns(x, how=None):
    out = launch_column_sum(x, how)
    assert out.dtype == x.dtype
    expected = x.double().sum(1)
    scale = float(x.double().abs().sum(1).max()) if out.numel() and x.size(1) else 1.0
    tolerance = COLUMN_TOLERANCE[x.dtype]
    torch.testing.assert_close(out.double(), expected, rtol=tolerance, atol=1e-6 * scale)
    return out


@pytest.mark.usefixtures("as_on_a_gpu", "poisoned")
@pytest.mark.parametrize(
    ("rows", "width", "how"),
    [(1, 1, None), (5, 7, None), (40, 33, None), (5, 20, PLANS[0]), (40, 33, PLANS[1]), (40, 7, PLANS[2])],
)
def test_columns_are_summed(rows, width, how):
    check_columns(torch.randn(1, rows, width), how)


@pytest.mark.usefixtures("as_on_a_gpu", "poisoned")
@pytest.mark.parametrize("how", [None, PLANS[1]])
def test_no_rows_sum_to_zero_and_no_columns_to_nothing(how):
    assert torch.equal(check_columns(torch.randn(2, 0, 5), how), torch.zeros(2, 5))
    assert check_columns(torch.randn(1, 4, 0), how).shape == (1, 0)
    assert check_columns(torch.randn(0, 4, 3), how).shape == (0, 3)


@pytest.mark.usefixtures("as_on_a_gpu", "poisoned")
@pytest.mark.parametrize("how", [None, PLANS[1]])
def test_several_matrices_and_rows_with_gaps_between_them(how):
    wide = torch.randn(3, 21, 24)
    check_columns(wide, how)
    check_columns(wide[:, :, 4:15], how)
    check_columns(wide[:, 1::2, 3:], how)
    check_columns(wide.transpose(1, 2), how)
    check_columns(torch.randn(1, 1, 9).expand(2, 13, 9), how)
    check_columns(torch.randn(2, 13, 1).expand(2, 13, 9), how)


@pytest.mark.usefixtures("as_on_a_gpu", "poisoned")
@pytest.mark.parametrize(("dtype", "how"), [(torch.bfloat16, None), (torch.float16, PLANS[1])])
def test_narrow_numbers_are_added_in_float32(dtype, how):
    check_columns(torch.randn(2, 37, 19).to(dtype), how)
    many = torch.full((1, 700, 3), 1.0, dtype=dtype)  # added one by one in bfloat16 this stops at 256
    assert torch.equal(launch_column_sum(many, how), torch.full((1, 3), 700.0, dtype=dtype))


def test_many_rows_are_summed_in_parts():
    assert plan(100, 30).parts == 1
    assert plan(10_000_000, 30).parts > 1


@pytest.mark.gpu
@pytest.mark.parametrize("dtype", TOLERANCE)
@pytest.mark.parametrize("width", [1, 25, 100, 320, 1001])
@pytest.mark.parametrize("rows", [0, 1, 7_731, 390_001])
def test_columns_are_summed_on_a_gpu(rows, width, dtype):
    x = torch.randn(1, rows, width, device="cuda").to(dtype)
    first = check_columns(x)
    assert torch.equal(first, launch_column_sum(x))
    check_columns(torch.randn(3, min(rows, 500), 2 * width, device="cuda").to(dtype)[:, :, :width])
