"""Fixtures of small campaigns, of records and of a small trained run."""

from tests.helpers.campaigns import data_root, tiny  # noqa: F401
from tests.helpers.pages import make_record, trained, write_records  # noqa: F401
