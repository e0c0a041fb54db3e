"""One look for all figures."""

import matplotlib as mpl

from lrga.explain.style import COLOURS, plain, styled


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


def test_a_name_keeps_its_lines_and_loses_what_an_svg_may_not_hold():
    assert plain("a\nb\x01c\ud800 $x$ 日本") == "a\nb c  \\$x\\$ 日本"
