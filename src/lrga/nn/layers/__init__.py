"""The layers of the benchmark, and the paper's augmented layer around them."""
