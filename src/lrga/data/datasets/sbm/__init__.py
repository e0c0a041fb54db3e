"""PATTERN and CLUSTER: random graphs with blocks."""
