"""Small graphs and short runs for the tests of training."""

import shutil
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import torch
from torch_geometric.data import Data

from lrga.data.packed import PackedGraphs
from lrga.training import DataConfig, ModelConfig, OptimizerConfig, RunConfig, TrainingConfig, continue_run, train

sys.path.insert(0, str(Path(__file__).parent))
import link_graphs


def graph(generator, level, nodes=6):
    """A random graph whose targets follow from its features, so that there is something to learn."""
    x = torch.rand(nodes, 3, generator=generator)
    source = torch.arange(nodes).repeat(2)
    target = torch.cat([source[:nodes].roll(1), torch.randint(0, nodes, (nodes,), generator=generator)])
    edge_index = torch.stack([source, target])
    y = {
        "node": (x[:, 0] > 0.5).long(),
        "graph": x.sum().view(1),
        "edge": (x[source, 0] > x[target, 1]).long(),
    }[level]
    return Data(x=x, edge_index=edge_index, edge_attr=torch.rand(2 * nodes, 2, generator=generator), y=y)


@pytest.fixture(autouse=True)
def small_graphs(one_thread):
    """Graphs this small are done sooner by one thread than by two that wait for each other."""


@pytest.fixture
def make_splits():
    """``make_splits(level, sizes)``: train, val and test of random graphs."""

    def make(level="node", sizes=(24, 8, 8), seed=0):
        generator = torch.Generator().manual_seed(seed)
        return {
            split: PackedGraphs.from_data_list(
                [graph(generator, level, nodes=4 + i % 5) for i in range(size)], y_level=level
            )
            for split, size in zip(("train", "val", "test"), sizes, strict=True)
        }

    return make


@pytest.fixture
def make_config():
    """``make_config(**options)``: a run of a second or less."""

    def make(**options):
        base = TrainingConfig(
            data=DataConfig(name="own graphs"),
            model=ModelConfig(hidden=8, layers=2, rank=3),
            optimizer=OptimizerConfig(max_epochs=3, batch_size=8),
            run=RunConfig(seed=7, device="cpu"),
        )
        return base.changed(**options)

    return make


@dataclass
class Kind:
    """How short runs on a problem are configured (``config(**options)``), and their data (``data(seed)``)."""

    name: str
    config: Callable[..., TrainingConfig]
    data: Callable[..., Any]


@pytest.fixture(params=["graphs", "links"])
def kind(request, make_config, make_splits):
    """Runs on graphs and on links."""
    if request.param == "graphs":
        return Kind("graphs", make_config, lambda seed=0: make_splits(seed=seed))
    return Kind("links", link_graphs.config_of, lambda seed=0: link_graphs.communities(seed=seed))


@pytest.fixture(scope="session")
def made_runs(tmp_path_factory):
    """The folder of runs that are made once for all tests."""
    return tmp_path_factory.mktemp("runs")


@pytest.fixture
def copy_run(kind, made_runs, tmp_path):
    """``copy_run(finished)``: a copy of a run of two epochs, finished or paused in the second."""

    def make(finished=True):
        source, target = made_runs / f"{kind.name}-{finished}", tmp_path / "run"
        if not source.exists():
            train(kind.config(max_epochs=1), source, data=kind.data())
            continue_run(source, data=kind.data(), max_epochs=2, time_limit=None if finished else 1e-9)
        shutil.rmtree(target, ignore_errors=True)
        return shutil.copytree(source, target)

    return make
