"""Networks resolved to the last number, and saved."""

import pytest

from lrga.data.datasets.spec import Inputs, spec_of
from lrga.errors import CheckpointError, OptionError
from lrga.models.budget import count_of
from lrga.models.zoo import build_model
from lrga.paper.printed import published
from lrga.training.config import ModelConfig
from lrga.training.presets import make_config
from lrga.training.problems.architecture import LinkArchitecture, resolve, resolve_link

CELLS = [cell for cell in published() if cell.table == 1 and cell.dataset in ("PATTERN", "ZINC", "TSP")]


@pytest.mark.parametrize("cell", CELLS, ids=lambda c: f"{c.dataset}-{c.model}-{c.lrga}-{c.budget}")
def test_a_cell_of_the_paper_is_the_zoo_s_network(cell):
    config = ModelConfig(model=cell.model, budget=cell.budget, lrga=cell.lrga)
    ours = resolve(config, spec_of(cell.dataset).inputs, dataset=cell.dataset)
    theirs = count_of(lambda: build_model(cell.dataset, cell.model, budget=cell.budget, lrga=cell.lrga))
    assert count_of(ours.build) == theirs


def test_a_network_without_a_published_shape_meets_its_budget():
    inputs = Inputs("graph", 3, "linear", 9, "ones", 1)
    for model in ("gcn", "gat", "gin"):
        count = count_of(resolve(ModelConfig(model=model, budget=60_000), inputs).build)
        assert abs(count - 60_000) < 6_000


def test_given_shapes_win_and_edge_features_can_be_left_out():
    made = resolve(ModelConfig(hidden=12, layers=3, lrga=False), spec_of("ZINC").inputs, dataset="ZINC")
    assert (made.hidden_channels, made.num_layers, made.rank) == (12, 3, None)
    made = resolve(ModelConfig(model="gatedgcn", edge_features=False), spec_of("ZINC").inputs, dataset="ZINC")
    assert (made.edge_encoder, made.edge_channels) == ("ones", 1)


NETWORKS = [resolve(ModelConfig(), spec_of("ZINC").inputs, dataset="ZINC"), resolve_link(make_config("ogbl-ddi"))]


@pytest.mark.parametrize("made", NETWORKS, ids=["graphs", "links"])
def test_an_architecture_survives_json_and_a_foreign_one_is_refused(made):
    values = made.to_json()
    assert type(made).from_json(values) == made
    with pytest.raises(CheckpointError, match="colour"):
        type(made).from_json(values | {"colour": 1})
    del values["dropout"]
    with pytest.raises(CheckpointError, match="dropout"):
        type(made).from_json(values)


def test_a_width_that_heads_do_not_divide_is_refused():
    made = resolve(ModelConfig(model="gat", hidden=10, heads=4), spec_of("ZINC").inputs, dataset="ZINC")
    with pytest.raises(OptionError, match="multiple"):
        made.build()


COUNTS = {
    ("ogbl-ddi", "gcn", True): 1_576_081, ("ogbl-collab", "gcn", True): 1_069_489, ("ogbl-ppa", "gcn", True): 814_249,
    ("ogbl-ddi", "gcn", False): 1_289_985, ("ogbl-collab", "graphsage", False): 460_289,
    ("ogbl-ppa", "gcn", False): 278_529, ("ogbl-ddi", "node2vec", False): 645_249,
}  # fmt: skip


@pytest.mark.parametrize(("dataset", "model", "lrga"), COUNTS)
def test_a_run_has_exactly_the_published_number_of_parameters(dataset, model, lrga):
    network = resolve_link(make_config(dataset, model=model, lrga=lrga))
    assert count_of(network.build) == COUNTS[dataset, model, lrga]
    assert LinkArchitecture.from_json(network.to_json()) == network
