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
from lrga.training.problems.walk_trainer import WalkTrainer

OPTIONS = LinkConfig(walk_length=6, walk_context=3, walks_per_node=2, walk_batch_size=16, walk_epochs=2)


def made(kind=Node2Vec, **options):
    data = communities()
    return WalkTrainer(kind(data.num_nodes, 8), data, OPTIONS, seed=1, **options), data


def test_walks_begin_in_every_node_and_follow_edges():
    trainer, data = made()
    known = {tuple(p) for p in data.edge_index.t().tolist()}
    starts = []
    for batch in range(trainer.batches):
        trainer.batch = batch
        walks, false = trainer.sample()
        assert walks.shape == false.shape
        assert walks.size(1) == 7
        assert torch.equal(walks[:, 0], false[:, 0])
        assert {tuple(p) for p in walks.unfold(1, 2, 1).flatten(0, 1).tolist()} <= known
        starts += walks[:, 0].tolist()
    assert sorted(starts) == sorted([*range(data.num_nodes)] * 2)


def test_the_loss_of_a_step_is_that_of_all_windows_of_its_walks():
    trainer, _ = made()
    walks, false = (part.unfold(1, 3, 1).flatten(0, 1) for part in trainer.sample())
    expected = trainer.model.walk_loss(walks, false)
    torch.testing.assert_close(trainer.step(), expected.detach())


def test_a_step_changes_all_tables_and_counts():
    trainer, _ = made(DeepWalk)
    before = [p.clone() for p in (trainer.model.embedding.weight, trainer.model.context.weight)]
    predictor = [p.clone() for p in trainer.model.predictor.parameters()]
    while not trainer.finished:
        trainer.step()
    assert (trainer.epoch, trainer.batch) == (2, 0)
    for old, new in zip(before, (trainer.model.embedding.weight, trainer.model.context.weight), strict=True):
        assert not torch.equal(old, new)
    assert all(torch.equal(a, b) for a, b in zip(predictor, trainer.model.predictor.parameters(), strict=True))


def test_samples_follow_from_seed_epoch_and_batch():
    (first, _), (second, _) = made(), made()
    assert all(torch.equal(a, b) for a, b in zip(first.sample(), second.sample(), strict=True))
    second.epoch = 1
    assert not torch.equal(next(iter(first.sample())), next(iter(second.sample())))


@pytest.mark.parametrize("option", ["walk_length", "walks_per_node"])
def test_walks_that_no_memory_holds_are_refused_at_once(option):
    data = communities()
    with pytest.raises(OptionError, match="the walks of a batch to fit into memory"):
        WalkTrainer(Node2Vec(data.num_nodes, 8), data, replace(OPTIONS, **{option: 10**13}), seed=1)
