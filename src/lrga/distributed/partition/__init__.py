"""One graph over several processes: its partition, the layers and norms on it, the training step."""
