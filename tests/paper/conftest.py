"""Fixtures of small campaigns."""

from tests.helpers.campaigns import data_root, tiny  # noqa: F401
