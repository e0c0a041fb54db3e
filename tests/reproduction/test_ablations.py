"""What the tables leave to be explained, as experiments: one thing changed at a time."""

import pytest

from lrga.data.datasets.spec import spec_of
from lrga.errors import OptionError
from lrga.experiments.cell import essence, run_name
from lrga.models.budget import count_of
from lrga.nn.layers.lrga import WIRING_OF_READING
from lrga.paper.protocols import cells_of, plain_counterpart
from lrga.paper.reproduction import reproduction
from lrga.training.problems.architecture import resolve
from reproduction.ablations import PARTS, ablation_cells, ablations, width_of_heads


def parameters(cell):
    name = cell.config.data.name
    return count_of(resolve(cell.config.model, spec_of(name).inputs, dataset=name).build)


@pytest.mark.parametrize("part", PARTS)
def test_the_cells_of_a_part_are_different_runs_by_the_protocol(part):
    cells = ablation_cells(part)
    assert len({run_name(cell.config) for cell in cells}) == len(cells) > 3
    assert not any(cell.deviations() for cell in cells)  # what is changed on purpose is said by the variant
    shortened = ablation_cells(part, max_epochs=3)
    assert all(set(cell.deviations()) == {"max_epochs"} for cell in shortened)  # anything else is no protocol


@pytest.mark.parametrize("part", [part for part in PARTS if part not in ("features", "shapes", "walks")])
def test_each_part_holds_cells_of_table_1(part):
    table = {run_name(cell.config) for cell in cells_of("table1", preset="2022")}
    assert any(run_name(cell.config) in table for cell in ablation_cells(part))


def test_heads_are_compared_at_equal_parameters():
    for dataset in ("PATTERN", "CLUSTER"):
        cells = ablation_cells("heads", dataset=dataset)
        counts = [parameters(cell) for cell in cells]
        assert [cell.config.model.attention_heads for cell in cells] == [1, 2, 5, 2, 4]
        assert counts[0] == counts[1] == counts[2]
        assert all(abs(count / counts[0] - 1) < 0.01 for count in counts)
        assert [cell.published is not None for cell in cells] == [True, False, False, False, False]
    assert width_of_heads("PATTERN", 1) == 100


def test_options_of_the_attention_change_nothing_else():
    for dataset in ("PATTERN", "CLUSTER", "ZINC"):
        plain, paper, *others = ablation_cells("attention", dataset=dataset, seeds=(41, 95, 12))
        assert [cell.labels["variant"] for cell in others] == ["qk_norm", "rms", "gate", "qk_norm and gate"]
        assert not plain.config.model.lrga
        counts = [parameters(cell) - parameters(paper) for cell in others]
        layers = resolve(paper.config.model, spec_of(dataset).inputs, dataset=dataset).num_layers
        assert counts == [0, 0, layers, layers]  # one number for the head of each layer
        for cell in others:
            back = cell.config.changed(normalize="graph", qk_norm=False, gate=False)
            assert back == paper.config != cell.config
            assert cell.published is None
            assert cell.seeds == (41, 95, 12)


def test_features_are_fresh_held_or_the_sets_own():
    cells = ablation_cells("features", model="gcn", lrga=True)
    found = [(cell.config.model.random_features, cell.config.model.resample_features) for cell in cells]
    assert found == [(True, True), (True, False), (False, True)]
    assert essence(cells[2].config) == essence(plain_counterpart("gcn", lrga=True, preset="2022").config)


def test_cells_can_be_asked_for_by_budget():
    found = ablation_cells("presets", dataset="PATTERN", model="gcn", budget="100k")
    assert [(cell.labels["budget"], cell.labels["variant"]) for cell in found] == [
        ("100K", "preset 2022"), ("100K", "preset 2020"), ("100K", "preset 2022"), ("100K", "preset 2020"),
    ]  # fmt: skip


def test_gat_has_its_norm_inside_or_after_the_mixture():
    found = ablation_cells("wirings", dataset="ZINC", model="gat")
    assert [cell.config.model.wiring for cell in found] == [*WIRING_OF_READING.values(), "outer-norm"]
    assert len({parameters(cell) for cell in found}) == 1


