"""Data sets by name: facts, builders, and the variants on disk."""

BENCHMARK = (
    "Dwivedi, Joshi, Luu, Laurent, Bengio, Bresson: Benchmarking Graph Neural Networks. "
    "Journal of Machine Learning Research 24(43), 2023. arXiv:2003.00982"
)
RECIPE = "https://github.com/graphdeeplearning/benchmarking-gnns"
FRESH_DRAW = (
    "The published recipe fixes no seed, so the generated graphs are a new sample from the same distribution, "
    "not the published files."
)
