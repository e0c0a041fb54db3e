"""Networks resolved from a configuration are the zoo's."""

import pytest

from lrga.bench.paper import published
from lrga.data.datasets.spec import Inputs, spec_of
from lrga.errors import CheckpointError, OptionError
from lrga.models.budget import count_of
from lrga.models.zoo import build_model
from lrga.training.architecture import Architecture, resolve
from lrga.training.config import ModelConfig

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


def test_given_shapes_win():
    made = resolve(ModelConfig(hidden=12, layers=3, lrga=False), spec_of("ZINC").inputs, dataset="ZINC")
    assert (made.hidden_channels, made.num_layers, made.rank) == (12, 3, None)


def test_edge_features_can_be_left_out():
    made = resolve(ModelConfig(model="gatedgcn", edge_features=False), spec_of("ZINC").inputs, dataset="ZINC")
    assert (made.edge_encoder, made.edge_channels) == ("ones", 1)


def test_an_architecture_survives_json_and_a_foreign_one_is_refused():
    made = resolve(ModelConfig(), spec_of("ZINC").inputs, dataset="ZINC")
    assert Architecture.from_json(made.to_json()) == made
    with pytest.raises(CheckpointError, match="colour"):
        Architecture.from_json(made.to_json() | {"colour": 1})


def test_a_width_that_heads_do_not_divide_is_refused():
    made = resolve(ModelConfig(model="gat", hidden=10, heads=4), spec_of("ZINC").inputs, dataset="ZINC")
    with pytest.raises(OptionError, match="multiple"):
        made.build()
