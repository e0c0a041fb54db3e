"""Fixtures of pages: records, a small trained run, a browser."""

from tests.helpers.campaigns import data_root, tiny  # noqa: F401
from tests.helpers.pages import (  # noqa: F401
    keep_screenshot,
    make_record,
    open_page,
    trained,
    write_records,
)
