"""Checkpoints: the same after reading, believed only when whole."""

import json
import os

import pytest
import torch
from torch import nn

from lrga.errors import CheckpointError
from lrga.training.runs.checkpoint import (
    checkpoint_name,
    load_optimizer,
    newest_checkpoint,
    optimizer_parts,
    read_checkpoint,
    write_checkpoint,
)

PARTS = {"model": {"w": torch.arange(6.0).view(2, 3), "n": torch.tensor(3)}, "training": {"r": torch.arange(4).byte()}}


def write(folder, epoch=0, batch=0, value=1):
    return write_checkpoint(folder, checkpoint_name(0, epoch, batch), PARTS, {"value": value, "lr": 0.1})


def test_a_checkpoint_reads_back_bit_for_bit(tmp_path):
    found = read_checkpoint(write(tmp_path))
    assert found.state == {"value": 1, "lr": 0.1}
    for part, tensors in PARTS.items():
        assert set(found.parts[part]) == set(tensors)
        for name, tensor in tensors.items():
            assert found.parts[part][name].dtype == tensor.dtype
            assert torch.equal(found.parts[part][name], tensor)


def test_nothing_is_pickled(tmp_path):
    path = write(tmp_path)
    assert sorted(os.listdir(path)) == ["model.safetensors", "state.json", "training.safetensors"]
    assert json.loads((path / "state.json").read_text())["format"] == 1


def test_views_and_shared_tensors_are_written_as_they_are(tmp_path):
    base = torch.arange(12.0)
    path = write_checkpoint(
        tmp_path, checkpoint_name(0, 0, 0), {"model": {"a": base.view(3, 4).t(), "b": base[2:5]}}, {}
    )
    found = read_checkpoint(path).parts["model"]
    assert torch.equal(found["a"], base.view(3, 4).t())
    assert torch.equal(found["b"], base[2:5])


def test_the_newest_is_found_and_only_two_are_kept(tmp_path):
    for epoch, batch in ((0, 0), (0, 12), (9, 0), (10, 0)):
        write(tmp_path, epoch, batch, value=epoch)
    found, problems = newest_checkpoint(tmp_path)
    assert found is not None
    assert found.state["value"] == 10
    assert problems == []
    assert sorted(os.listdir(tmp_path)) == [checkpoint_name(0, 9, 0), checkpoint_name(0, 10, 0)]


def test_what_a_killed_writer_left_is_cleared_and_never_read(tmp_path):
    write(tmp_path, 1)
    left = tmp_path / ".writing-abc"
    left.mkdir()
    (left / "model.safetensors").write_bytes(b"half")
    assert newest_checkpoint(tmp_path)[0].path.name == checkpoint_name(0, 1, 0)
    write(tmp_path, 2)
    assert not left.exists()


@pytest.mark.parametrize("damage", ["cut", "flipped", "missing", "state cut", "state gone"])
def test_a_damaged_checkpoint_is_passed_over_for_the_one_before(tmp_path, damage):
    write(tmp_path, 1, value=1)
    path = write(tmp_path, 2, value=2)
    weights, state = path / "model.safetensors", path / "state.json"
    content = weights.read_bytes()
    if damage == "cut":
        weights.write_bytes(content[:-3])
    elif damage == "flipped":
        weights.write_bytes(content[:-1] + bytes([content[-1] ^ 1]))
    elif damage == "missing":
        weights.unlink()
    elif damage == "state cut":
        state.write_bytes(state.read_bytes()[:40])
    else:
        state.unlink()
    found, problems = newest_checkpoint(tmp_path)
    assert found is not None
    assert found.state["value"] == 1
    assert len(problems) == 1
    assert checkpoint_name(0, 2, 0) in problems[0]


def test_no_sound_checkpoint_is_an_error_and_none_at_all_is_not(tmp_path):
    assert newest_checkpoint(tmp_path / "none") == (None, [])
    (write(tmp_path) / "state.json").unlink()
    with pytest.raises(CheckpointError, match="whole checkpoint"):
        newest_checkpoint(tmp_path)


def test_a_checkpoint_of_another_format_is_refused(tmp_path):
    path = write(tmp_path)
    written = json.loads((path / "state.json").read_text())
    (path / "state.json").write_text(json.dumps(written | {"format": 99}))
    with pytest.raises(CheckpointError, match="format 99"):
        read_checkpoint(path)


def test_an_optimiser_goes_on_bit_for_bit(tmp_path):
    def make():
        torch.manual_seed(0)
        layer = nn.Linear(3, 2)
        return layer, torch.optim.Adam(layer.parameters(), lr=0.1)

    def step(layer, optimizer, x):
        optimizer.zero_grad()
        layer(x).pow(2).sum().backward()
        optimizer.step()

    inputs = torch.randn(6, 5, 3)
    layer, optimizer = make()
    for x in inputs[:3]:
        step(layer, optimizer, x)
    moments, groups = optimizer_parts(optimizer)
    groups = json.loads(json.dumps(groups))
    path = write_checkpoint(tmp_path, checkpoint_name(0, 0, 3), {"model": layer.state_dict(), "training": moments}, {})
    again, other = make()
    again.load_state_dict(read_checkpoint(path).parts["model"])
    load_optimizer(other, read_checkpoint(path).parts["training"], groups)
    for x in inputs[3:]:
        step(layer, optimizer, x)
        step(again, other, x)
    assert torch.equal(layer.weight, again.weight)
