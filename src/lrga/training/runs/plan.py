"""What a run would be, without running it."""

from typing import Any

from lrga.data.datasets.spec import dataset_name, spec_of
from lrga.training.config import TrainingConfig
from lrga.training.determinism import choose_device
from lrga.training.problems.kinds import plan_data


def plan_run(config: TrainingConfig) -> dict[str, Any]:
    """Data, network, exact parameters and schedule of a run as JSON values.

    The user's own data are read; a named data set is not built. ``graphs`` counts edges where links are predicted.

    Example:
        >>> from lrga.training.options import make_config
        >>> plan_run(make_config("PATTERN", model="gcn", budget="500k"))["parameters"]
        396437
    """
    data, task, architecture = plan_data(config)
    written = config.to_json()
    named, batches = dataset_name(config.data.name), -(-data["graphs"]["train"] // config.optimizer.batch_size)
    if named is not None and spec_of(named).one_graph and config.problem == "graphs" and not config.optimizer.fanouts:
        batches = 1  # the graph, whose nodes the splits are
    return {
        "data": data,
        "task": task.to_json(),
        "model": architecture.to_json(),
        "parameters": architecture.size(),
        **{section: written[section] for section in ("optimizer", "link") if section in written},
        "batches_per_epoch": batches,
        "seed": config.run.seed,
        "device": str(choose_device(config.run.device)),
    }
