"""Loss and metric of a model, and fresh statistics of its norms."""

from dataclasses import replace

import pytest
import torch
from link_graphs import communities, config_of, link_trainer
from torch import nn

import lrga
from lrga.ops.neighbors.edges import EdgeLayout
from lrga.tasks import Task
from lrga.tasks.metrics import accuracy, weighted_accuracy
from lrga.training.evaluate import autocast, evaluate, in_mode, recalibrate_norm, run_model
from lrga.training.problems.architecture import resolve_link
from lrga.training.problems.links import Messages


def small_model(task="node", out=2, **options):
    return lrga.GNN(3, 8, out, 2, conv="gcn", rank=3, task=task, **options)


def test_a_metric_over_batches_is_the_mean_of_theirs_and_one_over_samples_is_not(make_splits):
    graphs, model = make_splits()["val"], small_model()
    by_batch = Task(level="node", kind="classification", out_channels=2, metric="weighted_accuracy_by_batch")
    outputs = [(run_model(model.eval(), batch), batch.y) for batch in graphs.batches(3)]
    _, found = evaluate(model, graphs, by_batch, batch_size=3)
    assert found == pytest.approx(sum(float(weighted_accuracy(o, y, 2)) for o, y in outputs) / len(outputs))
    _, found = evaluate(model, graphs, Task(level="node", kind="classification", out_channels=2), batch_size=3)
    together = accuracy(torch.cat([o for o, _ in outputs]), torch.cat([y for _, y in outputs]))
    assert found == pytest.approx(100 * float(together))


@pytest.mark.parametrize("metric", ["accuracy", "weighted_accuracy", "f1_positive", "roc_auc", "average_precision"])
def test_the_metric_of_a_set_does_not_depend_on_the_batch_size(make_splits, metric):
    graphs, model = make_splits()["val"], small_model()
    task = Task(level="node", kind="classification", out_channels=2, metric=metric)
    output = run_model(model.eval(), graphs.batch(slice(None)))
    expected = float(task.score(output, graphs.y))
    for size in (1, 3, len(graphs)):
        assert evaluate(model, graphs, task, batch_size=size)[1] == pytest.approx(expected, rel=1e-6)


def test_the_loss_is_the_mean_over_batches(make_splits):
    graphs, model, task = (
        make_splits("graph")["val"],
        small_model("graph", 1),
        Task(level="graph", kind="regression", out_channels=1),
    )
    losses = [nn.functional.l1_loss(run_model(model.eval(), b)[:, 0], b.y).item() for b in graphs.batches(3)]
    assert evaluate(model, graphs, task, batch_size=3)[0] == pytest.approx(sum(losses) / 3)


def test_evaluation_leaves_model_mode_and_statistics_as_they_were_without_gradients(make_splits):
    model = small_model(dropout=0.5).train()
    before = {name: value.clone() for name, value in model.state_dict().items()}
    first = evaluate(model, make_splits()["val"], Task(level="node", kind="classification", out_channels=2))
    assert first == evaluate(model, make_splits()["val"], Task(level="node", kind="classification", out_channels=2))
    assert model.training
    assert all(torch.equal(value, before[name]) for name, value in model.state_dict().items())
    trainer = link_trainer()
    trainer.model.train()
    evaluated(trainer)
    assert trainer.model.training
    assert all(p.grad is None for p in trainer.model.parameters())


def test_modes_of_single_modules_come_back():
    model = nn.Sequential(nn.Dropout(), nn.BatchNorm1d(2))
    model[1].eval()
    with in_mode(model, training=False):
        assert not model[0].training
    assert model[0].training
    assert not model[1].training


def test_recalibrated_statistics_are_the_plain_average_over_batches(make_splits):
    graphs, model = make_splits()["train"], small_model()
    norm = model.layers[0].norm
    seen = []
    hook = norm.register_forward_pre_hook(lambda module, args: seen.append(args[0].detach()))
    recalibrate_norm(model, graphs, batches=3, batch_size=8, generator=torch.Generator().manual_seed(1))
    hook.remove()
    assert len(seen) == 3
    torch.testing.assert_close(norm.running_mean, torch.stack([h.mean(0) for h in seen]).mean(0))
    torch.testing.assert_close(norm.running_var, torch.stack([h.var(0) for h in seen]).mean(0))
    assert norm.momentum == 0.1


def test_recalibration_changes_statistics_only_and_draws_no_dropout(make_splits):
    graphs, model = make_splits()["train"], small_model(dropout=0.5).train()
    weights = {name: value.clone() for name, value in model.named_parameters()}
    state = torch.get_rng_state()
    recalibrate_norm(model, graphs, batches=2, batch_size=8, generator=torch.Generator().manual_seed(1))
    assert torch.equal(torch.get_rng_state(), state)
    assert all(torch.equal(value, weights[name]) for name, value in model.named_parameters())
    assert all(module.training for module in model.modules())


def test_recalibration_reaches_every_batchnorm_of_every_model(make_splits):
    graphs = make_splits()["train"]
    for conv in ("gcn", "gat", "gatedgcn", "graphsage", "gin"):
        model = lrga.GNN(3, 8, 2, 2, conv=conv, rank=3, edge_channels=2)
        recalibrate_norm(model, graphs, batches=3, batch_size=8, generator=torch.Generator().manual_seed(1))
        counts = {int(m.num_batches_tracked) for m in model.modules() if isinstance(m, nn.BatchNorm1d)}
        # GatedGCN needs no edges after its last layer, so their normalisation never sees a batch
        assert counts <= {0, 3}
        assert 3 in counts


def test_a_model_without_batchnorm_has_nothing_to_recalibrate(make_splits):
    model = small_model(batch_norm=False)
    before = {name: value.clone() for name, value in model.state_dict().items()}
    recalibrate_norm(model, make_splits()["train"], batches=3, batch_size=8)
    assert all(torch.equal(value, before[name]) for name, value in model.state_dict().items())


def test_momentum_and_mode_of_norms_come_back_after_an_error(make_splits):
    model = small_model().eval()
    model.head.forward = None
    with pytest.raises(TypeError):
        recalibrate_norm(model, make_splits()["train"], batches=3, batch_size=8)
    assert {(norm.momentum, norm.training) for norm in model.modules() if isinstance(norm, nn.BatchNorm1d)} == {
        (0.1, False)
    }


def test_mixed_precision_is_on_where_asked_for():
    linear = nn.Linear(2, 2)
    with autocast(torch.device("cpu"), "bf16"):
        assert linear(torch.ones(1, 2)).dtype == torch.bfloat16
    with autocast(torch.device("cpu"), "float32"):
        assert linear(torch.ones(1, 2)).dtype == torch.float32


def evaluated(trainer):
    trainer.problem.sums.add(torch.tensor(1.0))
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
