import pytest
import torch
import torch.nn.functional as F

from lrga.errors import OptionError
from lrga.tasks.link import LinkTask, score_pairs
from lrga.tasks.ranking import auc, hits, mrr
from lrga.tasks.task import METRICS


def test_the_metric_is_the_named_one():
    positive, negative = torch.randn(20), torch.randn(30)
    assert LinkTask(metric="hits@5").score(positive, negative) == hits(positive, negative, 5)
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


@pytest.mark.parametrize("batch_size", [1, 4, 100])
def test_scores_do_not_depend_on_how_many_are_made_at_a_time(batch_size):
    h, pairs = torch.randn(10, 3), torch.randint(10, (23, 2))
    seen = []

    def score(part):
        seen.append(part.size(1))
        return (h[part[0]] * h[part[1]]).sum(-1)

    found = score_pairs(score, pairs, batch_size=batch_size)
    torch.testing.assert_close(
        found,
        F.cosine_similarity(h[pairs[:, 0]], h[pairs[:, 1]]) * h[pairs[:, 0]].norm(dim=1) * h[pairs[:, 1]].norm(dim=1),
    )
    assert max(seen) <= batch_size


def test_hits_at_any_k_is_a_metric():
    positive, negative = torch.linspace(0, 1, 40), torch.linspace(0, 1, 200)
    assert float(LinkTask(metric="hits@7").score(positive, negative)) == float(hits(positive, negative, 7))
    assert LinkTask(metric="hits@7").metric_facts.name == "Hits@7"
    assert "hits@7" in METRICS
    for name in ("hits@0", "hits@", "hits@x", "hits"):
        assert name not in METRICS
        with pytest.raises(OptionError, match="metric"):
            LinkTask(metric=name)
        with pytest.raises(KeyError):
            METRICS[name]
