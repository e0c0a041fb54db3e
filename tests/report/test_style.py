"""One look for all figures."""

import matplotlib as mpl

from lrga.report.style import COLOURS, styled


def brightness(colour):
    red, green, blue = (int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5))
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def test_colours_are_different_and_dark_enough_on_white():
    assert len(set(COLOURS)) == len(COLOURS)
    assert all(brightness(colour) < 0.7 for colour in COLOURS)


def test_the_caller_s_settings_come_back():
    before = dict(mpl.rcParams)
    with styled():
        assert mpl.rcParams["pdf.fonttype"] == 42
    assert dict(mpl.rcParams) == before
