"""Batch normalisation of the real rows of a batch."""
