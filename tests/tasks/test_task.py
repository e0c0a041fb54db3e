"""Tasks: what is predicted, of named sets, of one's own, and of links."""

import pytest
import torch
from torch_geometric.data import Data

from lrga.data.packed import PackedGraphs
from lrga.errors import DataError, OptionError, ShapeError
from lrga.tasks import Task
from lrga.tasks.metrics import auc, hits_at_k, mrr
from lrga.tasks.task import METRICS, LinkTask, task_of

PATH = torch.tensor([[0, 1, 1], [1, 0, 2]])


def batch_of(level, y, count=2, **more):
    data = [Data(x=torch.ones(3, 2), edge_index=PATH, y=y, **more) for _ in range(count)]
    return PackedGraphs.from_data_list(data, y_level=level).batch(slice(None))


def test_a_task_reads_the_targets_of_its_level():
    nodes = batch_of("node", torch.tensor([0, 1, 2]))
    scores, targets = Task(level="node", kind="classification", out_channels=3).select(torch.zeros(6, 3), nodes)
    assert scores.shape == (6, 3)
    assert targets.tolist() == [0, 1, 2, 0, 1, 2]
    edges = batch_of("edge", torch.tensor([1, 0, 1]))
    _, targets = Task(level="edge", kind="classification", out_channels=2).select(torch.zeros(6, 2), edges)
    assert targets.tolist() == edges.y.tolist()


def test_several_targets_and_labels_of_a_graph_stay_side_by_side():
    graphs = batch_of("graph", torch.tensor([[1.0, 2.0]]))
    scores, targets = Task(level="graph", kind="regression", out_channels=2).select(torch.zeros(2, 2), graphs)
    assert targets.tolist() == [[1.0, 2.0], [1.0, 2.0]]
    assert float(Task(level="graph", kind="regression", out_channels=2).loss_of(scores, targets)) == 1.5
    assert float(Task(level="graph", kind="regression", out_channels=2).score(scores, targets)) == 1.5
    graphs = batch_of("graph", torch.tensor([[1.0, float("nan")]]))
    task = Task(level="graph", kind="multilabel", out_channels=2)
    scores, targets = task.select(torch.zeros(2, 2), graphs)
    assert targets.shape == (2, 2)
    assert float(task.loss_of(scores, targets)) == pytest.approx(0.6931472)


def test_only_rows_under_the_mask_are_scored():
    nodes = batch_of("node", torch.tensor([0, 1, 1]), mask=torch.tensor([True, False, True]))
    scores, targets = Task(level="node", kind="classification", out_channels=2).select(
        torch.randn(6, 2), nodes, masked=True
    )
    assert targets.tolist() == [0, 1, 0, 1]
    assert scores.shape == (4, 2)


def test_a_batch_without_targets_has_loss_0_and_a_gradient():
    scores = torch.zeros(0, 2, requires_grad=True)
    loss = Task(level="node", kind="classification", out_channels=2).loss_of(scores, torch.zeros(0, dtype=torch.long))
    loss.backward()
    assert float(loss.detach()) == 0.0


def test_an_output_of_another_level_is_refused():
    nodes = batch_of("node", torch.tensor([0, 1, 2]))
    with pytest.raises(ShapeError):
        Task(level="node", kind="classification", out_channels=3).select(torch.zeros(2, 3), nodes)
    with pytest.raises(ShapeError):
        Task(level="node", kind="classification", out_channels=3).select(torch.zeros(6, 2), nodes)
    with pytest.raises(ShapeError, match="targets of shape"):
        Task(level="graph", kind="regression", out_channels=1).select(torch.zeros(2, 1), nodes)


def test_graphs_without_targets_are_refused():
    packed = PackedGraphs.from_data_list([Data(x=torch.ones(3, 2), edge_index=PATH)])
    with pytest.raises(DataError, match="y"):
        Task(level="node", kind="classification", out_channels=2).select(torch.zeros(3, 2), packed.batch(slice(None)))


