"""The edge operations of a GatedGCN layer."""
