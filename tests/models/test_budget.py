import pytest
import torch
from torch import nn

from lrga.errors import OptionError
from lrga.models.budget import count_of, count_parameters, solve_width


def square(width):
    return nn.Linear(width, width, bias=False)


def test_shared_parameters_count_once_and_nothing_is_allocated():
    lin = nn.Linear(3, 2)
    assert count_parameters(nn.Sequential(lin, lin)) == 8
    assert count_of(lambda: nn.Embedding(10**9, 1000)) == 10**12


@pytest.mark.parametrize(("target", "nearest", "below"), [(100, 10, 10), (109, 10, 10), (116, 11, 10), (1, 1, 1)])
def test_width_is_the_nearest_or_the_largest_below(target, nearest, below):
    assert solve_width(target, square) == nearest
    assert solve_width(target, square, prefer="below") == below


@pytest.mark.parametrize("target", [50, 1000, 123_456])
@pytest.mark.parametrize("multiple_of", [1, 3, 8])
def test_width_is_the_best_of_all_multiples(target, multiple_of):
    width = solve_width(target, square, multiple_of=multiple_of)
    best = min(range(multiple_of, 1000, multiple_of), key=lambda w: (abs(w * w - target), w))
    assert width == best


def test_a_budget_that_no_width_meets_is_met_by_the_smallest_if_that_is_near_or_refused():
    assert solve_width(32, square, multiple_of=8) == 8
    for target, prefer in ((32, "below"), (31, "nearest")):
        with pytest.raises(OptionError, match=r"at least 64 parameters.*fewer layers"):
            solve_width(target, square, multiple_of=8, prefer=prefer)
    with pytest.raises(OptionError, match="at most 64"):
        solve_width(10**6, square, largest=64)
    with pytest.raises(OptionError, match="'nearest', 'below'"):
        solve_width(100, square, prefer="above")
    with pytest.raises(OptionError, match="target_parameters"):
        solve_width(0, square)


def test_networks_are_built_on_the_meta_device_only():
    devices = set()

    def build(width):
        module = square(width)
        devices.add(module.weight.device.type)
        return module

    solve_width(10_000, build)
    assert devices == {"meta"}
    assert square(2).weight.device == torch.device("cpu")
