"""How the benchmark trains on each of its data sets."""

from lrga.data.datasets.catalog import dataset_facts
from lrga.models.zoo import budget_of, model_name
from lrga.training.config import OptimizerConfig

_BLOCK_MODELS = ("PATTERN", "CLUSTER")
_SMALLER_BATCHES = {"gcn": 64, "graphsage": 64, "gatedgcn": 32}  # of the block models, at 500K


def benchmark_schedule(
    dataset: str, model: str = "gcn", *, budget: str | int = "100K", preset: str = "2022"
) -> OptimizerConfig:
    """Adam at 1e-3, halved on plateaus of the validation loss, until below 1e-5; patience, batches and epochs by set.

    The preset ``"2020"`` has the benchmark's patience of June 2020: 5 everywhere but on TSP.

    Example:
        >>> benchmark_schedule("CLUSTER", "gatedgcn", budget="500K").batch_size
        32
    """
    name = dataset_facts(dataset).name
    batch_size, max_epochs = (64, 500) if name == "TSP" else (128, 1000)
    patience = 5 if name in _BLOCK_MODELS or (preset == "2020" and name != "TSP") else 10
    if name in _BLOCK_MODELS and budget_of(budget)[1] == "500K":
        batch_size = _SMALLER_BATCHES.get(model_name(model), batch_size)
    return OptimizerConfig(patience=patience, batch_size=batch_size, max_epochs=max_epochs)
