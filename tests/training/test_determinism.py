"""Random states and devices."""

import pytest
import torch

from lrga.errors import DeviceError
from lrga.training.determinism import (
    NORM_STREAM,
    OwnRandomness,
    choose_device,
    deterministic,
    order_generator,
    random_states,
    restore_random_states,
)

CPU = torch.device("cpu")


def test_random_numbers_go_on_from_a_restored_state():
    states = random_states(CPU)
    first = torch.rand(5)
    torch.rand(100)
    restore_random_states(states, CPU)
    assert torch.equal(torch.rand(5), first)


def test_the_order_of_an_epoch_follows_from_seed_and_epoch():
    def order(seed, epoch):
        return torch.randperm(50, generator=order_generator(seed, epoch)).tolist()

    assert order(41, 3) == order(41, 3)
    assert order(41, 3) != order(41, 4)
    assert order(41, 3) != order(42, 3)


def test_orders_do_not_touch_the_other_random_streams():
    torch.manual_seed(5)
    first = torch.rand(3)
    torch.manual_seed(5)
    torch.randperm(50, generator=order_generator(5, 0))
    torch.randperm(50, generator=order_generator(5, 0, stream=NORM_STREAM))
    assert torch.equal(torch.rand(3), first)


def test_a_device_is_found_by_name():
    assert choose_device("cpu") == CPU
    assert choose_device("auto").type == ("cuda" if torch.cuda.is_available() else "cpu")


@pytest.mark.parametrize("name", ["gpu", "mps", "cuda:99"])
def test_a_device_that_is_not_there_is_refused(name):
    with pytest.raises(DeviceError):
        choose_device(name)


def test_each_of_several_runs_has_randomness_of_its_own():
    outside = torch.get_rng_state()
    runs = [OwnRandomness(CPU) for _ in range(3)]
    drawn = [[], [], []]
    for turn in range(4):
        for number, run in enumerate(runs):
            with run.turn():
                if turn == 0:
                    torch.manual_seed(number)
                drawn[number].append(torch.rand(number + 1))
    assert torch.equal(torch.get_rng_state(), outside)
    for number in range(3):
        torch.manual_seed(number)
        assert all(torch.equal(torch.rand(number + 1), values) for values in drawn[number])


def test_the_deterministic_mode_ends_with_its_block():
    assert not torch.are_deterministic_algorithms_enabled()
    with deterministic():
        assert torch.are_deterministic_algorithms_enabled()
        assert not torch.utils.deterministic.fill_uninitialized_memory
    with deterministic(False):
        assert not torch.are_deterministic_algorithms_enabled()
    with pytest.raises(KeyError), deterministic():
        raise KeyError
    assert not torch.are_deterministic_algorithms_enabled()
    assert torch.utils.deterministic.fill_uninitialized_memory
