"""Work of a captured step on two streams."""

import ctypes

import pytest
import torch
from torch.autograd import gradgradcheck
from torch.autograd.graph import saved_tensors_hooks
from torch.utils.checkpoint import checkpoint

import lrga
from lrga.nn.recompute import recompute_layers
from lrga.ops import linear as home
from lrga.ops.linear import linear, mixed_linear
from lrga.ops.streams import GRADIENTS, Streams, current_streams, in_parallel, of_parameters, parallel_streams
from lrga.training.determinism import deterministic


class OneStream(Streams):
    """Streams for a CPU: the same autograd nodes, in sequence."""

    def named(self, name):
        return None

    def in_parallel(self, name, first, second, *shared):
        return first(), second()


@pytest.fixture
def one_stream(monkeypatch):
    """On a CPU, the linear maps that a GPU would use."""
    monkeypatch.setattr(home, "MIN_MIXED_NUMBERS", 0)
    return OneStream(torch.device("cpu"))


def test_outside_of_captures_the_work_is_in_sequence():
    order = []
    assert in_parallel("sums", lambda: order.append(1), lambda: order.append(2)) == (None, None)
    assert order == [1, 2]
    assert current_streams() is None


def test_the_streams_end_with_the_block():
    streams = Streams(torch.device("cpu"))

    def leave_with_an_error():
        with parallel_streams(streams):
            with parallel_streams(None):
                assert current_streams() is None
            assert current_streams() is streams
            raise ValueError

    with pytest.raises(ValueError):
        leave_with_an_error()
    assert current_streams() is None


def test_an_error_of_either_function_is_raised():
    for functions in ((lambda: 1 / 0, int), (int, lambda: 1 / 0)):
        with pytest.raises(ZeroDivisionError):
            in_parallel("sums", *functions)


def test_nothing_runs_in_parallel_where_hooks_save_tensors():
    """Activation checkpointing is such a hook, forward and in the backward pass."""
    streams, seen = Streams(torch.device("cpu")), []

    def layer(x):
        seen.append(current_streams())
        return x.exp()

    with parallel_streams(streams):
        for reentrant in (False, True):
            x = torch.ones(2, requires_grad=True)
            checkpoint(layer, x, use_reentrant=reentrant).sum().backward()
            assert len(seen) == 2
            assert seen[: 1 + (not reentrant)] == [streams if reentrant else None] * (1 + (not reentrant))
            seen.clear()
        with saved_tensors_hooks(lambda x: x, lambda x: x):
            assert current_streams() is None
        assert current_streams() is streams


def random_parts(*, requires_grad=True):
    torch.manual_seed(0)
    sizes = (7, 3), (7, 2), (4, 5), (4,)
    return [torch.randn(*size, dtype=torch.float64, requires_grad=requires_grad) for size in sizes]


@pytest.mark.parametrize("learned", ["weight", "bias", "x", "x weight", "weight bias", "x weight bias"])
def test_gradients_aside_are_those_of_the_linear_map(one_stream, learned):
    found = []
    for streams in (None, one_stream):
        a, b, weight, bias = random_parts(requires_grad=False)
        inputs = [t.requires_grad_() for name, t in (("x", a), ("weight", weight), ("bias", bias)) if name in learned]
        with parallel_streams(streams):
            y = mixed_linear([a, b], weight, bias)
        names = {type(node[0]).__name__ for node in y.grad_fn.next_functions}
        assert ("GradientsAsideBackward" in names) == (streams is not None and learned != "x")
        found.append([y, *torch.autograd.grad(y.sin().sum(), inputs)])
    assert all(map(torch.equal, *found))


def test_gradients_aside_have_derivatives(one_stream):
    with parallel_streams(one_stream):
        assert gradgradcheck(lambda a, b, *pair: mixed_linear([a, b], *pair).sin(), random_parts())


def test_a_shared_parameter_with_hooks_clipping_and_accumulation(one_stream):
    found = []
    for streams in (None, one_stream):
        a, b, weight, bias = random_parts()
        seen = []
        weight.register_hook(lambda grad: seen.append(grad.clone()) or grad * 2)  # noqa: B023
        bias.register_post_accumulate_grad_hook(lambda p: seen.append(p.grad.clone()))  # noqa: B023
        for _ in range(3):
            with parallel_streams(streams):
                y = mixed_linear([a, b], weight, bias).tanh()
                y = mixed_linear([y, y[:, :1]], weight, bias)
                (y.square().mean() + weight.square().sum()).backward()
        norm = torch.nn.utils.clip_grad_norm_([weight, bias], 0.1)
        found.append([norm, a.grad, b.grad, weight.grad, bias.grad, *seen])
    assert len(found[0]) == len(found[1]) == 11
    assert all(map(torch.equal, *found))


