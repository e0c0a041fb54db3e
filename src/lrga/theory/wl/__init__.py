"""Colour refinement: 1-WL, 2-WL and 2-FWL, and the graphs that they distinguish."""
