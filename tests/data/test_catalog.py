import pytest

from lrga.data.datasets.building import BUILDERS
from lrga.data.datasets.catalog import CATALOG, dataset_facts
from lrga.errors import OptionError


def test_the_six_sets_of_the_benchmark_are_known():
    assert list(CATALOG) == ["PATTERN", "CLUSTER", "ZINC", "MNIST", "CIFAR10", "TSP"]
    assert set(CATALOG) == set(BUILDERS)


@pytest.mark.parametrize(
    ("name", "splits", "nodes", "edges"),
    [
        ("PATTERN", (10_000, 2_000, 2_000), 118.9, 6_079),
        ("CLUSTER", (10_000, 1_000, 1_000), 117.2, 4_303),
        ("ZINC", (10_000, 1_000, 1_000), 23.2, 49.8),
        ("MNIST", (55_000, 5_000, 10_000), 70.57, 564.53),
        ("CIFAR10", (45_000, 5_000, 10_000), 117.63, 941.07),
        ("TSP", (10_000, 1_000, 1_000), 275.4, 6_885),
    ],
)
def test_published_sizes(name, splits, nodes, edges):
    facts = CATALOG[name]
    assert tuple(facts.splits.values()) == splits
    assert tuple(facts.splits) == ("train", "val", "test")
    assert (facts.mean_nodes, facts.mean_edges) == (nodes, edges)


@pytest.mark.parametrize("name", CATALOG)
def test_every_set_says_where_it_comes_from_under_which_terms_and_whom_to_cite(name):
    facts = CATALOG[name]
    assert facts.obtained in ("generated", "downloaded", "built")
    assert facts.origin
    assert facts.licence
    assert facts.terms
    assert any("Benchmarking Graph Neural Networks" in citation for citation in facts.citation)
    assert (facts.classes is None) == ("regression" in facts.task)
    assert all(file.url.startswith("https://") for file in facts.files)
    assert bool(facts.files) == (facts.obtained != "generated")


@pytest.mark.parametrize("name", ["PATTERN", "CLUSTER", "TSP"])
def test_a_generated_set_says_that_it_is_a_fresh_draw(name):
    assert "fresh draw of the same distribution" in CATALOG[name].note


@pytest.mark.parametrize("name", ["zinc", "Zinc", "ZINC"])
def test_case_does_not_matter(name):
    assert dataset_facts(name).name == "ZINC"


@pytest.mark.parametrize("name", ["ZINK", "", None])
def test_an_unknown_name_lists_the_choices(name):
    with pytest.raises(OptionError, match="PATTERN, CLUSTER, ZINC, MNIST, CIFAR10, TSP"):
        dataset_facts(name)
