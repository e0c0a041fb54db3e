"""Callbacks during training: progress, TensorBoard, checks for NaN."""
