"""GAT: attention over the in-neighbours of a node."""
