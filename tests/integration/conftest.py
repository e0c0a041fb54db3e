"""Fixtures of the tests of documents."""

from tests.helpers.documents import data_root, reader  # noqa: F401
