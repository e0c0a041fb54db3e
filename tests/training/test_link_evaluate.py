import sys
from pathlib import Path

import torch

sys.path.insert(0, str(Path(__file__).parent))
from link_graphs import communities, config_of

from lrga.tasks.link import LinkTask
from lrga.training.link_architecture import resolve_link
from lrga.training.link_evaluate import Messages, evaluate_links


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
