"""The version, in its one place: the build and ``lrga --version`` read it from here."""

__version__ = "1.0.0"