def test_only_zincs_patience_differs_between_the_presets():
    zinc = ablation_cells("presets", dataset="ZINC", model="gcn", lrga=False)
    assert [(cell.labels["budget"], cell.config.model.preset, cell.config.optimizer.patience) for cell in zinc] == [
        ("100K", "2022", 10), ("100K", "2020", 5), ("100K", "2020", 10), ("500K", "2022", 10), ("500K", "2020", 5),
    ]  # fmt: skip
    rest = ablation_cells("presets", dataset="PATTERN")
    assert {cell.config.optimizer.patience for cell in rest} == {5}


def test_vectors_learn_from_fewer_and_more_walks_than_the_protocols():
    cells = ablation_cells("walks")
    found = [(cell.config.model.model, cell.config.link.walk_epochs) for cell in cells]
    assert found == [
        ("node2vec", 30),
        ("node2vec", 100),
        ("node2vec", 300),
        ("deepwalk", 1),
        ("deepwalk", 5),
        ("deepwalk", 20),
    ]
    table = {run_name(cell.config) for cell in cells_of("table2", dataset="ogbl-ddi")}
    assert [run_name(cell.config) in table for cell in cells] == [False, True, False, False, True, False]
    assert all(cell.seeds == (0, 1, 2) and cell.published is not None for cell in cells)
    assert len(ablation_cells(dataset="ogbl-ddi", model="Node2Vec")) == 3
    with pytest.raises(OptionError, match="none with dataset=ogbl-ddi, budget=500k"):
        ablation_cells("walks", dataset="ogbl-ddi", budget="500k")


def test_of_all_parts_an_option_goes_to_those_that_read_it():
    everything, graphs = set(PARTS), set(PARTS) - {"walks"}
    for options, expected in (
        ({}, everything),
        ({"max_epochs": 3, "batch_norm": None, "data_options": {"sizes": None}}, everything),
        ({"batch_norm": False}, graphs),
        ({"backend": "dense"}, graphs),
        ({"data_options": {"sizes": (8, 4, 4)}}, graphs),
        ({"walk_lr": 0.1}, {"walks"}),
    ):
        assert {cell.labels["part"] for cell in ablation_cells(**options)} == expected
    with pytest.raises(OptionError, match="--set batch_norm: "):
        ablation_cells("walks", batch_norm=False)


@pytest.mark.parametrize("wrong", [{"lr": -1.0}, {"preset": "2019"}, {"wiring": "Z"}, {"walk_lr": -1.0}, {"depth": 3}])
def test_what_no_part_takes_is_refused_though_some_parts_set_it_themselves(wrong):
    with pytest.raises(OptionError, match=next(iter(wrong))):
        ablation_cells(**wrong)


def test_shapes_are_compared_at_equal_parameters():
    for model in ("graphsage", "gin"):
        cells = ablation_cells("shapes", model=model)
        counts = [parameters(cell) for cell in cells]
        assert [cell.labels["variant"].split()[0] for cell in cells] == ["8", "4", "16"]
        assert all(abs(count / counts[0] - 1) < 0.01 for count in counts)
        assert run_name(cells[0].config) in {run_name(cell.config) for cell in cells_of("table3", preset="2022")}


@pytest.mark.parametrize("model", ["gcn", "gatedgcn"])
def test_draws_leave_the_default_draw_alone(model):
    cells = ablation_cells("draws", dataset="PATTERN", model=model, lrga=True)
    assert [dict(cell.config.data.options) for cell in cells] == [{}, {"seed": 42}, {"seed": 43}]


def test_table_3_has_a_plain_counterpart_for_each_of_its_ten_cells():
    study = reproduction("table3", plain=True, seeds=[41, 95])
    assert len(study.cells) == 10
    assert not any(cell.config.model.random_features for cell in study.cells)
    assert {cell.seeds for cell in study.cells} == {(41, 95)}
    assert [cell.config.model.model for cell in study.cells] == [
        cell.config.model.model for cell in reproduction("table3").cells
    ]


def test_table_3_alone_has_a_plain_counterpart():
    with pytest.raises(OptionError, match="plain"):
        reproduction("table1", plain=True)


@pytest.mark.parametrize(
    "filters",
    [
        {"only": "tails"},
        {"budget": "300K"},
        {"budget": 100_000},
        {"only": "draws", "budget": "500K"},
        {"only": "edges", "dataset": "PATTERN"},
    ],
)
def test_what_does_not_fit_is_refused_with_the_choices(filters):
    with pytest.raises(OptionError):
        ablations(**filters)
