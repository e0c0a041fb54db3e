import sys
from dataclasses import replace
from pathlib import Path

import pytest
import torch

sys.path.insert(0, str(Path(__file__).parent))
from link_graphs import communities, config_of, link_trainer

from lrga.kernels.edges import EdgeLayout
from lrga.training.problems.link_architecture import resolve_link
from lrga.training.problems.links import Messages


def evaluated(trainer):
    trainer.problem.loss.add(torch.tensor(1.0))
    return trainer.problem.evaluate(trainer)


def test_numbers_are_those_of_all_pairs_at_once_whatever_the_batch():
    small, large = (evaluated(link_trainer(eval_batch_size=size)) for size in (7, 10_000))
    for split in ("train", "val", "test"):
        torch.testing.assert_close(torch.tensor(small[split]), torch.tensor(large[split]))
    problem = link_trainer().problem
    data, model = problem.data, problem.model.eval()
    h = model.encode(None, data.edge_index)
    with torch.no_grad():
        positive, negative = (model.score(h, p.t()) for p in (data.splits["test"].edge, data.splits["test"].edge_neg))
    expected = float(problem.task.score(positive, negative))
    torch.testing.assert_close(large["test"][1], expected, rtol=1e-6, atol=1e-6)


def test_evaluation_leaves_the_model_in_its_mode_and_without_gradients():
    trainer = link_trainer()
    trainer.model.train()
    evaluated(trainer)
    assert trainer.model.training
    assert all(p.grad is None for p in trainer.model.parameters())


def test_validation_edges_change_the_test_alone():
    without, known = (evaluated(link_trainer(validation_edges=used)) for used in (False, True))
    assert known["val"] == without["val"]
    assert known["test"] != without["test"]


@pytest.mark.parametrize("conv", ["gcn", "graphsage", "gat", "gin"])
@pytest.mark.parametrize("weighted", [False, True])
def test_edges_from_a_node_to_itself_count_as_pyg_counts_them_without_a_message_for_each_edge(conv, weighted):
    data = communities()
    edge = torch.cat([data.edge, torch.tensor([[3, 3], [5, 5], [5, 5]])])
    weight = torch.rand(edge.size(0)) + 0.5 if weighted else None
    splits = {**data.splits, "train": replace(data.splits["train"], edge=edge, weight=weight)}
    data = replace(data, edge=edge, edge_weight=weight, splits=splits)
    torch.manual_seed(0)
    model = resolve_link(config_of(model=conv), data).build().eval()
    messages = Messages.of(data, conv=conv, weighted=weighted)
    assert isinstance(messages.edges, EdgeLayout) == (conv != "gcn" or not weighted)
    graph = data.graph(weighted=weighted and conv == "gcn")
    with torch.no_grad():
        expected = model.encode(None, graph.layout.edge_index, graph.weight)
        torch.testing.assert_close(messages.encode(model), expected, rtol=1e-5, atol=1e-5)
