import json
import sys
from dataclasses import replace

import numpy as np
import pytest

from lrga.data.datasets.spec import DatasetSpec, Schedule, TaskSpec, dataset_name, dataset_specs, spec_of
from lrga.data.links.split import split_edges
from lrga.errors import OptionError
from lrga.models.link import LINK_SETS
from lrga.models.zoo import PAPER_SETS
from lrga.training import train
from lrga.training.presets import make_config
from lrga.training.problems.data import plan_run

NAMES = list(dataset_specs())


@pytest.mark.parametrize(
    ("name", "splits", "nodes", "edges"),
    [
        ("PATTERN", (10_000, 2_000, 2_000), 118.9, 6_079),
        ("CLUSTER", (10_000, 1_000, 1_000), 117.2, 4_303),
        ("ZINC", (10_000, 1_000, 1_000), 23.2, 49.8),
        ("MNIST", (55_000, 5_000, 10_000), 70.57, 564.53),
        ("CIFAR10", (45_000, 5_000, 10_000), 117.63, 941.07),
        ("TSP", (10_000, 1_000, 1_000), 275.4, 6_885),
        ("ogbl-ddi", (1_067_911, 133_489, 133_489), 4_267, 2_135_822),
        ("ogbl-collab", (1_179_052, 60_084, 46_329), 235_868, 2_358_104),
        ("ogbl-ppa", (21_231_931, 6_062_562, 3_031_780), 576_289, 42_463_862),
    ],
)
def test_published_sizes(name, splits, nodes, edges):
    spec = spec_of(name)
    assert tuple(spec.splits.values()) == splits
    assert (spec.mean_nodes, spec.mean_edges) == (nodes, edges)


@pytest.mark.parametrize("name", NAMES)
def test_every_set_says_where_it_comes_from_and_takes_its_options_back_as_json(name):
    spec = spec_of(name)
    assert tuple(spec.splits) == ("train", "val", "test")
    assert spec.obtained in ("generated", "downloaded", "built")
    assert all((spec.origin, spec.licence, spec.terms, spec.citation, spec.node_features, spec.edge_features))
    assert all(file.url.startswith("https://") for file in spec.files)
    assert bool(spec.files) == (spec.obtained != "generated")
    assert (spec.schedule is None) == spec.links
    json.dumps(spec.facts())
    defaults = spec_of(name).options()
    assert spec_of(name).options(**json.loads(json.dumps(defaults))) == defaults


@pytest.mark.parametrize("name", PAPER_SETS)
def test_the_sets_of_the_benchmark_cite_it(name):
    assert any("Benchmarking Graph Neural Networks" in citation for citation in spec_of(name).citation)


@pytest.mark.parametrize("name", ["PATTERN", "CLUSTER"])
def test_a_generated_set_says_that_it_is_a_new_sample(name):
    assert "new sample from the same distribution" in spec_of(name).note


def test_the_sets_of_table_2_predict_links():
    assert [name for name in NAMES if spec_of(name).links] == sorted(LINK_SETS)


@pytest.mark.parametrize(
    ("name", "known"),
    [("zinc", "ZINC"), ("Zinc", "ZINC"), ("OGBL-DDI", "ogbl-ddi"), ("ogbl_ddi", "ogbl-ddi"), ("my/zinc", None)],
)
def test_spelling_does_not_matter(name, known):
    assert dataset_name(name) == known


@pytest.mark.parametrize("name", ["ZINK", "", None, "ogbl-vessel"])
def test_an_unknown_name_lists_the_choices(name):
    with pytest.raises(OptionError, match=r"CIFAR10, .*ZINC, .*ogbl-ppa"):
        spec_of(name)


def test_a_schedule_changes_where_all_of_a_condition_holds():
    schedule = Schedule(variants=(({"budget": "500K", "model": "gcn"}, {"batch_size": 64}),))
    assert schedule.options(model="gcn", budget="500K")["batch_size"] == 64
    assert schedule.options(model="gcn", budget=None)["batch_size"] == 128


def test_a_new_module_with_a_spec_is_all_that_a_new_set_takes(tmp_path, monkeypatch):
    from lrga.data import datasets, load
    from lrga.training.presets import make_config

    (tmp_path / "pairs.py").write_text(
        "from dataclasses import replace\n"
        "from lrga.data.datasets.sbm import CLUSTER\n"
        "SPEC = replace(CLUSTER, name='pairs', note='')\n"
    )
    monkeypatch.setattr(datasets, "__path__", [*datasets.__path__, str(tmp_path)])
    dataset_specs.cache_clear()
    try:
        assert isinstance(spec_of("PAIRS"), DatasetSpec)
        assert len(load("pairs", tmp_path / "root", sizes=(3, 1, 1))["train"]) == 3
        assert make_config("Pairs").data.name == "pairs"
    finally:
        dataset_specs.cache_clear()
        del sys.modules["lrga.data.datasets.pairs"]


@pytest.mark.parametrize("model", ["gcn", "deepwalk", "mf"])
def test_a_new_link_set_needs_only_its_spec(monkeypatch, tmp_path, model):
    ring = np.stack([np.arange(40), (np.arange(40) + 1) % 40], axis=1)
    spec = replace(
        spec_of("ogbl-ddi"), name="ring", task=TaskSpec("prediction", "link", "hits@3"), mean_nodes=40, mean_edges=80,
        build=lambda context: split_edges(ring, None), files=(), obtained="generated", reads_source=False,
    )  # fmt: skip
    monkeypatch.setitem(dataset_specs(), "ring", spec)
    options = {"max_epochs": 1, "hidden": 8, "device": "cpu", "root": str(tmp_path)}
    config = make_config("ring", model=model, lrga=model == "gcn", **options)
    plan = plan_run(config)
    result = train(config, tmp_path / "run")
    assert (
        (result.metric, result.parameters)
        == (plan["task"]["metric"], plan["parameters"])
        == ("hits@3", result.parameters)
    )
