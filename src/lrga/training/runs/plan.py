"""What a run would be, without running it."""

from typing import Any

from lrga.data.datasets.building import plan_dataset
from lrga.data.datasets.place import SPLITS
from lrga.data.datasets.spec import dataset_name, spec_of
from lrga.tasks.link import LinkTask
from lrga.tasks.named import task_of, with_choices
from lrga.training.architecture import resolve
from lrga.training.config import TrainingConfig
from lrga.training.determinism import choose_device
from lrga.training.problems.graph_data import load_training_data


def plan_run(config: TrainingConfig) -> dict[str, Any]:
    """Data, network, exact parameters and schedule of a run as JSON values.

    The user's own data are read; a named data set is not built.

    Example:
        >>> from lrga.training.options import make_config
        >>> plan_run(make_config("PATTERN", model="gcn", budget="500k"))["parameters"]
        396437
    """
    if config.link is not None:
        return _plan_links(config)
    dataset = dataset_name(config.data.name)
    if dataset is None:
        found = load_training_data(config.data, config.run)
        inputs, task = found.inputs, found.task
        graphs = {split: len(found.splits[split]) for split in SPLITS}
        ready, notes = True, list(found.notes)
    else:
        spec, notes = spec_of(dataset), []
        inputs = spec.inputs
        task = with_choices(task_of(dataset), loss=config.run.loss, metric=config.run.metric)
        planned = plan_dataset(dataset, config.data.root, **config.data.options)
        ready = planned.finished() is not None
        sizes = planned.recipe["options"].get("sizes") or [spec.splits[split] for split in SPLITS]
        graphs = dict(zip(SPLITS, sizes, strict=True))
    architecture = resolve(config.model, inputs, dataset=dataset)
    size = config.optimizer.batch_size
    return {
        "data": {"name": dataset or config.data.name, "graphs": graphs, "built": ready}
        | ({"notes": notes} if notes else {}),
        "task": task.to_json(),
        "model": architecture.to_json(),
        "parameters": architecture.size(),
        "optimizer": config.to_json()["optimizer"],
        "batches_per_epoch": -(-graphs["train"] // size),
        "seed": config.run.seed,
        "device": str(choose_device(config.run.device)),
    }


def _plan_links(config: TrainingConfig) -> dict[str, Any]:
    """The same where links are predicted; ``graphs`` counts edges."""
    from lrga.training.problems.link_architecture import resolve_link
    from lrga.training.problems.link_run import link_task, load_link_source

    dataset = dataset_name(config.data.name)
    if dataset is None:
        data = load_link_source(config.data)
        edges = {split: data.splits[split].edge.size(0) for split in SPLITS}
        architecture, task, ready = resolve_link(config, data), link_task(config, data), True
    else:
        edges, architecture = dict(spec_of(dataset).splits), resolve_link(config)
        assert config.link is not None
        metric = config.run.metric or spec_of(dataset).task.metric
        task = LinkTask(metric=metric, negatives=config.link.negatives)
        ready = plan_dataset(dataset, config.data.root, **config.data.options).finished() is not None
    written = config.to_json()
    return {
        "data": {"name": config.data.name, "graphs": edges, "built": ready},
        "task": task.to_json(),
        "model": architecture.to_json(),
        "parameters": architecture.size(),
        "optimizer": written["optimizer"],
        "link": written["link"],
        "batches_per_epoch": -(-edges["train"] // config.optimizer.batch_size),
        "seed": config.run.seed,
        "device": str(choose_device(config.run.device)),
    }
