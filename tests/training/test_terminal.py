"""Progress: numbers and time left on a terminal, plain lines elsewhere."""

import io
import sys

import pytest

from lrga.training import continue_run, train
from lrga.training.callbacks.terminal import LiveProgress, PlainProgress, progress_display, progress_displays, time_left


class Terminal(io.StringIO):
    def isatty(self):
        return True


def test_plain_lines_tell_of_the_first_and_the_last_epoch(make_config, make_splits, tmp_path, capsys):
    train(make_config(max_epochs=5), tmp_path / "run", data=make_splits(), callbacks=[PlainProgress("mine")])
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
    continue_run(tmp_path / "run", data=make_splits(), max_epochs=3, callbacks=[PlainProgress()])
    assert "continues after epoch 2" in capsys.readouterr().err


def test_a_slow_epoch_is_told_of_within(capsys):
    display = PlainProgress()
    display._last_batch_line -= 60
    display.on_batch_end(1, 3, 10)
    display.on_batch_end(1, 4, 10)
    assert capsys.readouterr().err == "epoch 1: batch 3 of 10\n"


def test_a_terminal_shows_a_bar_with_numbers(make_config, make_splits, tmp_path, monkeypatch):
    screen = Terminal()
    monkeypatch.setattr(sys, "stderr", screen)
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.setenv("TERM", "xterm")
    train(make_config(), tmp_path / "run", data=make_splits(), callbacks=[LiveProgress("mine")])
    shown = screen.getvalue()
    assert "mine: epoch" in shown
    for word in ("loss", "accuracy (%)", "lr ", "1.0e-03", "left"):  # below the bar, also where the terminal is narrow
        assert word in shown


def test_the_display_fits_where_stderr_goes(monkeypatch):
    monkeypatch.setattr(sys, "stderr", Terminal())
    assert isinstance(progress_display(), LiveProgress)
    monkeypatch.setattr(sys, "stderr", io.StringIO())
    assert isinstance(progress_display(), PlainProgress)


@pytest.mark.parametrize(
    ("done", "total", "text"), [(0, 10, ""), (5, 10, "at most 0:00:10 left"), (10, 10, "at most 0:00:00 left")]
)
def test_the_time_left_follows_from_the_time_spent(done, total, text):
    assert time_left(done, total, 10.0) == text


def test_elsewhere_every_line_says_whose_it_is(make_config, make_splits, tmp_path, capsys):
    displays = progress_displays(["seed 41", "seed 95"])
    assert all(isinstance(display, PlainProgress) for display in displays)
    for seed, display in zip((41, 95), displays, strict=True):
        train(make_config(seed=seed), tmp_path / str(seed), data=make_splits(), callbacks=[display])
    lines = capsys.readouterr().err.splitlines()
    assert {line.split(":")[0] for line in lines} == {"seed 41", "seed 95"}
    assert any("epoch 3/3" in line for line in lines)


def test_on_a_terminal_the_runs_share_a_board(make_config, make_splits, tmp_path, monkeypatch):
    screen = Terminal()
    monkeypatch.setattr("sys.stderr", screen)
    first, second = progress_displays(["seed 41", "seed 95"])
    assert isinstance(first, LiveProgress)
    assert first._board is second._board
    train(make_config(seed=41), tmp_path / "a", data=make_splits(), callbacks=[first])
    shown = screen.tell()
    second.on_log("a message")  # the board is closed with its last run
    assert screen.getvalue()[shown:] == "seed 95: a message\n"
    train(make_config(seed=95, engine="captured"), tmp_path / "b", data=make_splits(), callbacks=[second])
    second.on_close()
    assert "seed 95" in screen.getvalue()
