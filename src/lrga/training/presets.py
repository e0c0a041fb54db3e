"""How each of the data sets is usually trained on."""

from lrga.data.datasets.spec import spec_of
from lrga.errors import OptionError
from lrga.models.zoo import budget_of, model_name
from lrga.training.config import OptimizerConfig


def benchmark_schedule(
    dataset: str, model: str = "gcn", *, budget: str | int = "100K", preset: str = "2022"
) -> OptimizerConfig:
    """Adam, the rate halved on plateaus of the validation loss until below 1e-5; the rest as the set's schedule says.

    The preset ``"2020"`` has the benchmark's patience of June 2020.

    Example:
        >>> benchmark_schedule("CLUSTER", "gatedgcn", budget="500K").batch_size
        32
    """
    schedule = spec_of(dataset).schedule
    if schedule is None:
        raise OptionError("a data set of graphs", repr(dataset), "see lrga.training.problems.link_config.link_protocol")
    return OptimizerConfig(**schedule.options(model=model_name(model), budget=budget_of(budget)[1], preset=preset))
