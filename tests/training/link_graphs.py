"""Small graphs to predict links in, and what tests of all trainers share."""

import json

import numpy as np
import pytest
import torch

from lrga.data.links.split import split_edges
from lrga.models.embeddings import EMBEDDINGS
from lrga.tasks.task import LinkTask
from lrga.training.presets import make_config
from lrga.training.problems.architecture import resolve_link
from lrga.training.problems.data import RunData
from lrga.training.runs.checkpoint import capture, restore
from lrga.training.trainer import Checkpointer, Trainer


def communities(n=60, groups=3, seed=0, features=None, **options):
    """A graph of groups within which nodes are likely linked."""
    rng = np.random.default_rng(seed)
    group = np.arange(n) % groups
    upper = np.stack(np.triu_indices(n, 1), 1)
    chance = np.where(group[upper[:, 0]] == group[upper[:, 1]], 0.6, 0.02)
    edge = upper[rng.random(len(upper)) < chance]
    data = split_edges(edge, None, seed=seed, **options)
    if features is None:
        return data
    from dataclasses import replace

    return replace(data, x=torch.from_numpy(rng.standard_normal((data.num_nodes, features))).float())


def config_of(**options):
    """A small run on a CPU."""
    rank = {} if options.get("model") in EMBEDDINGS or options.get("lrga") is False else {"rank": 4}
    small = rank | {"hidden": 16, "max_epochs": 4, "batch_size": 200, "device": "cpu", "dropout": 0.2}
    return make_config("graph.csv", data_options={"task": "link"}, **(small | options))


def link_trainer(data=None, task=None, *, checkpointer=None, engine="plain", seed=0, **options):
    """A trainer of a small run on a CPU."""
    data, config = communities() if data is None else data, config_of(**options)
    task = task or LinkTask(metric="auc", negatives=config.link.negatives)
    torch.manual_seed(seed)
    architecture = resolve_link(config, data)
    run = RunData(data=data, task=task, architecture=architecture, sizes={})
    stages = run.stages(architecture.build().to(data.device), config)
    return Trainer(*stages, checkpointer=checkpointer, engine=engine)


class PauseAfter(Checkpointer):
    """Pauses after so many batches of all stages."""

    def __init__(self, count):
        self.count = count

    def pause(self, trainer):
        self.count -= 1
        return "time_limit" if self.count < 0 else None


class Records(Checkpointer):
    """Keeps what a trainer records, saves and says of its loop."""

    def __init__(self):
        self.records, self.saved, self.notes = [], [], []

    def end_epoch(self, trainer, record):
        self.records.append(record)
        self.save(trainer)

    def save(self, trainer):
        self.saved.append((trainer.epoch, trainer.batch))

    def log(self, text, facts):
        self.notes.append((text, facts))


def continued(first, make):
    """A new trainer, put where the first one is, by way of copies and JSON, as a checkpoint does."""
    parts, state = capture(first)
    parts = {part: {name: value.clone() for name, value in own.items()} for part, own in parts.items()}
    state = json.loads(json.dumps(state, allow_nan=False))
    torch.rand(7)  # another process would have another random state
    second = make()
    restore(second, parts, state)
    assert second.position == first.position
    return second


on_graphs = pytest.mark.parametrize("kind", ["graphs"], indirect=True)  # where the problem makes no difference
