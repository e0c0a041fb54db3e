import math

import numpy as np
import pytest
import torch
from sklearn.metrics import average_precision_score, roc_auc_score

from lrga.errors import DataError, DTypeError, NonFiniteError, ShapeError
from lrga.tasks.ranking import auc, average_precision, hits, mrr, roc_auc


def draw(kind, seed):
    """Scores, random or adversarial."""
    rng = np.random.default_rng(seed)
    sizes = rng.integers(1, 60, 2)
    if kind == "ties":
        return rng.integers(0, 4, sizes[0]).astype(float), rng.integers(0, 4, sizes[1]).astype(float)
    if kind == "constant":
        return np.ones(sizes[0]), np.ones(sizes[1])
    if kind == "infinite":
        values = np.array([-np.inf, 0.0, 1.0, np.inf])
        return rng.choice(values, sizes[0]), rng.choice(values, sizes[1])
    return rng.standard_normal(sizes[0]), rng.standard_normal(sizes[1])


def ogb_hits(positive, negative, k):
    """The definition of OGB's evaluator, in numpy."""
    if len(negative) < k:
        return 1.0
    return float((positive > np.sort(negative)[-k]).sum()) / len(positive)


def ogb_mrr(positive, negative):
    """The same of its mean reciprocal rank; ``negative`` [P, M]."""
    optimistic = (negative > positive[:, None]).sum(1)
    pessimistic = (negative >= positive[:, None]).sum(1)
    return float((1.0 / (0.5 * (optimistic + pessimistic) + 1)).mean())


KINDS = ["random", "ties", "constant", "infinite"]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("seed", range(6))
def test_metrics_equal_ogbs_evaluator_and_scikit_learn(kind, seed):
    positive, negative = draw(kind, seed)
    p, n = torch.from_numpy(positive), torch.from_numpy(negative)
    for k in (1, 3, len(negative), len(negative) + 1, 100):
        assert float(hits(p, n, k)) == ogb_hits(positive, negative, k)
    shared = np.broadcast_to(negative, (len(positive), len(negative)))
    assert float(mrr(p, n)) == pytest.approx(ogb_mrr(positive, shared), rel=1e-14)
    own = np.random.default_rng(seed).permuted(np.array(shared), axis=1)[:, : max(1, len(negative) // 2)]
    assert float(mrr(p, torch.from_numpy(own))) == pytest.approx(ogb_mrr(positive, own), rel=1e-14)
    labels = np.r_[np.ones(len(positive)), np.zeros(len(negative))]
    finite = np.nan_to_num(np.r_[positive, negative], posinf=9e9, neginf=-9e9)  # which scikit-learn asks for
    assert float(auc(p, n)) == pytest.approx(roc_auc_score(labels, finite), rel=1e-13)


def test_fewer_than_k_negatives_are_a_hit():
    assert float(hits(torch.tensor([-1.0]), torch.tensor([5.0, 6.0]), 3)) == 1.0
    assert float(hits(torch.tensor([-1.0]), torch.empty(0), 1)) == 1.0


@pytest.mark.parametrize("metric", [mrr, auc, lambda p, n: hits(p, n, 1)])
def test_nan_and_empty_scores_are_refused(metric):
    good = torch.tensor([1.0, 2.0])
    for bad in ((torch.tensor([1.0, math.nan]), good), (good, torch.tensor([math.nan]))):
        with pytest.raises(NonFiniteError, match="NaN"):
            metric(*bad)
    with pytest.raises(ShapeError, match="positive"):
        metric(torch.empty(0), good)
    with pytest.raises(DTypeError):
        metric(torch.tensor([True]), good)


def test_negatives_of_another_number_of_rows_are_refused():
    with pytest.raises(ShapeError, match="2 rows for 3 positives"):
        mrr(torch.zeros(3), torch.zeros(2, 5))


def test_half_precision_is_compared_exactly():
    positive, negative = torch.tensor([0.5], dtype=torch.bfloat16), torch.tensor([0.5001])
    assert float(hits(positive, negative, 1)) == 0.0


@pytest.mark.parametrize("shape", [(), (2, 3, 4)])
def test_negatives_of_another_shape_are_refused(shape):
    with pytest.raises(ShapeError, match=r"\[P, M\] or \[M\]"):
        mrr(torch.rand(2), torch.rand(shape))


def draw_labels(kind, seed, width=6):
    """Scores and labels of several tasks: some missing, some of one class only."""
    rng = np.random.default_rng(seed)
    scores = rng.integers(0, 4, (40, width)).astype(float) if kind == "ties" else rng.standard_normal((40, width))
    labels = rng.integers(0, 2, (40, width)).astype(float)
    labels[rng.random((40, width)) < 0.3] = np.nan
    labels[:, 0], labels[:, 1] = 1.0, np.nan
    return scores, labels


@pytest.mark.parametrize("kind", ["random", "ties"])
@pytest.mark.parametrize(("ours", "theirs"), [(roc_auc, roc_auc_score), (average_precision, average_precision_score)])
@pytest.mark.parametrize("seed", range(5))
def test_the_mean_over_labels_with_both_classes_is_scikit_learn_s(kind, ours, theirs, seed):
    scores, labels = draw_labels(kind, seed)
    expected = []
    for score, label in zip(scores.T[2:], labels.T[2:], strict=True):
        there = ~np.isnan(label)
        expected.append(theirs(label[there], score[there]))
    found = ours(torch.from_numpy(scores), torch.from_numpy(labels))
    assert float(found) == pytest.approx(np.mean(expected), rel=1e-13)


@pytest.mark.parametrize(("ours", "theirs"), [(roc_auc, roc_auc_score), (average_precision, average_precision_score)])
def test_scores_of_two_classes_rank_by_their_difference(ours, theirs):
    scores, labels = torch.randn(50, 2), torch.randint(0, 2, (50,))
    expected = theirs(labels, (scores[:, 1].double() - scores[:, 0].double()))
    assert float(ours(scores, labels)) == pytest.approx(expected, rel=1e-13)
    assert float(ours(scores[:, 1], labels)) == pytest.approx(theirs(labels, scores[:, 1]), rel=1e-13)


@pytest.mark.parametrize("metric", [roc_auc, average_precision])
def test_labels_that_cannot_be_ranked_are_refused(metric):
    with pytest.raises(DataError, match="both classes"):
        metric(torch.zeros(3, 2), torch.tensor([[1.0, math.nan]] * 3))
    with pytest.raises(DataError, match="labels 0 and 1"):
        metric(torch.zeros(3), torch.tensor([0, 1, 2]))
    with pytest.raises(ShapeError):
        metric(torch.zeros(3, 3), torch.zeros(3, 2))
    with pytest.raises(NonFiniteError):
        metric(torch.tensor([0.0, math.nan]), torch.tensor([0, 1]))
