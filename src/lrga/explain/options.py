"""Options of the commands, read."""

from lrga.errors import OptionError


def parse_layers(text: str | None) -> list[int] | None:
    """Numbers of layers from ``"1,4"``; ``None`` of ``None``.

    Example:
        >>> parse_layers("1,4")
        [1, 4]
    """
    if text is None:
        return None
    try:
        return [int(part) for part in text.split(",")]
    except ValueError as error:
        raise OptionError("numbers of layers with commas between", repr(text), "write for example 1,4") from error
