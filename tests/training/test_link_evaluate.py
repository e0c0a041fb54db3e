import sys
from dataclasses import replace
from pathlib import Path

import pytest
import torch

sys.path.insert(0, str(Path(__file__).parent))
from link_graphs import communities, config_of

from lrga.kernels.edges import EdgeLayout
from lrga.tasks.link import LinkTask
from lrga.training.problems.link_architecture import resolve_link
from lrga.training.problems.link_evaluate import Messages, evaluate_links


def made(**options):
    data = communities()
    model = resolve_link(config_of(**options), data).build()
    return data, model, Messages.of(data, conv="gcn", weighted=True)


def test_numbers_are_those_of_all_pairs_at_once_whatever_the_batch():
    data, model, messages = made()
    task = LinkTask(metric="auc")
    small = evaluate_links(model, data, task, messages=messages, train_edges=data.edge[:9], batch_size=7)
    large = evaluate_links(model, data, task, messages=messages, train_edges=data.edge[:9])
    for split in ("train", "val", "test"):
        torch.testing.assert_close(torch.tensor(small[split]), torch.tensor(large[split]))
    model.eval()
    h = model.encode(None, data.edge_index)
    with torch.no_grad():
        positive, negative = (model.score(h, p.t()) for p in (data.splits["test"].edge, data.splits["test"].edge_neg))
    torch.testing.assert_close(large["test"][1], float(task.score(positive, negative)), rtol=1e-6, atol=1e-6)


def test_evaluation_leaves_the_model_in_its_mode_and_without_gradients():
    data, model, messages = made()
    model.train()
    evaluate_links(model, data, LinkTask(metric="auc"), messages=messages)
    assert model.training
    assert all(p.grad is None for p in model.parameters())


def test_validation_edges_change_the_test_alone():
    data, model, messages = made()
    more = Messages.of(data, conv="gcn", weighted=True, with_validation=True)
    without = evaluate_links(model, data, LinkTask(metric="auc"), messages=messages)
    known = evaluate_links(model, data, LinkTask(metric="auc"), messages=messages, test_messages=more)
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
