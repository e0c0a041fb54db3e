"""Training steps captured as CUDA graphs and replayed."""
