"""What is recorded is a function; what a rehearsal changes is put back."""

import subprocess
import sys
import warnings

import pytest
import torch
from torch import nn

from lrga.training.capture.cuda_graph import Captured, no_waiting, snapshot_of


def test_on_a_cpu_the_function_itself_is_called():
    calls = []
    run = Captured(lambda: calls.append(1), None, snapshot=lambda: lambda: calls.append("restored"))
    assert calls == []
    run()
    run()
    assert calls == [1, 1]


def make():
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(3, 3), nn.BatchNorm1d(3), nn.Dropout(0.5))
    optimizer = torch.optim.Adam(model.parameters(), fused=True)
    return model, optimizer, torch.amp.GradScaler("cpu", enabled=False), torch.zeros(())


def step(model, optimizer, total):
    loss = model(torch.rand(4, 3)).sum()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    total += loss.detach()


def test_a_rehearsal_leaves_no_trace_before_the_first_step_or_later():
    for steps in (0, 2):
        model, optimizer, scaler, total = make()
        twin, its_optimizer, _, its_total = make()
        generator = torch.Generator().manual_seed(1)
        torch.manual_seed(5)
        for _ in range(steps):
            step(model, optimizer, total)
        restore = snapshot_of(model, optimizer, scaler, [total], torch.device("cpu"), [generator])
        for _ in range(3):
            step(model, optimizer, total)
            torch.rand(1, generator=generator)
        restore()
        torch.manual_seed(5)
        for _ in range(steps):
            step(twin, its_optimizer, its_total)
        torch.manual_seed(9)
        step(model, optimizer, total)
        torch.manual_seed(9)
        step(twin, its_optimizer, its_total)
        assert torch.equal(total, its_total)
        for ours, theirs in zip(model.state_dict().values(), twin.state_dict().values(), strict=True):
            assert torch.equal(ours, theirs)


def test_random_states_come_back():
    model, optimizer, scaler, total = make()
    generator = torch.Generator().manual_seed(1)
    restore = snapshot_of(model, optimizer, scaler, [total], torch.device("cpu"), [generator])
    first = torch.rand(3), torch.rand(3, generator=generator)
    restore()
    assert torch.equal(torch.rand(3), first[0])
    assert torch.equal(torch.rand(3, generator=generator), first[1])


def test_the_prototype_warning_of_pytorch_is_not_shown(monkeypatch):
    modes = [0]

    def set_mode(mode):  # as PyTorch does on a GPU
        if mode == "error":
            warnings.warn("Synchronization debug mode is a prototype feature and does not yet detect all", stacklevel=2)
        modes.append(mode)

    monkeypatch.setattr(torch.cuda, "get_sync_debug_mode", lambda: modes[0])
    monkeypatch.setattr(torch.cuda, "set_sync_debug_mode", set_mode)
    with no_waiting(), pytest.warns(UserWarning, match="of the step"):  # an error in tests, were it shown
        warnings.warn("of the step itself", stacklevel=2)
    assert modes == [0, "error", 0]


@pytest.mark.gpu
def test_a_recording_shows_no_warning_on_a_gpu():
    code = """
import torch
from lrga.training.capture.cuda_graph import Captured, no_waiting, recording_stream
total = torch.zeros((), device="cuda")
add = Captured(lambda: total.add_(1), recording_stream(total.device), snapshot=lambda: lambda: None)
add()
try:
    with no_waiting():
        float(total)
except RuntimeError:
    print("refused")
"""
    done = subprocess.run([sys.executable, "-W", "always", "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "refused\n"
    assert "Synchronization debug mode" not in done.stderr