def test_autograd_adds_to_no_gradient_that_another_stream_may_still_read(one_stream, monkeypatch):
    """The gradient of a sum goes to both terms; autograd adds to it in place if nothing else refers to it."""
    torch.manual_seed(0)
    x, weight = torch.randn(5, 4, dtype=torch.float64), torch.randn(4, 4, dtype=torch.float64, requires_grad=True)
    seen, of_parameters = [], home._gradients_of_parameters

    def watched(grad, *args, **options):
        seen.append((grad.data_ptr(), grad.flatten().tolist()))
        return of_parameters(grad, *args, **options)

    monkeypatch.setattr(home, "_gradients_of_parameters", watched)
    with parallel_streams(one_stream):
        h = mixed_linear([x], weight, None)
        for _ in range(3):
            h = h + mixed_linear([h.tanh()], weight, None)
        loss = h.square().sum()
    loss.backward()
    for address, values in seen:
        assert [*(ctypes.c_double * len(values)).from_address(address)] == values
    assert len(seen) == 4


def test_large_products_are_in_sequence(one_stream, monkeypatch):
    monkeypatch.setattr(home, "MAX_NUMBERS_ASIDE", 62)
    a, b, weight, bias = random_parts()
    with parallel_streams(one_stream):
        y = mixed_linear([a, b], weight, bias)
    assert "GradientsAsideBackward" not in {type(node).__name__ for node, _ in y.grad_fn.next_functions}


def test_prepared_parameters_are_those_of_the_function(one_stream):
    weight = torch.randn(3, requires_grad=True)
    with parallel_streams(one_stream):
        (once,), none = of_parameters(lambda: (weight * 2,)), of_parameters(lambda: None)
        with torch.no_grad():
            assert not of_parameters(lambda: weight * 2).requires_grad
    assert none is None
    assert torch.autograd.grad(once.sum(), weight)[0].tolist() == [2.0] * 3


@pytest.mark.gpu
def test_the_second_function_has_a_stream_of_its_name():
    device = torch.device("cuda", torch.cuda.current_device())
    with parallel_streams(Streams(device)):
        found = [
            in_parallel(name, lambda: torch.cuda.current_stream(), lambda: torch.cuda.current_stream())
            for name in ("a", "b", "a")
        ]
    here = torch.cuda.current_stream()
    assert [first for first, _ in found] == [here] * 3
    (_, a), (_, b), (_, again) = found
    assert a == again
    assert len({here.cuda_stream, a.cuda_stream, b.cuda_stream}) == 3


@pytest.mark.gpu
def test_each_function_sees_what_came_before_and_what_follows_sees_both():
    x = torch.zeros(1 << 20, device="cuda")
    with parallel_streams(Streams(x.device)):
        for _ in range(20):
            torch.cuda._sleep(1_000_000)
            x = x + 1
            first, second = in_parallel("sums", lambda x=x: x * 2, lambda x=x: torch.cuda._sleep(1_000_000) or x * 3, x)
            x = second - first
    assert torch.equal(x, torch.full_like(x, 20.0))


@pytest.mark.gpu
def test_gradients_of_a_linear_map_in_a_captured_graph():
    """Both streams of each layer, forward and backward: the same bits as in sequence, in every replay."""
    torch.manual_seed(0)
    parameters = [torch.randn(64, 64, device="cuda", requires_grad=True) for _ in range(6)]
    x = torch.randn(4096, 64, device="cuda")
    source = x.clone()

    def step():
        h = source
        for left, right in zip(parameters[::2], parameters[1::2], strict=True):
            one, two = in_parallel("right", lambda: linear(h, left).relu(), lambda: linear(h, right).tanh(), h)  # noqa: B023
            h = one + two
        return torch.autograd.grad(h.square().mean(), parameters)

    wanted = [value.clone() for value in step()]
    stream, graph = torch.cuda.Stream(), torch.cuda.CUDAGraph()
    with parallel_streams(Streams(x.device)):
        stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(stream):
            step()
        with torch.cuda.graph(graph, stream=stream):
            found = step()
    for factor in (1.0, 3.0, 1.0):
        source.copy_(x * factor)
        graph.replay()
    assert all(map(torch.equal, found, wanted))


