from lrga.io import progress as module
from lrga.io.progress import PrintedProgress, silent


def test_silent_and_what_is_quickly_over_print_nothing(capsys):
    silent("step", 1, 2)
    assert capsys.readouterr() == ("", "")
    progress = PrintedProgress()
    for done in range(11):
        progress("quick", done, 10)
    assert capsys.readouterr() == ("", "")


def test_without_a_terminal_long_work_prints_plain_lines_on_stderr(capsys, monkeypatch):
    clock = iter([0.0, 1.0, 3.0, 4.0, 14.0])
    monkeypatch.setattr(module.time, "monotonic", lambda: next(clock))
    progress = PrintedProgress()
    for done in range(5):
        progress("long", 1000 * done, 9000)
    out, err = capsys.readouterr()
    assert out == ""
    assert err.splitlines() == ["long: 2,000 of 9,000 after 3 s", "long: 4,000 of 9,000 after 14 s"]


def test_an_unknown_total_is_left_out(capsys, monkeypatch):
    clock = iter([0.0, 5.0])
    monkeypatch.setattr(module.time, "monotonic", lambda: next(clock))
    progress = PrintedProgress()
    progress("bytes", 1, None)
    progress("bytes", 7, None)
    assert capsys.readouterr().err == "bytes: 7 after 5 s\n"
