import sys
from dataclasses import replace
from pathlib import Path

import pytest
import torch

sys.path.insert(0, str(Path(__file__).parent))
from link_graphs import communities

from lrga.errors import OptionError
from lrga.models.embeddings import DeepWalk, Node2Vec
from lrga.training.problems.link_config import LinkConfig
from lrga.training.problems.walks import WalkProblem
from lrga.training.trainer import Trainer

OPTIONS = LinkConfig(walk_length=6, walk_context=3, walks_per_node=2, walk_batch_size=16, walk_epochs=2)


def made(kind=Node2Vec, **options):
    data = communities()
    return WalkProblem(kind(data.num_nodes, 8), data, OPTIONS, seed=1, **options), data


def test_walks_begin_in_every_node_and_follow_edges():
    problem, data = made()
    known = {tuple(p) for p in data.edge_index.t().tolist()}
    starts = []
    for walks, false in problem.epoch_batches(0, 0):
        assert walks.shape == false.shape
        assert walks.size(1) == 7
        assert torch.equal(walks[:, 0], false[:, 0])
        assert {tuple(p) for p in walks.unfold(1, 2, 1).flatten(0, 1).tolist()} <= known
        starts += walks[:, 0].tolist()
    assert sorted(starts) == sorted([*range(data.num_nodes)] * 2)


def test_the_loss_of_a_step_is_that_of_all_windows_of_its_walks():
    problem, _ = made()
    batch = next(problem.epoch_batches(0, 0))
    walks, false = (part.unfold(1, 3, 1).flatten(0, 1) for part in batch)
    expected = problem.model.walk_loss(walks, false)
    torch.testing.assert_close(problem.step_loss(batch, 0, 0).value, expected.detach())


def test_training_changes_all_tables_and_nothing_else():
    problem, _ = made(DeepWalk)
    model = problem.model
    before = [p.clone() for p in (model.embedding.weight, model.context.weight)]
    predictor = [p.clone() for p in model.predictor.parameters()]
    assert Trainer(problem).fit() == "max_epochs"
    for old, new in zip(before, (model.embedding.weight, model.context.weight), strict=True):
        assert not torch.equal(old, new)
    assert all(torch.equal(a, b) for a, b in zip(predictor, model.predictor.parameters(), strict=True))


def test_samples_follow_from_seed_epoch_and_batch():
    (first, _), (second, _) = made(), made()
    draws = [next(first.epoch_batches(0, 1)), next(second.epoch_batches(0, 1)), next(second.epoch_batches(1, 1))]
    assert all(torch.equal(a, b) for a, b in zip(draws[0], draws[1], strict=True))
    assert not torch.equal(draws[0][0], draws[2][0])


@pytest.mark.parametrize("option", ["walk_length", "walks_per_node"])
def test_walks_that_no_memory_holds_are_refused_at_once(option):
    data = communities()
    with pytest.raises(OptionError, match="the walks of a batch to fit into memory"):
        WalkProblem(Node2Vec(data.num_nodes, 8), data, replace(OPTIONS, **{option: 10**13}), seed=1)
