"""The graphs of a user: CSV folders, edge lists and PyG objects."""
