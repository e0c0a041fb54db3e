"""The same network with and without LRGA, at equal budget, on named and on own data."""

import pytest
import torch
from torch_geometric.data import Data

import lrga
from lrga.errors import OptionError
from lrga.experiments.comparison import comparison
from lrga.paper.reference import THE_PAPER


def test_both_networks_have_the_shapes_of_the_budget():
    plan = comparison("CLUSTER", "gcn", budget="100k", reference=THE_PAPER).plan("nowhere").to_json()["cells"]
    shapes = [(c["lrga"], c["hidden"], c["layers"], c["rank"], c["parameters"]) for c in plan]
    assert shapes == [(False, 146, 4, None, 101_655), (True, 60, 4, 30, 91_131)]
    assert [c["published"]["mean"] for c in plan] == [53.44, 68.44]


def test_the_protocol_is_the_papers_but_for_what_is_changed():
    study = comparison("TSP", "gat", seeds=[9], max_epochs=3, reference=THE_PAPER)
    assert {cell.config.optimizer.batch_size for cell in study.cells} == {64}
    assert [cell.deviations() for cell in study.cells] == [{"max_epochs": (3, 500)}] * 2


def test_random_features_stand_beside_table_3_and_other_shapes_beside_nothing():
    random = comparison("PATTERN", "gin", budget="500K", random_features=True, reference=THE_PAPER)
    assert [cell.published.mean for cell in random.cells] == [85.760, 86.765]
    assert all(cell.published is None for cell in comparison("PATTERN", hidden=32, reference=THE_PAPER).cells)
    other_rank = comparison("PATTERN", rank=5, reference=THE_PAPER)
    assert [cell.published is None for cell in other_rank.cells] == [False, True]


def test_a_given_width_is_named_in_place_of_the_budget():
    study = comparison("ZINC", hidden=64)
    assert study.title.endswith("both of width 64")
    assert [set(cell.labels) for cell in study.cells] == [{"dataset", "model"}] * 2


def test_a_recipe_gives_both_networks_its_options_and_its_budget():
    plan = comparison("CLUSTER", recipe="modern").plan("nowhere").to_json()["cells"]
    assert [cell["model"] for cell in plan] == ["GatedGCN"] * 2
    assert all(400_000 < cell["parameters"] <= 500_000 for cell in plan)
    assert all(cell["optimizer"]["optimizer"] == "adamw" for cell in plan)


def test_lrga_itself_is_not_an_option_and_seeds_are_several():
    with pytest.raises(OptionError, match="the option lrga"):
        comparison("PATTERN", lrga=False)
    with pytest.raises(OptionError, match="use seeds"):
        comparison("PATTERN", seed=3)


def test_compare_trains_both_and_says_what_lrga_adds(tiny, tmp_path):
    table = lrga.experiments.compare("CLUSTER", seeds=[41, 95], output=tmp_path, progress=False, **tiny)
    assert [row.spread().n for row in table.rows] == [2, 2]
    change = table.rows[1].spread().mean - table.rows[0].spread().mean
    assert table.notes[0].startswith(f"With LRGA, weighted accuracy (%) changes by {change:+.2f} (95 % CI ")
    assert table.notes[0].endswith(("2 pairs of seeds): better.", "pairs of seeds): no clear difference.", "worse."))
    assert any("new sample" in note for note in table.notes)


def test_own_graphs_are_compared_at_a_budget_of_parameters(tmp_path):
    generator = torch.Generator().manual_seed(0)
    ring = torch.tensor([[0, 1, 2, 3, 1, 2, 3, 0], [1, 2, 3, 0, 0, 1, 2, 3]])
    graphs = [
        Data(x=torch.randn(4, 2, generator=generator), edge_index=ring, y=torch.rand(1, generator=generator))
        for _ in range(12)
    ]
    data = {"train": graphs[:6], "val": graphs[6:9], "test": graphs[9:]}
    table = lrga.experiments.compare(
        "mine", "gin", budget=3000, data=data, output=tmp_path, progress=False, max_epochs=2, device="cpu", layers=1
    )
    assert table.complete
    assert [row.metric.name for row in table.rows] == ["MAE", "MAE"]
    assert all(abs(row.parameters - 3000) < 600 for row in table.rows)
    assert "paper" not in table.to_text().splitlines()[1]
