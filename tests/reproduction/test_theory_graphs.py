"""Graphs that are one to 1-WL, learned with and without random features."""

import numpy as np
import pytest
import torch

from lrga.theory import zoo
from lrga.theory.trained import CLASS_NETWORKS, CSL, TRAINED_CLAIMS, TrainingRecord
from reproduction.theory.experiments import train_experiment
from reproduction.theory.graphs import ClassesConfig, copies_of, network_of

JUDGE = next(claim.judge for claim in TRAINED_CLAIMS if claim.key == CSL)


def test_copies_are_labelled_by_their_graph_and_isomorphic_to_it():
    graphs = zoo()["hexagon-triangles"].graphs
    packed = copies_of(graphs, 3, np.random.default_rng(0))
    assert packed.y is not None
    assert packed.y.view(-1).tolist() == [0, 0, 0, 1, 1, 1]
    for data in packed.to_data_list():
        matrix = torch.zeros(6, 6)
        matrix[tuple(data.edge_index)] = 1
        assert torch.trace(matrix @ matrix @ matrix) == 12 * int(data.y)  # two triangles, six closed walks each


def test_networks_have_equally_many_parameters():
    config = ClassesConfig()
    plain, random, augmented = (network_of(name, config, 10).num_parameters for name in CLASS_NETWORKS)
    assert random <= augmented
    assert random / augmented > 0.95
    assert plain / augmented > 0.95


@pytest.fixture(scope="module")
def skip_links() -> TrainingRecord:
    config = ClassesConfig(copies=(4, 4), epochs=4, every=2, hidden_channels=16, rank=4, num_layers=2)
    return train_experiment(CSL, config)


@pytest.mark.parametrize("split", ["train", "test"])
def test_a_gnn_answers_all_skip_links_alike_and_stays_at_ten_percent(skip_links, split):
    assert skip_links.mean(f"{CSL}: GNN, {split}") == pytest.approx([10.0, 10.0])


def test_an_rgnn_does_not_answer_them_all_alike():
    torch.manual_seed(0)
    packed = copies_of(zoo()[CSL].graphs, 2, np.random.default_rng(0))
    batch = packed.batch(torch.arange(20))
    answers = {}
    for name in CLASS_NETWORKS:
        network = network_of(name, ClassesConfig(hidden_channels=16, rank=4), 10).eval()
        with torch.no_grad():
            out = network(batch.x, batch.edges, None, batch.batch, batch.num_graphs)
        answers[name] = float((out - out[0]).abs().max())
    assert answers["GNN"] < 1e-6  # rounding
    assert min(answers["RGNN"], answers["RGNN + LRGA"]) > 1e-4  # not rounding


@pytest.mark.slow
def test_an_rgnn_learns_hexagon_and_triangles_where_a_gnn_cannot():
    config = ClassesConfig(entries=("hexagon-triangles",), copies=(100, 100), num_layers=3, epochs=25, every=25)
    record = train_experiment(CSL, config)
    final = {name: record.mean(f"hexagon-triangles: {name}, test")[-1] for name in CLASS_NETWORKS}
    assert final["GNN"] == 50
    assert min(final["RGNN"], final["RGNN + LRGA"]) > 65


def test_a_gnn_off_chance_or_an_rgnn_at_chance_is_judged_so(skip_links):
    assert not JUDGE(_with(skip_links, gnn=10.5, rgnn=40.0)).holds
    assert not JUDGE(_with(skip_links, gnn=10.0, rgnn=14.0)).holds
    assert JUDGE(_with(skip_links, gnn=10.0, rgnn=40.0)).holds


def _with(record: TrainingRecord, *, gnn: float, rgnn: float) -> TrainingRecord:
    values = record.to_json()
    curves = {
        f"{CSL}: {name}, {split}": [[gnn if name == "GNN" else rgnn] * 2]
        for name in CLASS_NETWORKS
        for split in ("train", "test")
    }
    values["metrics"] = {**values["metrics"], "curves": curves}
    return TrainingRecord.from_json(values)