def test_accuracy_is_in_percent_and_better_means_higher_or_lower_after_the_metric():
    task = Task(level="node", kind="classification", out_channels=2)
    assert float(task.score(torch.tensor([[1.0, 0.0], [1.0, 0.0]]), torch.tensor([0, 1]))) == 50.0
    assert Task(level="node", kind="classification", out_channels=2).is_better(2.0, than=1.0)
    assert not Task(level="node", kind="classification", out_channels=2).is_better(1.0, than=1.0)
    assert Task(level="graph", kind="regression", out_channels=1).is_better(1.0, than=2.0)
    assert Task(level="graph", kind="regression", out_channels=1).is_better(1.0, than=None)
    assert Task(level="graph", kind="regression", out_channels=1).is_better(1.0, than=float("nan"))


def test_a_task_survives_json():
    task = Task(level="node", kind="classification", out_channels=2, classes=("no", "yes"), log_metrics=("roc_auc",))
    assert Task.from_json(task.to_json()) == task
    assert LinkTask.from_json((ranked := LinkTask(metric="mrr", log_metrics=("hits@7", "auc"))).to_json()) == ranked
    assert list(ranked.numbers()) == ["hits@7", "auc"]
    with pytest.raises(OptionError, match="log_metrics"):
        LinkTask(metric="mrr", log_metrics=("accuracy",))
    with pytest.raises(OptionError, match="colour"):
        Task.from_json(task.to_json() | {"colour": 1})
    with pytest.raises(OptionError):
        Task.from_json({"level": "node"})


@pytest.mark.parametrize(
    "wrong",
    [
        {"level": "atom"},
        {"kind": "ranking"},
        {"out_channels": 1},
        {"loss": "l1"},
        {"metric": "mae"},
        {"label_smoothing": 1.0},
        {"label_smoothing": "some"},
        {"classes": ("a",)},
        {"metric": "f1_positive", "out_channels": 3},
        {"metric": "f1_positive_by_batch", "out_channels": 3},
        {"metric": "roc_auc", "out_channels": 3},
        {"kind": "multilabel", "loss": "", "metric": "", "label_smoothing": 0.1},
        {"kind": "regression", "loss": "l1", "metric": "mae", "label_smoothing": 0.1},
        {"kind": "multilabel", "loss": "", "metric": "accuracy"},
        {"log_metrics": ("mae",)},
        {"log_metrics": ("hits@5",)},
        {"log_metrics": ("accuracy",)},
        {"log_metrics": ("f1_positive", "f1_positive")},
        {"log_metrics": ("roc_auc",), "out_channels": 3},
    ],
)
def test_a_task_that_cannot_be_is_refused(wrong):
    right = {
        "level": "node",
        "kind": "classification",
        "out_channels": 2,
        "loss": "cross_entropy",
        "metric": "accuracy",
    }
    with pytest.raises(OptionError):
        Task(**(right | wrong))


def test_every_metric_knows_its_kind_and_its_heading():
    kinds = {kind for metric in METRICS.values() for kind in metric.kinds}
    assert kinds == {"classification", "multilabel", "regression", "link"}
    for name in ("weighted_accuracy", "accuracy", "f1_positive", "mae"):
        assert METRICS[f"{name}_by_batch"].name == METRICS[name].name


@pytest.mark.parametrize("level", ["node", "edge", "graph"])
@pytest.mark.parametrize(
    ("kind", "loss", "metric"),
    [
        ("classification", "cross_entropy", "accuracy"),
        ("multilabel", "binary_cross_entropy", "average_precision"),
        ("regression", "l1", "mae"),
    ],
)
def test_loss_and_metric_are_those_of_the_kind(level, kind, loss, metric):
    task = Task(level=level, kind=kind, out_channels=2)
    assert (task.loss, task.metric) == (loss, metric)


@pytest.mark.parametrize(
    ("written", "average", "read"),
    [
        ("weighted_accuracy", "batches", "weighted_accuracy_by_batch"),
        ("accuracy", "batches", "accuracy_by_batch"),
        ("accuracy", "samples", "accuracy"),
        ("f1_positive", "batches", "f1_positive_by_batch"),
    ],
)
def test_tasks_that_version_0_1_wrote_are_read(written, average, read):
    values = {"level": "node", "kind": "classification", "out_channels": 2, "loss": "cross_entropy", "classes": None}
    assert Task.from_json(values | {"metric": written, "average": average}).metric == read
    with pytest.raises(OptionError, match="days"):
        Task.from_json(values | {"metric": written, "average": "days"})


