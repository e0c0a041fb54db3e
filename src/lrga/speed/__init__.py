"""What ``lrga bench`` measures: the attention beside others on this machine, and which implementation is taken."""

from lrga.speed.backends import explain_choices
from lrga.speed.measure import measure_speed

__all__ = ["explain_choices", "measure_speed"]