@pytest.mark.gpu
@pytest.mark.parametrize("precision", ["float32", "bf16"])
def test_late_gradients_of_shared_parameters_with_hooks_clipping_and_accumulation(monkeypatch, precision):
    """Gradients of weights end long after those of features, whose memory is free by then: the same bits."""
    torch.manual_seed(0)
    x, places = torch.randn(4096, 64, device="cuda"), []
    start = [torch.randn(64, 64, device="cuda") / 8 for _ in range(8)] + [torch.zeros(64, device="cuda")]
    *weights, bias = (value.clone().requires_grad_() for value in start)
    streams, late = Streams(x.device), home._gradients_of_parameters

    def sleep_first(*args, **options):
        torch.cuda._sleep(300_000)
        return late(*args, **options)

    def scaled(grad):
        places.append(torch.cuda.current_stream(grad.device))
        return grad * 2

    def halve(parameter):
        parameter.grad.mul_(0.5)

    weights[0].register_hook(scaled)
    bias.register_post_accumulate_grad_hook(halve)

    def step():
        for p in (*weights, bias):
            p.grad = None
        for source in (x, x.flip(0)):
            with torch.autocast("cuda", torch.bfloat16, enabled=precision == "bf16"):
                h = source
                for weight in (*weights, *weights[:2]):
                    h = h + linear(h.tanh(), weight, bias)  # the gradient of h starts as that of the linear map
            h.float().square().mean().backward()
        norm = torch.nn.utils.clip_grad_norm_([*weights, bias], 0.1, foreach=True)
        with torch.no_grad():
            torch._foreach_add_([*weights, bias], [p.grad for p in (*weights, bias)], alpha=-1.0)
        return norm

    def restart():
        for p, value in zip((*weights, bias), start, strict=True):
            p.detach().copy_(value)

    def state():
        return [t.clone() for p in (*weights, bias) for t in (p.detach(), p.grad)]

    wanted = [[step().clone(), *state()] for _ in range(4)]
    restart()
    monkeypatch.setattr(home, "_gradients_of_parameters", sleep_first)
    places.clear()
    stream, graph = torch.cuda.Stream(), torch.cuda.CUDAGraph()
    with parallel_streams(streams):
        stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(stream):
            eager = [[step().clone(), *state()] for _ in range(4)]
        torch.cuda.current_stream().wait_stream(stream)
        with torch.cuda.graph(graph, stream=stream):
            norm = step()
    assert set(places) == {streams.named(GRADIENTS)}
    restart()
    replayed = []
    for _ in range(4):
        graph.replay()
        replayed.append([norm.clone(), *state()])
    for number, (one, two, three) in enumerate(zip(wanted, eager, replayed, strict=True)):
        assert all(map(torch.equal, one, two)), f"eager step {number}"
        assert all(map(torch.equal, one, three)), f"replay {number}"


@pytest.mark.gpu
def test_parameters_whose_gradient_is_accumulated_on_the_main_stream():
    """A parameter that is used on the main stream first; autograd then warns once that the streams differ."""
    torch.manual_seed(0)
    x, weight = torch.randn(4096, 64, device="cuda"), torch.randn(64, 64, device="cuda", requires_grad=True)
    found = []
    torch.autograd.graph.set_warn_on_accumulate_grad_stream_mismatch(False)
    try:
        for streams in (None, Streams(x.device)):
            weight.grad = None
            with parallel_streams(streams):
                for _ in range(3):
                    (weight.square().sum() + linear(linear(x, weight).tanh(), weight).square().mean()).backward()
            found.append(weight.grad)
    finally:
        torch.autograd.graph.set_warn_on_accumulate_grad_stream_mismatch(True)
    assert torch.equal(*found)


@pytest.mark.gpu
@pytest.mark.parametrize("conv", ["gcn", "gatedgcn"])
def test_recomputed_layers_inside_of_parallel_streams_have_the_same_gradients(conv):
    torch.manual_seed(0)
    x, edge_index, edge_attr = torch.randn(3000, 8), torch.randint(0, 3000, (2, 20_000)), torch.ones(20_000, 1)
    gated = conv == "gatedgcn"
    graph = [t.cuda() for t in (x, edge_index, *([edge_attr] if gated else []))]
    model = lrga.GNN(8, 64, 1, 4, conv=conv, rank=8, edge_channels=1 if gated else 0)
    model, found = recompute_layers(model).cuda(), []
    for streams in (None, Streams(graph[0].device)):
        model.zero_grad()
        with deterministic(), parallel_streams(streams):
            model(*graph).square().mean().backward()
        found.append([p.grad.clone() for p in model.parameters() if p.grad is not None])
    assert len(found[0]) == len(found[1]) > 20
    assert all(map(torch.equal, *found))
