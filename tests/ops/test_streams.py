"""Work of a captured step on two streams."""

import pytest
import torch

from lrga.ops.linear import linear
from lrga.ops.streams import Streams, current_streams, in_parallel, parallel_streams


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
