"""Colour refinement and its relatives: 1-WL, 2-WL, 2-FWL, and what they tell apart."""
