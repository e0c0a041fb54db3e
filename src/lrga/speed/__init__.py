"""What ``lrga bench`` measures: the attention beside others on this machine."""

from lrga.speed.measure import measure_speed

__all__ = ["measure_speed"]
