"""The experiments of ``lrga theory --train``."""
