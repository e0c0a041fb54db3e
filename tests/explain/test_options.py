"""Options as a user types them."""

import pytest

from lrga.errors import OptionError
from lrga.explain.options import parse_layers


def test_layers_are_numbers_with_commas():
    assert parse_layers(None) is None
    assert parse_layers("1, 3") == [1, 3]


@pytest.mark.parametrize("text", ["", "a", "1,,2", "1.5"])
def test_anything_else_is_refused(text):
    with pytest.raises(OptionError, match="1,4"):
        parse_layers(text)
