"""The measurements of ``lrga bench``: our attention compared with others on this machine."""

from lrga.speed.measure import measure_speed

__all__ = ["measure_speed"]
