"""Runs: their folders, checkpoints, resuming and results."""
