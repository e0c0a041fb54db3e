"""Training steps recorded as CUDA graphs and replayed."""
