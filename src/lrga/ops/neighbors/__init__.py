"""Sums, means and maxima over the neighbours of a node."""
