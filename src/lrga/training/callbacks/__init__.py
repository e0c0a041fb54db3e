"""What happens beside training: progress, TensorBoard, checks for NaN."""
