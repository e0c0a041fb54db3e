"""The exact counts of the paper's networks, and of the benchmark's."""

import pytest
import torch

from lrga.data.datasets.spec import spec_of
from lrga.errors import OptionError
from lrga.models.budget import count_of, solve_width
from lrga.models.zoo import PAPER_SETS, build_model, published_shape

# Counts of the 33 LRGA cells; the columns are PATTERN, CLUSTER, ZINC, MNIST, CIFAR10, TSP.
LRGA = {
    ("gcn", "100K"): (90_827, 91_131, 92_311, 91_015, 91_135, 97_652),
    ("gat", "100K"): (90_587, 90_891, 92_071, 90_775, 90_895, 97_412),
    ("gatedgcn", "100K"): (93_254, 93_482, 94_457, 93_395, 93_485, 97_118),
    ("gcn", "500K"): (396_437, 396_941, 501_570, 463_377, 463_597),
    ("gat", "500K"): (533_672, 267_051, 536_641, 476_438, 476_662),
    ("gatedgcn", "500K"): (486_742, 437_635, 446_311, 486_990, 487_150),
}
# The benchmark's own published counts (its tables of results).
PLAIN = {
    ("gcn", "100K"): (100_923, 101_655, 103_077, 101_365, 101_657, 95_702),
    ("gat", "100K"): (109_936, 110_700, 102_385, 110_400, 110_704, 96_182),
    ("gatedgcn", "100K"): (104_003, 104_355, 105_875, 104_217, 104_357, 97_858),
    ("graphsage", "100K"): (101_739, 102_187, None, 104_337, 104_517, 99_263),
    ("gin", "100K"): (100_884, 103_544, 103_079, 105_434, 105_654, 99_002),
    ("gcn", "500K"): (500_823, 501_687, 505_079),
    ("gat", "500K"): (526_990, 527_874, 531_345),
    ("gatedgcn", "500K"): (502_223, 502_615, 504_309),
    ("graphsage", "500K"): (502_842, 503_350, 505_341),
    ("gin", "500K"): (508_574, 517_570, 509_549),
}


@pytest.mark.parametrize(("lrga", "table"), [(True, LRGA), (False, PLAIN)])
def test_counts_are_exactly_the_published_ones(lrga, table):
    for (model, budget), counts in table.items():
        for dataset, expected in zip(PAPER_SETS, counts, strict=False):
            if expected is not None:
                found = count_of(lambda d=dataset, m=model, b=budget: build_model(d, m, budget=b, lrga=lrga))
                assert found == expected, (dataset, model, budget)
    assert sum(len(counts) for counts in LRGA.values()) == 33


@pytest.mark.parametrize(
    ("model", "low", "high", "multiple_of"),
    [("gcn", 504_000, 504_999, 1), ("gat", 441_000, 441_999, 8), ("gatedgcn", 500_000, 500_999, 1)],
)
def test_widths_of_unpublished_superpixel_networks_are_the_solvers(model, low, high, multiple_of):
    def build(width):
        return build_model("MNIST", model, budget="500K", lrga=False, hidden=width)

    width = solve_width((low + high) // 2, build, multiple_of=multiple_of)
    assert low <= count_of(lambda: build(width)) <= high
    assert width == published_shape("MNIST", model, budget="500K", lrga=False).hidden


def cells_without_a_shape():
    """Every model and every budget at least once; all pairs with the slow tests."""
    often = {("gcn", "500K"), ("gatedgcn", "500K"), ("graphsage", 250_000)}
    for model in ("gcn", "gat", "gatedgcn", "graphsage", "gin"):
        for dataset, budget in (("TSP", "500K"), ("TSP", 250_000), ("PATTERN", 250_000)):
            fast = model in ("gat", "gin") if dataset == "PATTERN" else (model, budget) in often
            yield pytest.param(model, dataset, budget, marks=() if fast else pytest.mark.slow)


@pytest.mark.parametrize(("model", "dataset", "budget"), list(cells_without_a_shape()))
def test_what_has_no_published_shape_meets_its_budget(model, dataset, budget):
    assert published_shape(dataset, model, budget=budget, lrga=True) is None
    with torch.device("meta"):
        network = build_model(dataset, model, budget=budget)
    target = 500_000 if budget == "500K" else budget
    assert network.num_layers == 8
    assert network.num_parameters == pytest.approx(target, rel=0.04)


def test_names_are_taken_in_any_spelling_and_options_vary_a_cell():
    with torch.device("meta"):
        assert build_model("pattern", "Gated-GCN", budget="100k").num_parameters == 93_254
        assert build_model("Pattern", "SAGE", lrga=False).num_parameters == 101_739
    with torch.device("meta"):
        assert (
            build_model("CLUSTER", "gcn", budget="500K", rank=0).num_parameters
            == 396_941 - 8 * 60 * 100 - 8 * 120 * 101
        )
        assert build_model("ZINC", "gatedgcn", lrga=False, edge_features=False).num_parameters == 105_735
        options = {"preset": "2020", "wiring": "norm-first", "dropout": 0.1}
        narrow = build_model("MNIST", "gat", hidden=32, layers=3, heads=2, **options)
        random = build_model("PATTERN", "gcn", budget="500K", random_features=True)
    assert (narrow.hidden_channels, narrow.num_layers, narrow.preset, narrow.wiring) == (32, 3, "2020", "norm-first")
    assert random.num_parameters == 396_437 - 3 * 100


@pytest.mark.parametrize("dataset", PAPER_SETS)
@pytest.mark.parametrize("lrga", [True, False])
def test_a_network_takes_the_data_of_its_set(dataset, lrga):
    model = build_model(dataset, "gatedgcn", lrga=lrga)
    facts = spec_of(dataset).inputs
    x = torch.randint(0, facts.in_channels, (6,)) if facts.encoder == "embedding" else torch.rand(6, facts.in_channels)
    edge_index = torch.randint(0, 6, (2, 12))
    edge_attr = torch.randint(0, 4, (12,)) if facts.edge_encoder == "embedding" else torch.rand(12, 1)
    out = model(x, edge_index, edge_attr, torch.tensor([0, 0, 0, 1, 1, 1]), 2)
    assert out.shape == ({"node": 6, "graph": 2, "edge": 12}[facts.task], facts.out_channels)


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ({"dataset": "imagenet"}, "TSP, CIFAR10, MNIST"),
        ({"dataset": "ogbl-ddi"}, "build_link_model"),
        ({"model": "transformer"}, "gcn, gat, gatedgcn, graphsage, gin"),
        ({"budget": "1M"}, "100K, 500K or a number"),
        ({"budget": 0}, "budget"),
    ],
)
def test_unknown_names_are_refused_with_the_choices(arguments, says):
    with pytest.raises(OptionError, match=says):
        build_model(**({"dataset": "ZINC"} | arguments))
