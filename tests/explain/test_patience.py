"""Progress of work that takes long."""

from lrga.explain.patience import Patience, to_stderr


def test_short_work_is_not_told_of():
    told = []
    patience = Patience(told.append, seconds=60.0)
    for number in range(5):
        patience(str(number))
    assert told == []
    Patience(None, seconds=0.0)("nobody listens")


def test_long_work_is_told_of_on_stderr(capsys):
    Patience(to_stderr, seconds=0.0)("still there")
    assert capsys.readouterr() == ("", "still there\n")
