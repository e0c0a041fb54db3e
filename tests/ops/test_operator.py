"""Operators called eagerly skip PyTorch's dispatcher and mean the same."""

import pytest
import torch
from torch import Tensor
from torch._subclasses import FakeTensorMode
from torch.utils._python_dispatch import TorchDispatchMode

from lrga.errors import UnsupportedError
from lrga.ops._operator import operator


@operator("lrga_test::scaled")
def scaled(x: Tensor, factor: float) -> Tensor:
    return torch.mm(x, x.new_full((x.size(1), x.size(1)), factor))


@scaled.custom_op.register_fake
def _(x: Tensor, factor: float) -> Tensor:
    return torch.empty_like(x)


@operator("lrga_test::scaled_backward")
def scaled_backward(grad: Tensor, factor: float) -> Tensor:
    return torch.mm(grad, grad.new_full((grad.size(1), grad.size(1)), factor))


scaled_backward.refuse_derivative()


def _remember(ctx, inputs, output):
    ctx.factor = inputs[1]


scaled.register_autograd(lambda ctx, grad: (scaled_backward(grad, ctx.factor), None), setup_context=_remember)


class Seen(TorchDispatchMode):
    def __init__(self):
        super().__init__()
        self.names = []

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        self.names.append(str(function))
        return function(*args, **(kwargs or {}))


def test_values_and_gradients_are_those_of_the_dispatched_operator():
    x = torch.randn(3, 2, requires_grad=True)
    seed = torch.randn(3, 2)
    results = []
    for call in (scaled, scaled.custom_op):
        out = call(x, 2.0)
        results.append((out, *torch.autograd.grad(out, x, seed)))
    for eager, dispatched in zip(*results, strict=True):
        assert torch.equal(eager, dispatched)


@pytest.mark.filterwarnings("ignore:.*Profiler clears events:UserWarning")  # of torch 2.11
def test_the_dispatcher_is_called_only_with_an_active_mode_or_compiler():
    x = torch.randn(3, 2)
    with torch.profiler.profile() as recorded:
        scaled(x, 2.0)
    assert "lrga_test::scaled" not in {event.name for event in recorded.events()}
    with Seen() as seen:
        scaled(x, 2.0)
    assert "lrga_test.scaled.default" in seen.names
    with FakeTensorMode() as mode:
        assert scaled(mode.from_tensor(x), 2.0).shape == (3, 2)
    compiled = torch.compile(lambda x: scaled(x, 2.0) + 1, backend="eager", fullgraph=True)
    torch.testing.assert_close(compiled(x), scaled(x, 2.0) + 1)


def test_a_second_derivative_is_refused_by_name_and_only_where_it_is_recorded():
    x = torch.randn(3, 2, requires_grad=True)
    (grad,) = torch.autograd.grad(scaled(x, 2.0).pow(2).sum(), x, create_graph=True)
    with pytest.raises(UnsupportedError, match="first derivatives only"):
        grad.sum().backward()
    x = torch.ones(2, 2, requires_grad=True)
    out = scaled_backward(x, 3.0)
    assert out.tolist() == [[6, 6], [6, 6]]
    with pytest.raises(UnsupportedError, match="kernel scaled_backward.*float64"):
        out.sum().backward()
    with torch.no_grad():
        assert scaled_backward(x, 3.0)[0, 0].item() == 6


class Untouched(torch.autograd.Function):
    """A function whose argument has no gradient."""

    @staticmethod
    def forward(ctx, x):  # noqa: ARG004
        return x.clone()

    @staticmethod
    def backward(ctx, grad):  # noqa: ARG004
        return None


def missing_gradients(ctx, *_):
    ctx.set_materialize_grads(False)


@operator("lrga_test::second_column")
def second_column(x: Tensor, others: list[Tensor]) -> Tensor:
    return x[:, 1].clone()


second_column.register_autograd(lambda _, grad: (grad[:, None].expand(-1, 2),), setup_context=missing_gradients)


@pytest.mark.parametrize("call", [second_column, second_column.custom_op])
def test_a_result_without_a_gradient_gives_its_arguments_none(call):
    x, other = torch.randn(3, 2, requires_grad=True), torch.ones(1, requires_grad=True)
    (Untouched.apply(call(x, [torch.ones(1)])).sum() + other).backward()
    assert x.grad is None
    assert other.grad.item() == 1


def test_autocast_does_not_change_the_types_inside():
    x = torch.randn(3, 2, requires_grad=True)
    with torch.autocast("cpu", torch.float16):
        assert scaled(x, 2.0).dtype == torch.float32


def test_nothing_is_tracked_without_gradients():
    x = torch.randn(3, 2, requires_grad=True)
    with torch.no_grad():
        assert not scaled(x, 2.0).requires_grad
    assert not scaled(x.detach(), 2.0).requires_grad
