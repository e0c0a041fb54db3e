"""The edges of a GatedGCN layer."""
