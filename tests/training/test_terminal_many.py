"""Several runs at once: a line each on a terminal, labelled lines elsewhere."""

import io

from lrga.training import train
from lrga.training.callbacks.terminal import PlainProgress
from lrga.training.callbacks.terminal_many import BoardLine, progress_displays


def test_elsewhere_every_line_says_whose_it_is(make_config, make_splits, tmp_path, capsys):
    displays = progress_displays(["seed 41", "seed 95"])
    assert all(isinstance(display, PlainProgress) for display in displays)
    for seed, display in zip((41, 95), displays, strict=True):
        train(make_config(seed=seed), tmp_path / str(seed), data=make_splits(), listeners=[display])
    lines = capsys.readouterr().err.splitlines()
    assert {line.split(":")[0] for line in lines} == {"seed 41", "seed 95"}
    assert any("epoch 3/3" in line for line in lines)


def test_one_run_has_the_usual_display():
    (display,) = progress_displays(["run"])
    assert isinstance(display, PlainProgress)


class Terminal(io.StringIO):
    def isatty(self):
        return True


def test_on_a_terminal_the_runs_share_a_board(make_config, make_splits, tmp_path, monkeypatch):
    screen = Terminal()
    monkeypatch.setattr("sys.stderr", screen)
    first, second = progress_displays(["seed 41", "seed 95"])
    assert isinstance(first, BoardLine)
    assert first._board is second._board
    train(make_config(seed=41), tmp_path / "a", data=make_splits(), listeners=[first])
    shown = screen.tell()
    second.noted("said while nothing is shown")  # the board is closed with its last run
    assert screen.tell() == shown > 0
    train(make_config(seed=95, engine="captured"), tmp_path / "b", data=make_splits(), listeners=[second])
    second.closed()
    assert "seed 95" in screen.getvalue()
