"""Progress: numbers and time left on a terminal, plain lines elsewhere."""

import io
import sys

import pytest

from lrga.training import continue_run, train
from lrga.training.callbacks.terminal import ProgressDisplay, time_left


class Terminal(io.StringIO):
    def isatty(self):
        return True


def test_plain_lines_tell_of_the_first_and_the_last_epoch(make_config, make_splits, tmp_path, capsys):
    train(make_config(max_epochs=5), tmp_path / "run", data=make_splits(), callbacks=[ProgressDisplay("mine")])
    err = capsys.readouterr().err
    lines = err.splitlines()
    assert all(line.startswith("mine: ") for line in lines)
    assert "24/8/8 graphs" in lines[0]
    lines = [line for line in lines if not line.startswith("mine: data: ")]
    assert "epoch 1/5" in lines[1]
    assert "epoch 5/5" in lines[-1]
    for word in ("loss", "accuracy (%)", "lr 1.0e-03", "left"):
        assert word in lines[1]
    assert "\x1b" not in err


def test_a_continued_run_says_so(make_config, make_splits, tmp_path, capsys):
    train(make_config(max_epochs=2), tmp_path / "run", data=make_splits())
    continue_run(tmp_path / "run", data=make_splits(), max_epochs=3, callbacks=[ProgressDisplay()])
    assert "continues after epoch 2" in capsys.readouterr().err


def test_a_slow_epoch_is_told_of_within(capsys):
    display = ProgressDisplay()
    display._last_batch_line -= 60
    display.on_batch_end(1, 3, 10)
    display.on_batch_end(1, 4, 10)
    assert capsys.readouterr().err == "epoch 1: batch 3 of 10\n"


def test_on_a_terminal_a_line_moves_with_the_batches(make_config, make_splits, tmp_path, monkeypatch):
    screen = Terminal()
    monkeypatch.setattr(sys, "stderr", screen)
    monkeypatch.setattr("lrga.training.callbacks.terminal.MOVING_LINE_SECONDS", 0.0)
    train(make_config(), tmp_path / "run", data=make_splits(), callbacks=[ProgressDisplay("mine")])
    *lines, end = screen.getvalue().split("\n")
    shown = next(line for line in lines if "batch" in line).split("\r\x1b[K")
    assert shown[1:3] == ["mine: epoch 1: batch 1 of 3", "mine: epoch 1: batch 2 of 3"]
    for word in ("mine: epoch 1/3  loss", "accuracy (%)", "lr 1.0e-03", "left"):
        assert word in shown[3]
    assert end == "\r\x1b[K"  # which erases it


@pytest.mark.parametrize(
    ("done", "total", "text"), [(0, 10, ""), (5, 10, "at most 0:00:10 left"), (10, 10, "at most 0:00:00 left")]
)
def test_the_time_left_follows_from_the_time_spent(done, total, text):
    assert time_left(done, total, 10.0) == text


def test_elsewhere_every_line_says_whose_it_is(make_config, make_splits, tmp_path, capsys):
    for seed in (41, 95):
        display = ProgressDisplay(f"seed {seed}")
        train(make_config(seed=seed), tmp_path / str(seed), data=make_splits(), callbacks=[display])
    lines = capsys.readouterr().err.splitlines()
    assert {line.split(":")[0] for line in lines} == {"seed 41", "seed 95"}
    assert any("epoch 3/3" in line for line in lines)
