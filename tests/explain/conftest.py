"""Fixtures of pages: records, a small trained run, a browser."""

from tests.helpers.pages import (  # noqa: F401
    keep_screenshot,
    make_record,
    open_page,
    trained,
    write_records,
)
