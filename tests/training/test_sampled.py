"""Training on one graph with masks: as a whole in captured steps, and in sampled subgraphs."""

import pytest
import torch
from link_graphs import PauseAfter, continued
from torch_geometric.data import Data

import lrga
from lrga.data import PackedGraphs, from_neighbor_batch
from lrga.errors import OptionError
from lrga.tasks import Task
from lrga.training import OptimizerConfig, Trainer, train
from lrga.training.presets import make_config as config_of
from lrga.training.problems.data import plan_run
from lrga.training.problems.graphs import GraphProblem, SampledProblem

TASK = Task(level="node", kind="classification", out_channels=2)


def one_graph(nodes=120, seed=0):
    """Two communities whose features tell them apart, with the nodes of each split in masks."""
    generator = torch.Generator().manual_seed(seed)
    y = torch.arange(nodes) % 2
    ends = torch.randint(0, nodes // 2, (2, 6 * nodes), generator=generator) * 2 + torch.arange(6 * nodes) % 2
    part = torch.randperm(nodes, generator=generator) % 3
    masks = {f"{split}_mask": part == number for number, split in enumerate(("train", "val", "test"))}
    x = torch.rand(nodes, 3, generator=generator) + y.unsqueeze(1) * 0.3
    return Data(x=x, edge_index=torch.cat([ends, ends.flip(0)], 1), y=y, **masks)


@pytest.fixture
def splits():
    return lrga.data.load_custom(one_graph()).splits


def make_trainer(splits, problem=SampledProblem, checkpointer=None, engine="plain", dtype=torch.float32, **options):
    torch.manual_seed(0)
    if problem is SampledProblem:
        options = {"fanouts": [4, 3], "batch_size": 16} | options
    model = lrga.GNN(3, 8, 2, 2, conv="gcn", rank=3).to(splits["train"].device, dtype)
    config = OptimizerConfig(**({"max_epochs": 3, "lr": 0.01} | options))
    return Trainer(problem(model, TASK, splits, config, seed=1), checkpointer=checkpointer, engine=engine)


def test_an_epoch_has_every_training_node_as_a_seed_once(splits):
    problem = make_trainer(splits).problem
    batches = list(problem.epoch_batches(0, 0))
    seeds = torch.cat([batch.attribute("n_id")[: batch.num_seeds] for batch in batches])
    assert [batch.num_seeds for batch in batches] == [16, 16, 8]
    assert len(batches) == problem.batches
    assert sorted(seeds.tolist()) == splits["train"].attribute("mask").nonzero().flatten().tolist()
    later = torch.cat([batch.attribute("n_id")[: batch.num_seeds] for batch in problem.epoch_batches(1, 0)])
    assert not torch.equal(seeds, later)
    (last,) = problem.epoch_batches(0, 2)
    assert torch.equal(last.edge_index, batches[2].edge_index)


def test_the_loss_is_that_of_the_seeds(splits):
    problem = make_trainer(splits).problem
    batch = next(problem.epoch_batches(0, 0))
    expected = torch.nn.functional.cross_entropy(problem.model(batch.x, batch.edges)[:16], batch.y[:16])
    torch.testing.assert_close(problem.step_loss(batch, 0, 0).loss, expected)


def test_all_neighbours_of_all_seeds_without_attention_train_as_the_whole_graph(splits):
    """One batch of all training nodes, with all that two layers see; no norm, which would look at every row."""
    found = []
    for problem, options in ((SampledProblem, {"fanouts": [-1, -1], "batch_size": 1000}), (GraphProblem, {})):
        torch.manual_seed(0)
        model = lrga.GNN(3, 8, 2, 2, conv="gcn", batch_norm=False).double()
        trainer = Trainer(problem(model, TASK, splits, OptimizerConfig(max_epochs=4, lr=0.01, **options), seed=1))
        trainer.fit()
        found.append(trainer.last)
    for key in ("train_loss", "train_metric", "val_loss", "test_loss"):
        assert getattr(found[0], key) == pytest.approx(getattr(found[1], key), rel=1e-8), key


def test_a_run_that_is_taken_up_within_an_epoch_ends_as_it_would_have_to_the_last_bit(splits):
    whole, first = make_trainer(splits), make_trainer(splits, checkpointer=PauseAfter(4))
    whole.fit()
    assert first.fit() == "time_limit"
    second = continued(first, lambda: make_trainer(splits))
    second.fit()
    assert all(torch.equal(value, second.weights()[name]) for name, value in whole.weights().items())


def test_a_sampled_run_learns_and_says_how_it_trains(tmp_path, make_config):
    config = make_config(fanouts=(4, 3), batch_size=16, max_epochs=15, lr=0.01, engine="captured")
    result = train(config, tmp_path / "run", data=one_graph())
    assert result.best.val_metric > 85
    log = (tmp_path / "run" / "log.txt").read_text()
    assert "steps train on sampled subgraphs, within which LRGA attends" in log
    assert "plain loop: sampled subgraphs differ in shape" in log


def test_a_batch_of_neighbor_loader_makes_a_step(splits):
    trainer = make_trainer(splits, GraphProblem)
    before = {name: value.clone() for name, value in trainer.model.state_dict().items()}
    data = Data(
        x=torch.rand(4, 3), edge_index=torch.tensor([[2, 3], [0, 1]]), y=torch.tensor([0, 1, 1, 1]),
        n_id=torch.tensor([5, 9, 2, 3]), batch_size=2,
    )  # fmt: skip
    trainer.step(from_neighbor_batch(data))
    assert any(not torch.equal(value, before[name]) for name, value in trainer.model.named_parameters())


def test_what_cannot_be_sampled_is_refused(make_splits, make_config, splits, tmp_path, monkeypatch):
    with pytest.raises(OptionError, match="PATTERN has many"):
        config_of("PATTERN", fanouts=[10, 5])
    with pytest.raises(OptionError, match="fanouts"):
        config_of("ogbl-ddi", fanouts=[10, 5])
    options = OptimizerConfig(fanouts=[2])
    with pytest.raises(lrga.errors.DataError, match="one graph"):
        SampledProblem(lrga.GNN(3, 8, 2, 2), TASK, make_splits(), options)
    edge_task = Task(level="edge", kind="classification", out_channels=2)
    with pytest.raises(OptionError, match="only for node classification"):
        SampledProblem(lrga.GNN(3, 8, 2, 2, task="edge"), edge_task, splits, options)
    monkeypatch.setattr("lrga.training.problems.data.world_size", lambda: 2)
    with pytest.raises(OptionError, match="one process for fanouts"):
        train(make_config(fanouts=[2]), tmp_path / "run", data=one_graph())


def test_batches_of_a_plan_are_of_seed_nodes_or_the_graph():
    whole, sampled = config_of("Cora"), config_of("Cora", fanouts=[10, 5])
    assert plan_run(whole)["batches_per_epoch"] == 1
    assert (sampled.optimizer.batch_size, plan_run(sampled)["batches_per_epoch"]) == (512, 1)
    assert plan_run(config_of("Cora", fanouts=[10, 5], batch_size=20))["batches_per_epoch"] == 7


def test_captured_steps_on_one_masked_graph_are_those_of_the_plain_loop(splits):
    trainers = [make_trainer(splits, GraphProblem, engine=e, dtype=torch.float64) for e in ("plain", "captured")]
    for trainer in trainers:
        trainer.fit()
    assert trainers[1].engine is not None
    plain, captured = (trainer.last for trainer in trainers)
    for key in ("train_loss", "train_metric", "val_loss", "val_metric", "test_loss", "test_metric"):
        assert getattr(captured, key) == pytest.approx(getattr(plain, key), rel=1e-8), key


def test_splits_of_one_graph_share_what_captured_steps_read(splits):
    train_set, val_set = splits["train"].padded, splits["val"].padded
    assert train_set is not val_set
    for name in ("table", "_source", "_target", "_order", "_in_start", "_out_start"):
        assert getattr(train_set, name) is getattr(val_set, name), name
    moved = PackedGraphs.move(splits, "cpu")
    assert moved["train"].transposed is moved["test"].transposed
