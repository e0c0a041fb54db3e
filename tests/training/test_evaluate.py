"""Evaluation: averages as the protocol has them, modes and statistics left as they should be."""

import pytest
import torch
from torch import nn

import lrga
from lrga.tasks import Task
from lrga.tasks.metrics import accuracy, weighted_accuracy
from lrga.training.evaluate import autocast, evaluate, in_mode, recalibrate_norm, run_model


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


def test_evaluation_leaves_model_and_statistics_as_they_were(make_splits):
    model = small_model(dropout=0.5).train()
    before = {name: value.clone() for name, value in model.state_dict().items()}
    first = evaluate(model, make_splits()["val"], Task(level="node", kind="classification", out_channels=2))
    assert first == evaluate(model, make_splits()["val"], Task(level="node", kind="classification", out_channels=2))
    assert model.training
    assert all(torch.equal(value, before[name]) for name, value in model.state_dict().items())


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


def test_mixed_precision_is_on_where_asked_for():
    linear = nn.Linear(2, 2)
    with autocast(torch.device("cpu"), "bf16"):
        assert linear(torch.ones(1, 2)).dtype == torch.bfloat16
    with autocast(torch.device("cpu"), "float32"):
        assert linear(torch.ones(1, 2)).dtype == torch.float32