def test_label_smoothing_is_torch_s():
    task = Task(level="node", kind="classification", out_channels=3, label_smoothing=0.2)
    scores, labels = torch.randn(9, 3), torch.randint(3, (9,))
    expected = torch.nn.functional.cross_entropy(scores, labels, label_smoothing=0.2)
    torch.testing.assert_close(task.loss_of(scores, labels), expected)
    assert Task.from_json(task.to_json()) == task


PROTOCOL = {
    "PATTERN": ("weighted_cross_entropy", "weighted_accuracy_by_batch"),
    "CLUSTER": ("weighted_cross_entropy", "weighted_accuracy_by_batch"),
    "ZINC": ("l1", "mae_by_batch"),
    "MNIST": ("cross_entropy", "accuracy"),
    "CIFAR10": ("cross_entropy", "accuracy"),
    "TSP": ("cross_entropy", "f1_positive_by_batch"),
}


@pytest.mark.parametrize("name", PROTOCOL)
def test_every_data_set_has_the_benchmark_s_loss_and_metric(name):
    task = task_of(name.lower())
    assert (task.loss, task.metric) == PROTOCOL[name]


def test_an_unknown_data_set_is_refused():
    with pytest.raises(OptionError, match="PATTERN"):
        task_of("ZINK")


def test_the_metric_is_the_named_one():
    positive, negative = torch.randn(20), torch.randn(30)
    assert LinkTask(metric="hits@5").score(positive, negative) == hits_at_k(positive, negative, 5)
    assert LinkTask(metric="mrr").score(positive, negative) == mrr(positive, negative)
    assert LinkTask(metric="auc").score(positive, negative) == auc(positive, negative)
    assert LinkTask(metric="hits@20").metric_facts.name == "Hits@20"


def test_the_loss_is_the_cross_entropy_of_both_kinds_of_pairs():
    positive, negative = torch.randn(9), torch.randn(5)
    expected = -torch.log(torch.sigmoid(positive)).mean() - torch.log(1 - torch.sigmoid(negative)).mean()
    torch.testing.assert_close(LinkTask().loss_of(positive, negative), expected)
    wide = LinkTask().loss_of(torch.tensor([-200.0]), torch.tensor([200.0]))
    assert float(wide) == 400.0  # where the logarithm of a rounded sigmoid would be infinite


def test_a_task_survives_json_and_refuses_what_it_does_not_know():
    task = LinkTask(metric="mrr", negatives="no_edge")
    assert LinkTask.from_json(task.to_json()) == task
    for wrong in ({"metric": "accuracy"}, {"negatives": "none"}, {"kind": "node"}, {"colour": "red"}):
        with pytest.raises(OptionError):
            LinkTask.from_json(task.to_json() | wrong)


def test_hits_at_any_k_is_a_metric():
    positive, negative = torch.linspace(0, 1, 40), torch.linspace(0, 1, 200)
    assert float(LinkTask(metric="hits@7").score(positive, negative)) == float(hits_at_k(positive, negative, 7))
    assert LinkTask(metric="hits@7").metric_facts.name == "Hits@7"
    assert "hits@7" in METRICS
    for name in ("hits@0", "hits@", "hits@x", "hits"):
        assert name not in METRICS
        with pytest.raises(OptionError, match="metric"):
            LinkTask(metric=name)
        with pytest.raises(KeyError):
            METRICS[name]


@pytest.mark.parametrize("found", [[METRICS["accuracy"]], {"accuracy": "accuracy"}, None])
def test_own_numbers_that_are_not_metrics_by_name_are_an_error(found):
    class Own(Task):
        def numbers(self):
            return found

    task = Own(level="node", kind="classification", out_channels=2)
    with pytest.raises(OptionError, match=r"numbers\(\) to return a dict of Metric by name, got .*lrga.tasks.Metric"):
        task.logged()
